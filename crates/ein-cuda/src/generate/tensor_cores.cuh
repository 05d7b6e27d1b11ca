
// ==== tensor cores, and copies that threads do not wait for ====
//
// Fragments of `mma.m16n8k16` (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"), where g = lane / 4
// and c = lane % 4; each word holds two values of 16 bits, the one of the lower index first:
//
//     A, 16 by 16:  a[0]: row g, columns 2c, 2c+1      a[1]: row g+8, the same
//                   a[2]: row g, columns 2c+8, 2c+9    a[3]: row g+8, the same
//     B, 16 by 8:   b[0]: rows 2c, 2c+1, column g      b[1]: rows 2c+8, 2c+9, column g
//     C, 16 by 8:   c[0], c[1]: row g, columns 2c, 2c+1;  c[2], c[3]: row g+8, the same

// The two types of 16 bits.
struct ein_BF16 {
    EIN_FN float from(unsigned short v) { return ein_from_bf16(v); }
    EIN_FN unsigned short to(float v) { return ein_to_bf16(v); }
    // The exponent of infinities and of what is no number.
    static constexpr unsigned beyond = 0x7f80u;
};
struct ein_F16 {
    EIN_FN float from(unsigned short v) { return ein_from_f16(v); }
    EIN_FN unsigned short to(float v) { return ein_to_f16(v); }
    static constexpr unsigned beyond = 0x7c00u;
};

// Two values as a word, each rounded to the nearest.
template <typename T> EIN_FN unsigned ein_pack(float low, float high);
template <> __device__ __forceinline__ unsigned ein_pack<ein_BF16>(float low, float high) {
#ifdef __CUDA_ARCH__
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return (unsigned)ein_to_bf16(low) | ((unsigned)ein_to_bf16(high) << 16);
#endif
}
template <> __device__ __forceinline__ unsigned ein_pack<ein_F16>(float low, float high) {
#ifdef __CUDA_ARCH__
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return (unsigned)ein_to_f16(low) | ((unsigned)ein_to_f16(high) << 16);
#endif
}

// The value of a word: the first or the second.
template <typename T> EIN_FN float ein_half(unsigned word, int which) {
    return T::from((unsigned short)(which ? word >> 16 : word));
}

#ifdef EIN_HOST
struct ein_HostProduct {
    float* c;
    const unsigned *a, *b;
};
template <typename T> static void ein_host_product(void** lanes, unsigned) {
    float a[16][16], b[16][8];
    for (int l = 0; l < 32; l++) {
        const ein_HostProduct* m = (const ein_HostProduct*)lanes[l];
        const int g = l / 4, c = l % 4;
        for (int r = 0; r < 4; r++)
            for (int h = 0; h < 2; h++) a[g + r % 2 * 8][2 * c + r / 2 * 8 + h] = ein_half<T>(m->a[r], h);
        for (int r = 0; r < 2; r++)
            for (int h = 0; h < 2; h++) b[2 * c + r * 8 + h][g] = ein_half<T>(m->b[r], h);
    }
    for (int l = 0; l < 32; l++) {
        const ein_HostProduct* m = (const ein_HostProduct*)lanes[l];
        for (int i = 0; i < 4; i++) {
            const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
            float sum = m->c[i];
            for (int k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
            m->c[i] = sum;
        }
    }
}
#endif

// c += a b, of 16 by 16 and 16 by 8, by a warp.
template <typename T> EIN_FN void ein_product(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
#ifdef EIN_HOST
template <typename T> EIN_FN void ein_product(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    ein_HostProduct own = {c, a, b};
    ein_shim_warp(ein_host_product<T>, &own);
}
#else
#define EIN_PRODUCT(T, NAME)                                                                                       \
    template <>                                                                                                    \
    __device__ __forceinline__ void ein_product<T>(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "     \
            "{%8, %9}, {%0, %1, %2, %3};"                                                                          \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                       \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                   \
    }
EIN_PRODUCT(ein_BF16, "bf16")
EIN_PRODUCT(ein_F16, "f16")
#endif

// Puts zeros in the place of infinities and of what is no number; whether there were some.
template <typename T> EIN_FN bool ein_bound(unsigned& word) {
    const bool low = (word & T::beyond) == T::beyond, high = ((word >> 16) & T::beyond) == T::beyond;
    word &= (low ? 0xffff0000u : 0xffffffffu) & (high ? 0x0000ffffu : 0xffffffffu);
    return low || high;
}

#ifndef EIN_HOST
EIN_FN unsigned ein_shared_address(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
#endif

#ifdef EIN_HOST
struct ein_HostMatrices {
    const void* row;
    unsigned words[4];
};
template <bool TURNED> static void ein_host_matrices(void** lanes, unsigned) {
    for (int l = 0; l < 32; l++) {
        ein_HostMatrices* own = (ein_HostMatrices*)lanes[l];
        const int g = l / 4, c = l % 4;
        for (int m = 0; m < 4; m++) {
            unsigned short two[2];
            for (int h = 0; h < 2; h++) {
                const int row = TURNED ? 2 * c + h : g, column = TURNED ? g : 2 * c + h;
                two[h] = ((const unsigned short*)((const ein_HostMatrices*)lanes[m * 8 + row])->row)[column];
            }
            own->words[m] = (unsigned)two[0] | ((unsigned)two[1] << 16);
        }
    }
}
#endif

// Four matrices of 8 by 8 out of shared memory: lane l gives row l % 8 of matrix l / 8, 16 bytes that begin at a multiple
// of 16. Of matrix m a lane gets row g, columns 2c, 2c+1; TURNED: rows 2c, 2c+1 of column g.
template <bool TURNED> EIN_FN void ein_matrices(unsigned (&words)[4], const void* row) {
#ifdef EIN_HOST
    ein_HostMatrices own = {row, {}};
    ein_shim_warp(ein_host_matrices<TURNED>, &own);
    for (int m = 0; m < 4; m++) words[m] = own.words[m];
#else
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(ein_shared_address(row)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(ein_shared_address(row)));
#endif
}

// 16 bytes from global to shared memory; zeros where it is not `real`, and nothing is read then. They are there for this
// thread after a wait, for others after a barrier as well.
EIN_FN void ein_copy_16(void* to, const void* from, bool real) {
#ifdef EIN_HOST
    if (real) {
        ein_shim_copy_async(to, from, 16);
    } else {
        for (int i = 0; i < 4; i++) ((unsigned*)to)[i] = 0;
    }
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ein_shared_address(to)), "l"(from),
                 "r"(real ? 16 : 0)
                 : "memory");
#endif
}

// Ends a group of copies.
EIN_FN void ein_copies_end() {
#ifdef EIN_HOST
    ein_shim_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most GROUPS of this thread's groups, the latest, are still on their way.
template <int GROUPS> EIN_FN void ein_copies_wait() {
#ifdef EIN_HOST
    ein_shim_copy_wait(GROUPS);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}

// 2^v, to some units of the last place; what is below the smallest normal number is 0.
EIN_FN float ein_exp2(float v) {
#ifdef EIN_HOST
    return exp2f(v);
#else
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
#endif
}
