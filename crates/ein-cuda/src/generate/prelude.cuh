// What the generated kernels count on. It includes nothing, so that NVRTC needs no headers and a host compiler with
// a shim (which defines EIN_HOST) takes it as it is.
//
// In memory bf16 and f16 are `unsigned short`, u8 and bool `unsigned char`. In registers bf16 and f16 are `float`s that
// the type can represent, bool is `bool`, and every other type is itself.

#define EIN_FN static __device__ __forceinline__

typedef unsigned long long ein_u64;

#ifdef __CUDACC_RTC__
// A translation unit uses some of what is here.
#pragma nv_diag_suppress 177
#define ein_bytes memcpy
#else
#define ein_bytes __builtin_memcpy
#endif

// ---- words: what one instruction loads or stores ----

#ifdef EIN_HOST
struct alignas(16) ein_16 { unsigned x, y, z, w; };
struct alignas(8) ein_8 { unsigned x, y; };
#else
typedef uint4 ein_16;
typedef uint2 ein_8;
#endif

template <int BYTES> struct ein_Word;
template <> struct ein_Word<1> { typedef unsigned char type; };
template <> struct ein_Word<2> { typedef unsigned short type; };
template <> struct ein_Word<4> { typedef unsigned type; };
template <> struct ein_Word<8> { typedef ein_8 type; };
template <> struct ein_Word<16> { typedef ein_16 type; };

// N elements as words of BYTES bytes, to which `from` is aligned.
template <int BYTES, int N, typename T> EIN_FN void ein_load(T (&to)[N], const T* from) {
    typedef typename ein_Word<BYTES>::type word;
    static_assert(N * sizeof(T) % BYTES == 0, "whole words");
#pragma unroll
    for (int n = 0; n < (int)(N * sizeof(T) / BYTES); n++) {
        const word w = ((const word*)from)[n];
        ein_bytes((char*)to + n * BYTES, &w, BYTES);
    }
}

template <int BYTES, int N, typename T> EIN_FN void ein_store(T* to, const T (&from)[N]) {
    typedef typename ein_Word<BYTES>::type word;
    static_assert(N * sizeof(T) % BYTES == 0, "whole words");
#pragma unroll
    for (int n = 0; n < (int)(N * sizeof(T) / BYTES); n++) {
        word w;
        ein_bytes(&w, (const char*)from + n * BYTES, BYTES);
        ((word*)to)[n] = w;
    }
}

// ---- faults ----

// Leaves a report in the record of 32 bytes at `fault` (row + 1, code, value, limit): of several the one of the lowest row.
EIN_FN void ein_fault(unsigned char* fault, long long row, long long code, long long value, long long limit) {
    ein_u64* record = (ein_u64*)fault;
    const ein_u64 held = 1ull << 63, mine = (ein_u64)row + 1;
    for (;;) {
        const ein_u64 old = *(volatile ein_u64*)record;
        if (old & held) continue;
        if (old != 0 && old <= mine) return;
        if (atomicCAS(record, old, held | mine) != old) continue;
        record[1] = (ein_u64)code;
        record[2] = (ein_u64)value;
        record[3] = (ein_u64)limit;
#ifndef EIN_HOST
        __threadfence();
#endif
        atomicExch(record, mine);
        return;
    }
}

// ---- bits ----

EIN_FN float ein_infinity() { return __int_as_float(0x7f800000); }
EIN_FN float ein_nan() { return __int_as_float(0x7fc00000); }

EIN_FN float ein_from_bf16(unsigned short bits) { return __int_as_float((int)((unsigned)bits << 16)); }

// To the nearest, halves to the even one.
EIN_FN unsigned short ein_to_bf16(float v) {
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
#else
    const unsigned x = (unsigned)__float_as_int(v);
    if (v != v) return (unsigned short)((x >> 16) | 0x40u);
    return (unsigned short)((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
#endif
}

EIN_FN float ein_from_f16(unsigned short bits) {
#ifdef __CUDA_ARCH__
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
#else
    const unsigned sign = (unsigned)(bits & 0x8000u) << 16, power = (bits >> 10) & 31u, rest = bits & 1023u;
    if (power == 31u) return __int_as_float((int)(sign | 0x7f800000u | (rest << 13)));
    if (power != 0u) return __int_as_float((int)(sign | ((power + 112u) << 23) | (rest << 13)));
    const float small = (float)rest * 5.9604644775390625e-8f;
    return sign ? -small : small;
#endif
}

// To the nearest, halves to the even one; what is too large becomes infinite.
EIN_FN unsigned short ein_to_f16(float v) {
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
#else
    const unsigned x = (unsigned)__float_as_int(v), sign = (x >> 16) & 0x8000u, size = x & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | ((size >> 13) & 1023u));
    if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (size >= 0x38800000u) {
        const unsigned moved = size - 0x38000000u;
        return (unsigned short)(sign | ((moved + 0xfffu + ((moved >> 13) & 1u)) >> 13));
    }
    // Adding 0.5 makes the last bit of the sum the last one of the small number, rounded.
    const float sum = __int_as_float((int)size) + 0.5f;
    return (unsigned short)(sign | ((unsigned)__float_as_int(sum) - 0x3f000000u));
#endif
}

EIN_FN float ein_round_bf16(float v) { return ein_from_bf16(ein_to_bf16(v)); }
EIN_FN float ein_round_f16(float v) { return ein_from_f16(ein_to_f16(v)); }

// ---- conversions: to integers they truncate and saturate, NaN gives 0; between integers they wrap ----

EIN_FN long long ein_to_i64(double v) {
    if (v != v) return 0;
    if (v >= 9223372036854775808.0) return 0x7fffffffffffffffll;
    if (v <= -9223372036854775808.0) return (long long)0x8000000000000000ull;
    return (long long)v;
}

EIN_FN int ein_to_i32(double v) {
    if (v != v) return 0;
    return v >= 2147483647.0 ? 0x7fffffff : v <= -2147483648.0 ? (int)0x80000000u : (int)v;
}

EIN_FN unsigned char ein_to_u8(double v) {
    return v >= 255.0 ? (unsigned char)255 : v > 0.0 ? (unsigned char)(int)v : (unsigned char)0;
}

// ---- arithmetic: integers wrap; sums and products of bools are "or" and "and" ----

EIN_FN double ein_add(double a, double b) { return a + b; }
EIN_FN float ein_add(float a, float b) { return a + b; }
EIN_FN long long ein_add(long long a, long long b) { return (long long)((ein_u64)a + (ein_u64)b); }
EIN_FN int ein_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
EIN_FN unsigned char ein_add(unsigned char a, unsigned char b) { return (unsigned char)(a + b); }
EIN_FN bool ein_add(bool a, bool b) { return a || b; }

EIN_FN double ein_sub(double a, double b) { return a - b; }
EIN_FN float ein_sub(float a, float b) { return a - b; }
EIN_FN long long ein_sub(long long a, long long b) { return (long long)((ein_u64)a - (ein_u64)b); }
EIN_FN int ein_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
EIN_FN unsigned char ein_sub(unsigned char a, unsigned char b) { return (unsigned char)(a - b); }

EIN_FN double ein_mul(double a, double b) { return a * b; }
EIN_FN float ein_mul(float a, float b) { return a * b; }
EIN_FN long long ein_mul(long long a, long long b) { return (long long)((ein_u64)a * (ein_u64)b); }
EIN_FN int ein_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
EIN_FN unsigned char ein_mul(unsigned char a, unsigned char b) { return (unsigned char)((unsigned)a * b); }
EIN_FN bool ein_mul(bool a, bool b) { return a && b; }

// `c + a * b`, the product unrounded.
EIN_FN double ein_mad(double a, double b, double c) { return fma(a, b, c); }
EIN_FN float ein_mad(float a, float b, float c) { return fmaf(a, b, c); }
EIN_FN long long ein_mad(long long a, long long b, long long c) { return ein_add(c, ein_mul(a, b)); }
EIN_FN int ein_mad(int a, int b, int c) { return ein_add(c, ein_mul(a, b)); }
EIN_FN unsigned char ein_mad(unsigned char a, unsigned char b, unsigned char c) { return ein_add(c, ein_mul(a, b)); }

// The larger and the smaller; NaN wins.
template <typename T> EIN_FN T ein_max(T a, T b) { return (a != a || a > b) ? a : b; }
template <typename T> EIN_FN T ein_min(T a, T b) { return (a != a || a < b) ? a : b; }

// Division towards minus infinity, 0 where the divisor is 0.
EIN_FN long long ein_div_int(long long a, long long b) {
    if (b == 0) return 0;
    if (b == -1) return ein_sub(0ll, a);
    const long long q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
EIN_FN long long ein_rem_int(long long a, long long b) {
    return b == 0 ? 0 : ein_sub(a, ein_mul(ein_div_int(a, b), b));
}
EIN_FN long long ein_fmod_int(long long a, long long b) { return (b == 0 || b == -1) ? 0 : a % b; }
EIN_FN long long ein_pow_int(long long a, long long b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? 1 - 2 * (b & 1) : 0;
    long long result = 1;
    for (; b > 0; b >>= 1) {
        if (b & 1) result = ein_mul(result, a);
        a = ein_mul(a, a);
    }
    return result;
}
EIN_FN long long ein_shl(long long a, long long by) {
    return (by >= 0 && by < 64) ? (long long)((ein_u64)a << by) : 0;
}
EIN_FN long long ein_shr(long long a, long long by) { return a >> ((by >= 0 && by < 64) ? by : 63); }

// The remainder with the sign of the divisor.
EIN_FN double ein_rem(double a, double b) {
    const double r = fmod(a, b);
    return (r != 0.0 && (r < 0.0) != (b < 0.0)) ? r + b : r;
}
EIN_FN float ein_rem(float a, float b) {
    const float r = fmodf(a, b);
    return (r != 0.0f && (r < 0.0f) != (b < 0.0f)) ? r + b : r;
}

// ---- functions ----

EIN_FN float ein_sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
EIN_FN double ein_sigmoid(double v) { return 1.0 / (1.0 + exp(-v)); }

// For what is rounded to 16 bits next: a few units of the last place of `float` are nothing there.
EIN_FN float ein_exp_short(float v) { return __expf(v); }
EIN_FN float ein_sigmoid_short(float v) { return __fdividef(1.0f, 1.0f + __expf(-v)); }

// The inverse of the error function: a guess of three digits, then three steps of Halley's method.
EIN_FN double ein_erfinv(double x) {
    const double a = fabs(x);
    if (a == 0.0) return x;
    if (a == 1.0) return copysign((double)ein_infinity(), x);
    if (!(a < 1.0)) return (double)ein_nan();
    const double l = log((1.0 - a) * (1.0 + a));
    const double b = 2.0 / (3.14159265358979323846 * 0.147) + 0.5 * l;
    double y = sqrt(sqrt(b * b - l / 0.147) - b);
    for (int n = 0; n < 3; n++) {
        const double above = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
        const double step = above / (1.12837916709551257390 * exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    return copysign(y, x);
}

// What a partial of maximum `own` is scaled by where the maximum is `all`; nothing seen weighs nothing.
EIN_FN float ein_scale(float own, float all) { return own == -ein_infinity() ? 0.0f : expf(own - all); }
EIN_FN double ein_scale(double own, double all) { return own == -(double)ein_infinity() ? 0.0 : exp(own - all); }

// ---- shuffles of what is wider than a word ----

EIN_FN float ein_down(float v, int by) { return __shfl_down_sync(0xffffffffu, v, by); }
EIN_FN double ein_down(double v, int by) { return __shfl_down_sync(0xffffffffu, v, by); }
EIN_FN long long ein_down(long long v, int by) { return __shfl_down_sync(0xffffffffu, v, by); }
EIN_FN int ein_down(int v, int by) { return __shfl_down_sync(0xffffffffu, v, by); }
EIN_FN unsigned char ein_down(unsigned char v, int by) {
    return (unsigned char)__shfl_down_sync(0xffffffffu, (int)v, by);
}
EIN_FN bool ein_down(bool v, int by) { return __shfl_down_sync(0xffffffffu, (int)v, by) != 0; }

// ---- folds: `none` is the identity; `push` takes a value, `join` another fold, which comes after; `down` is that of a
// lane further on. Where values are taken by another state than the one that joins, `done` gives the latter ----

template <typename T> struct ein_Ends;
template <> struct ein_Ends<double> {
    EIN_FN double low() { return -(double)ein_infinity(); }
    EIN_FN double high() { return (double)ein_infinity(); }
};
template <> struct ein_Ends<float> {
    EIN_FN float low() { return -ein_infinity(); }
    EIN_FN float high() { return ein_infinity(); }
};
template <> struct ein_Ends<long long> {
    EIN_FN long long low() { return (long long)0x8000000000000000ull; }
    EIN_FN long long high() { return 0x7fffffffffffffffll; }
};
template <> struct ein_Ends<int> {
    EIN_FN int low() { return (int)0x80000000u; }
    EIN_FN int high() { return 0x7fffffff; }
};
template <> struct ein_Ends<unsigned char> {
    EIN_FN unsigned char low() { return 0; }
    EIN_FN unsigned char high() { return 255; }
};
template <> struct ein_Ends<bool> {
    EIN_FN bool low() { return false; }
    EIN_FN bool high() { return true; }
};

#define EIN_PLAIN(NAME, NONE, COMBINE)                                                     \
    template <typename T> struct NAME {                                                    \
        T value;                                                                           \
        EIN_FN NAME none() { return NAME{NONE}; }                                          \
        __device__ __forceinline__ void push(T v) { value = COMBINE(value, v); }           \
        __device__ __forceinline__ void join(const NAME& o) { push(o.value); }             \
        __device__ __forceinline__ NAME down(int by) const { return NAME{ein_down(value, by)}; } \
        __device__ __forceinline__ NAME done() const { return *this; }                     \
    };
EIN_PLAIN(ein_Sum, (T)0, ein_add)
EIN_PLAIN(ein_Prod, (T)1, ein_mul)
EIN_PLAIN(ein_Max, ein_Ends<T>::low(), ein_max)
EIN_PLAIN(ein_Min, ein_Ends<T>::high(), ein_min)

// A sum of products, each added unrounded.
template <typename T> EIN_FN void ein_push(ein_Sum<T>& sum, T a, T b) { sum.value = ein_mad(a, b, sum.value); }

// Number, mean and sum of the squared distances from the mean (Chan, Golub and LeVeque 1983).
template <typename T> struct ein_Moments {
    T count, mean, m2;
    EIN_FN ein_Moments none() { return ein_Moments{(T)0, (T)0, (T)0}; }
    __device__ __forceinline__ void join(const ein_Moments& o) {
        if (o.count == (T)0) return;
        if (count == (T)0) {
            *this = o;
            return;
        }
        const T total = count + o.count, apart = o.mean - mean;
        m2 = m2 + (o.m2 + apart * apart * (count * o.count / total));
        // Weighted, not corrected: an infinite mean stays infinite.
        mean = (mean * count + o.mean * o.count) / total;
        count = total;
    }
    __device__ __forceinline__ ein_Moments down(int by) const {
        return ein_Moments{ein_down(count, by), ein_down(mean, by), ein_down(m2, by)};
    }
};

// Values on their way to moments: distances from the first of them, so that no large squares cancel, and no division
// for each.
template <typename T> struct ein_Values {
    T count, first, sum, apart, squares;
    EIN_FN ein_Values none() { return ein_Values{(T)0, (T)0, (T)0, (T)0, (T)0}; }
    __device__ __forceinline__ void push(T v) {
        if (count == (T)0) first = v;
        const T far = v - first;
        count += (T)1;
        sum += v;
        apart += far;
        squares = ein_mad(far, far, squares);
    }
    __device__ __forceinline__ ein_Moments<T> done() const {
        if (count == (T)0) return ein_Moments<T>::none();
        const T m2 = squares - apart * (apart / count);
        return ein_Moments<T>{count, sum / count, m2 < (T)0 ? (T)0 : m2};
    }
};

// Maximum and sum of exp(value - maximum) (Milakov and Gimelshein 2018).
template <typename T> struct ein_SoftMax {
    T max, sum;
    EIN_FN ein_SoftMax none() { return ein_SoftMax{ein_Ends<T>::low(), (T)0}; }
    __device__ __forceinline__ void push(T v) {
        if (v <= max) {
            sum += ein_scale(v, max);
        } else {
            const T all = ein_max(max, v);
            sum = sum * ein_scale(max, all) + ein_scale(v, all);
            max = all;
        }
    }
    __device__ __forceinline__ void join(const ein_SoftMax& o) {
        const T all = ein_max(max, o.max), low = ein_Ends<T>::low();
        const T a = max == low ? (T)0 : sum * ein_scale(max, all);
        sum = a + (o.max == low ? (T)0 : o.sum * ein_scale(o.max, all));
        max = all;
    }
    __device__ __forceinline__ ein_SoftMax down(int by) const {
        return ein_SoftMax{ein_down(max, by), ein_down(sum, by)};
    }
    __device__ __forceinline__ ein_SoftMax done() const { return *this; }
};

// The fold of a warp, in lane 0, in a fixed order.
template <typename S> EIN_FN void ein_warp(S& state) {
#pragma unroll
    for (int by = 16; by > 0; by >>= 1) state.join(state.down(by));
}

// The fold of `threads` threads that lie side by side in a block (a power of two; `rank` is a thread's number among
// them, `shared` has one place for every warp of the block): in the one of rank 0. All threads of the block call it.
template <typename S> EIN_FN void ein_block(S& state, int threads, int rank, int thread, S* shared) {
    for (int by = (threads < 32 ? threads : 32) / 2; by > 0; by >>= 1) state.join(state.down(by));
    if (threads <= 32) return;
    if ((thread & 31) == 0) shared[thread >> 5] = state;
    __syncthreads();
    if (rank == 0)
        for (int warp = 1; warp < threads / 32; warp++) state.join(shared[(thread >> 5) + warp]);
}

// Which of two (value, index) comes first in a sorted order: negative the former, positive the latter. NaN is larger than
// anything, of equal values the lower index comes first; index -1 stands for no element and comes last.
template <typename T> EIN_FN int ein_top_order(bool largest, T a, long long i, T b, long long j) {
    if ((i == -1) != (j == -1)) return i == -1 ? 1 : -1;
    const int rising = a < b ? -1 : a > b ? 1 : (int)(a != a) - (int)(b != b);
    if (rising != 0) return largest ? -rising : rising;
    return i < j ? -1 : i > j ? 1 : 0;
}
