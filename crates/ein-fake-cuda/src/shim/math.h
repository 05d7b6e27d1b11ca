// Follows shim.h: bits and arithmetic.

// ---- Bits.
template <class T, class F> static inline T ein_shim_cast(F f) {
  static_assert(sizeof(T) == sizeof(F), "a cast of bits keeps the size");
  T t;
  __builtin_memcpy(&t, &f, sizeof(T));
  return t;
}
static inline int __float_as_int(float v) { return ein_shim_cast<int>(v); }
static inline unsigned __float_as_uint(float v) { return ein_shim_cast<unsigned>(v); }
static inline float __int_as_float(int v) { return ein_shim_cast<float>(v); }
static inline float __uint_as_float(unsigned v) { return ein_shim_cast<float>(v); }
static inline long long __double_as_longlong(double v) { return ein_shim_cast<long long>(v); }
static inline double __longlong_as_double(long long v) { return ein_shim_cast<double>(v); }
static inline int __double2loint(double v) { return (int)__double_as_longlong(v); }
static inline int __double2hiint(double v) { return (int)(__double_as_longlong(v) >> 32); }
static inline double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((long long)(((ein_shim_word)(unsigned)hi << 32) | (unsigned)lo));
}
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (v >> i & 1u) << (31 - i);
  return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  ein_shim_word both = (ein_shim_word)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned select = s >> (4 * i) & 15, byte = (unsigned)(both >> (8 * (select & 7))) & 255;
    if (select & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((ein_shim_word)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline T __ldca(const T* p) { return *p; }
template <class T> static inline void __stcg(T* p, typename ein_shim_same<T>::type v) { *p = v; }
template <class T> static inline void __stcs(T* p, typename ein_shim_same<T>::type v) { *p = v; }
template <class T> static inline void __stwt(T* p, typename ein_shim_same<T>::type v) { *p = v; }
static inline size_t __cvta_generic_to_shared(const void* p) { return (size_t)p; }

// ---- Arithmetic.
#define EIN_SHIM_MATH1(NAME)                                                                                           \
  extern "C" double NAME(double);                                                                                      \
  extern "C" float NAME##f(float);                                                                                     \
  static inline float NAME(float v) { return __builtin_##NAME##f(v); }
#define EIN_SHIM_MATH2(NAME)                                                                                           \
  extern "C" double NAME(double, double);                                                                              \
  extern "C" float NAME##f(float, float);                                                                              \
  static inline float NAME(float a, float b) { return __builtin_##NAME##f(a, b); }
EIN_SHIM_MATH1(exp)
EIN_SHIM_MATH1(exp2)
EIN_SHIM_MATH1(expm1)
EIN_SHIM_MATH1(log)
EIN_SHIM_MATH1(log2)
EIN_SHIM_MATH1(log10)
EIN_SHIM_MATH1(log1p)
EIN_SHIM_MATH1(sqrt)
EIN_SHIM_MATH1(cbrt)
EIN_SHIM_MATH1(sin)
EIN_SHIM_MATH1(cos)
EIN_SHIM_MATH1(tan)
EIN_SHIM_MATH1(asin)
EIN_SHIM_MATH1(acos)
EIN_SHIM_MATH1(atan)
EIN_SHIM_MATH1(sinh)
EIN_SHIM_MATH1(cosh)
EIN_SHIM_MATH1(tanh)
EIN_SHIM_MATH1(asinh)
EIN_SHIM_MATH1(acosh)
EIN_SHIM_MATH1(atanh)
EIN_SHIM_MATH1(erf)
EIN_SHIM_MATH1(erfc)
EIN_SHIM_MATH1(tgamma)
EIN_SHIM_MATH1(lgamma)
EIN_SHIM_MATH1(fabs)
EIN_SHIM_MATH1(floor)
EIN_SHIM_MATH1(ceil)
EIN_SHIM_MATH1(trunc)
EIN_SHIM_MATH1(round)
EIN_SHIM_MATH1(rint)
EIN_SHIM_MATH1(nearbyint)
EIN_SHIM_MATH2(pow)
EIN_SHIM_MATH2(fmod)
EIN_SHIM_MATH2(fmin)
EIN_SHIM_MATH2(fmax)
EIN_SHIM_MATH2(atan2)
EIN_SHIM_MATH2(copysign)
EIN_SHIM_MATH2(hypot)
EIN_SHIM_MATH2(remainder)
EIN_SHIM_MATH2(nextafter)
EIN_SHIM_MATH2(fdim)
#undef EIN_SHIM_MATH1
#undef EIN_SHIM_MATH2
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
extern "C" long long llrint(double);
extern "C" long long llrintf(float);
extern "C" long lrintf(float);
extern "C" int abs(int);
static inline long long abs(long long v) { return v < 0 ? -v : v; }
static inline float abs(float v) { return __builtin_fabsf(v); }
static inline double abs(double v) { return __builtin_fabs(v); }
static inline long long llabs(long long v) { return v < 0 ? -v : v; }
static inline float rsqrtf(float v) { return 1.0f / __builtin_sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / __builtin_sqrt(v); }
static inline float rsqrt(float v) { return rsqrtf(v); }
static inline float exp10f(float v) { return __builtin_powf(10.0f, v); }
static inline bool isnan(float v) { return v != v; }
static inline bool isnan(double v) { return v != v; }
static inline bool isinf(float v) { return __builtin_isinf(v); }
static inline bool isinf(double v) { return __builtin_isinf(v); }
static inline bool isfinite(float v) { return __builtin_isfinite(v); }
static inline bool isfinite(double v) { return __builtin_isfinite(v); }
static inline bool signbit(float v) { return __builtin_signbit(v); }
static inline bool signbit(double v) { return __builtin_signbit(v); }
static inline float __expf(float v) { return __builtin_expf(v); }
static inline float __exp10f(float v) { return exp10f(v); }
static inline float __logf(float v) { return __builtin_logf(v); }
static inline float __log2f(float v) { return __builtin_log2f(v); }
static inline float __powf(float a, float b) { return __builtin_powf(a, b); }
static inline float __sinf(float v) { return __builtin_sinf(v); }
static inline float __cosf(float v) { return __builtin_cosf(v); }
static inline float __tanhf(float v) { return __builtin_tanhf(v); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
static inline float __frcp_rn(float v) { return 1.0f / v; }
static inline float __fsqrt_rn(float v) { return __builtin_sqrtf(v); }
static inline float __frsqrt_rn(float v) { return rsqrtf(v); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double v) { return __builtin_sqrt(v); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline int __float2int_rn(float v) { return (int)__builtin_rintf(v); }
static inline int __float2int_rz(float v) { return (int)v; }
static inline int __float2int_rd(float v) { return (int)__builtin_floorf(v); }
static inline unsigned __float2uint_rn(float v) { return (unsigned)__builtin_rintf(v); }
static inline long long __float2ll_rn(float v) { return (long long)__builtin_rintf(v); }
static inline long long __double2ll_rn(double v) { return (long long)__builtin_rint(v); }
static inline float __int2float_rn(int v) { return (float)v; }
static inline float __uint2float_rn(unsigned v) { return (float)v; }
static inline float __ll2float_rn(long long v) { return (float)v; }
static inline double __ll2double_rn(long long v) { return (double)v; }
static inline float __double2float_rn(double v) { return (float)v; }
#define EIN_SHIM_MINMAX(T)                                                                                             \
  static inline T min(T a, T b) { return b < a ? b : a; }                                                              \
  static inline T max(T a, T b) { return a < b ? b : a; }
EIN_SHIM_MINMAX(int)
EIN_SHIM_MINMAX(unsigned)
EIN_SHIM_MINMAX(long)
EIN_SHIM_MINMAX(unsigned long)
EIN_SHIM_MINMAX(long long)
EIN_SHIM_MINMAX(unsigned long long)
#undef EIN_SHIM_MINMAX
static inline long long min(long long a, int b) { return min(a, (long long)b); }
static inline long long min(int a, long long b) { return min((long long)a, b); }
static inline long long max(long long a, int b) { return max(a, (long long)b); }
static inline long long max(int a, long long b) { return max((long long)a, b); }
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
