
// ==== products of four warps (`wgmma`, architecture 90a alone) ====
//
// A group of four warps multiplies 64 rows by N columns, 16 deep, in the background: between `ein_group_begin` and
// `ein_group_end` it is given products, and `ein_group_wait` waits for all but so many of those groups. Until then nobody
// touches what they read or the registers that they add to. Warp w of the group has rows 16 w to 16 w + 15, in registers
// as `mma` has them: of every 8 columns row g, columns 2c and 2c+1, then row g + 8, the same; 16 columns of A likewise.
//
// Operands in shared memory are *lines* of 64 values, 128 bytes, of which eight make a block of 1024 bytes that begins at a
// multiple of that; word w (of 16 bytes) of line l is at place w ^ l % 8 of its line, so that eight lines lie in different
// banks (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", 128-byte swizzling). Lines are rows of A or
// columns of B where 16 consecutive values of a line are what is summed over (K-major), or what is summed over where
// columns are consecutive (MN-major). What is wider than 64 values is panels of lines, one after the other.

// Where the words of line `line` and value `place` begin, of panels of LINES lines.
template <int LINES> EIN_FN int ein_line(int line, int place) {
    return place / 64 * LINES * 128 + line * 128 + ((place / 8 % 8) ^ (line % 8)) * 16;
}

// The first multiple of 1024 in shared memory from `room` on.
EIN_FN unsigned char* ein_blocks(unsigned char* room) {
#ifdef EIN_HOST
    return room + (-(room - ein_shim_dynamic) & 1023);
#else
    return room + (-ein_shared_address(room) & 1023u);
#endif
}

// Describes an operand: `leading` bytes from one panel of MN-major columns to the next, `stride` bytes from eight lines to
// the next eight.
EIN_FN ein_u64 ein_operand(const unsigned char* at, int leading, int stride) {
#ifdef EIN_HOST
    const unsigned address = (unsigned)(at - ein_shim_dynamic);
#else
    const unsigned address = ein_shared_address(at);
#endif
    const ein_u64 swizzled = 1ull << 62;
    return swizzled | (ein_u64)((address & 0x3ffffu) >> 4) | ((ein_u64)(leading >> 4) << 16) | ((ein_u64)(stride >> 4) << 32);
}

#ifdef EIN_HOST
// What a thread has begun and not waited for.
struct ein_Begun {
    float* d;
    const float* saved;
    int columns, group;
    bool in_registers, add;
    ein_u64 a, b;
    // Of A in registers: the thread's two rows.
    float rows[2][16];
    float (*value)(unsigned short);
};
static struct ein_Groups {
    ein_Begun begun[48];
    // Of accumulators that are on their way: what they held. They hold NaN meanwhile, so that a missing wait shows.
    float* away[3];
    float saved[3][64];
    int count, group;
} ein_groups[384];

// An operand in shared memory by its description, as the hardware decodes it.
struct ein_Described {
    unsigned start, leading, stride;
    explicit ein_Described(ein_u64 of)
        : start((unsigned)(of & 0x3fff) << 4), leading((unsigned)(of >> 16 & 0x3fff) << 4),
          stride((unsigned)(of >> 32 & 0x3fff) << 4) {
        if (of >> 62 != 1 || (of >> 49 & 7) != 0) ein_shim_trap(__LINE__, "an operand that is not swizzled by 128 bytes");
    }
    // Value `place` of line `line`; `columns`: lines go on in panels.
    unsigned short at(bool columns, int line, int place) const {
        const unsigned panel = columns ? place / 64 * leading : 0, value = columns ? place % 64 : place;
        const unsigned at = start + panel + line / 8 * stride + line % 8 * 128 + value * 2;
        return *(const unsigned short*)(ein_shim_dynamic + (at ^ (at >> 3 & 0x70)));
    }
};

struct ein_HostRows {
    const unsigned* a;
    ein_Begun* own;
};
// Every lane gets its rows of A out of the registers of the lanes that have them.
static void ein_host_rows(void** lanes, unsigned) {
    for (int l = 0; l < 32; l++) {
        ein_HostRows* own = (ein_HostRows*)lanes[l];
        for (int from = l / 4 * 4; from < l / 4 * 4 + 4; from++)
            for (int r = 0; r < 4; r++)
                for (int h = 0; h < 2; h++)
                    own->own->rows[r % 2][from % 4 * 2 + r / 2 * 8 + h] =
                        own->own->value((unsigned short)(((ein_HostRows*)lanes[from])->a[r] >> (16 * h)));
    }
}

template <typename T> EIN_FN ein_Begun* ein_begin(float* d, int columns, bool add, ein_u64 b) {
    ein_Groups& own = ein_groups[threadIdx.x];
    if (own.count == 48) ein_shim_trap(__LINE__, "too many products that nobody waits for");
    ein_Begun* one = &own.begun[own.count++];
    *one = ein_Begun{d, 0, columns, own.group, false, add, 0, b, {}, T::from};
    int place = 0;
    for (int n = 0; n < 3; n++)
        if (own.away[n] == d) return one;
    while (place < 3 && own.away[place]) place++;
    if (place == 3) ein_shim_trap(__LINE__, "four accumulators are on their way");
    own.away[place] = d;
    for (int n = 0; n < columns / 2; n++) own.saved[place][n] = d[n], d[n] = ein_nan();
    one->saved = own.saved[place];
    return one;
}

EIN_FN void ein_finish(ein_Begun& one) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, g = lane / 4, c = lane % 4;
    if (one.saved)
        for (int n = 0; n < one.columns / 2; n++) one.d[n] = one.saved[n];
    if (!one.in_registers) {
        const ein_Described a(one.a);
        for (int h = 0; h < 2; h++)
            for (int k = 0; k < 16; k++) one.rows[h][k] = one.value(a.at(false, warp * 16 + h * 8 + g, k));
    }
    const ein_Described b(one.b);
    for (int n = 0; n < one.columns / 4; n++) {
        const int column = n / 2 * 8 + 2 * c + n % 2;
        float own[16];
        for (int k = 0; k < 16; k++)
            own[k] = one.value(one.in_registers ? b.at(true, k, column) : b.at(false, column, k));
        for (int h = 0; h < 2; h++) {
            float* d = one.d + n / 2 * 4 + h * 2 + n % 2;
            float sum = one.add ? *d : 0.0f;
            for (int k = 0; k < 16; k++) sum += one.rows[h][k] * own[k];
            *d = sum;
        }
    }
}
#endif

EIN_FN void ein_group_begin() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

EIN_FN void ein_group_end() {
#ifdef EIN_HOST
    ein_groups[threadIdx.x].group++;
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most GROUPS of the groups of products, the latest, are still on their way.
template <int GROUPS> EIN_FN void ein_group_wait() {
#ifdef EIN_HOST
    ein_Groups& own = ein_groups[threadIdx.x];
    int done = 0;
    for (; done < own.count && own.begun[done].group + GROUPS < own.group; done++) ein_finish(own.begun[done]);
    for (int n = done; n < own.count; n++) own.begun[n - done] = own.begun[n];
    own.count -= done;
    for (int place = 0; place < 3; place++) {
        bool away = false;
        for (int n = 0; n < own.count; n++) away |= own.begun[n].d == own.away[place];
        if (!away) own.away[place] = 0;
    }
    // The instruction is a whole warp's.
    __syncwarp();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
#endif
}

// What threads wrote to shared memory is there for products after this and a barrier.
EIN_FN void ein_written() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Keeps the compiler from moving what it does with registers to where products use them.
template <int N> EIN_FN void ein_held(float (&d)[N][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[n][i])::"memory");
#endif
}

// d = a b, or d += a b where it is to `add`: both factors in shared memory, K-major.
template <typename T, int N> EIN_FN void ein_group_product(float (&d)[N][4], ein_u64 a, ein_u64 b, bool add);
// d += a b: a in registers, b in shared memory, MN-major.
template <typename T, int N> EIN_FN void ein_group_product(float (&d)[N][4], const unsigned (&a)[4], ein_u64 b);
#if defined(EIN_HOST)
template <typename T, int N> EIN_FN void ein_group_product(float (&d)[N][4], ein_u64 a, ein_u64 b, bool add) {
    ein_begin<T>(&d[0][0], N * 8, add, b)->a = a;
}
template <typename T, int N> EIN_FN void ein_group_product(float (&d)[N][4], const unsigned (&a)[4], ein_u64 b) {
    ein_Begun* own = ein_begin<T>(&d[0][0], N * 8, true, b);
    own->in_registers = true;
    ein_HostRows rows = {a, own};
    ein_shim_warp(ein_host_rows, &rows);
}
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define EIN_REGISTERS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define EIN_REGISTERS_1 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define EIN_FOUR(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define EIN_MANY(n) \
    EIN_FOUR(n), EIN_FOUR(n + 1), EIN_FOUR(n + 2), EIN_FOUR(n + 3), EIN_FOUR(n + 4), EIN_FOUR(n + 5), EIN_FOUR(n + 6), \
        EIN_FOUR(n + 7)
// X, and the five numbers after it, are those of the operands that follow the registers.
#define EIN_GROUP_PRODUCT(T, NAME, N, REGISTERS, DS, X0, X1, X2, X3, X4, X5) \
    template <> __device__ __forceinline__ void ein_group_product<T, N>(float (&d)[N][4], ein_u64 a, ein_u64 b, bool add) { \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #X2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" NAME " {" \
                     REGISTERS "}, %" #X0 ", %" #X1 ", p, 1, 1, 0, 0;\n}\n" \
                     : DS \
                     : "l"(a), "l"(b), "r"((int)add)); \
    } \
    template <> \
    __device__ __forceinline__ void ein_group_product<T, N>(float (&d)[N][4], const unsigned (&a)[4], ein_u64 b) { \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #X5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" NAME " {" \
                     REGISTERS "}, {%" #X0 ", %" #X1 ", %" #X2 ", %" #X3 "}, %" #X4 ", p, 1, 1, 1;\n}\n" \
                     : DS \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1)); \
    }
#define EIN_BOTH EIN_MANY(0), EIN_MANY(8)
#define EIN_GROUP_PRODUCTS(T, NAME) \
    EIN_GROUP_PRODUCT(T, "64k16.f32." NAME "." NAME, 8, EIN_REGISTERS_0, EIN_MANY(0), 32, 33, 34, 35, 36, 37) \
    EIN_GROUP_PRODUCT(T, "128k16.f32." NAME "." NAME, 16, EIN_REGISTERS_0 ", " EIN_REGISTERS_1, EIN_BOTH, 64, 65, 66, 67, 68, 69)
EIN_GROUP_PRODUCTS(ein_BF16, "bf16")
EIN_GROUP_PRODUCTS(ein_F16, "f16")
#else
template <typename T, int N> EIN_FN void ein_group_product(float (&)[N][4], ein_u64, ein_u64, bool) { __trap(); }
template <typename T, int N> EIN_FN void ein_group_product(float (&)[N][4], const unsigned (&)[4], ein_u64) { __trap(); }
#endif
