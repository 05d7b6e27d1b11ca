// What CUDA C++ has without any include, for g++ on the host. It stands before the text of every module.
//
// Beyond CUDA it has what prelude functions need to stand in for PTX; all of it is named `ein_shim_...`:
//
//   ein_shim_warp(op, &mine [, mask])   A warp-wide operation. Every lane of `mask` gives the address of its own
//                                       registers and stops. The last to arrive calls op(lanes, mask) once, with
//                                       lanes[l] the address that lane l gave (null where the lane is not in the
//                                       mask); then all go on. With it `mma` is a function of ten lines:
//
//       struct ein_host_mma { float d[4]; unsigned a[4], b[2]; };
//       static void ein_host_mma_op(void** lanes, unsigned) {   // gather A and B, multiply, scatter into d
//         for (int l = 0; l < 32; l++) { ein_host_mma* m = (ein_host_mma*)lanes[l]; ... }
//       }
//       __device__ void ein_mma(float* d, const unsigned* a, const unsigned* b) {
//         ein_host_mma m = {...}; ein_shim_warp(ein_host_mma_op, &m); ...
//       }
//
//   ein_shim_lane_values(v, out)        out[l] = v of lane l, for all 32 lanes; v of 4 or 8 bytes.
//   ein_shim_barrier(id, threads)       `bar.sync id, threads`: the named barriers 0..15.
//   ein_shim_arrive(id, threads)        `bar.arrive id, threads`: counts as arrived at a named barrier, and goes on.
//   ein_shim_phases_make(at, n)         `mbarrier.init`: 8 bytes of dynamic shared memory; a phase is over after n arrivals
//   ein_shim_phases_arrive(at, bytes)   and as many bytes as were announced with them (`mbarrier.arrive.expect_tx`).
//   ein_shim_phases_wait(at, parity)    `mbarrier.try_wait.parity` until it says yes.
//   ein_shim_bulk_copy(map, to, at, c0, c1, c2, c3)   `cp.async.bulk.tensor.4d`: the box of a tensor that the fake driver has
//                                       described; zeros outside of it. It is done when nothing else goes on, and until
//                                       then the destination is poisoned.
//   ein_shim_copy_async(to, from, n)    `cp.async`: n bytes move only when this thread waits for them; until then the
//   ein_shim_copy_commit()              destination is poisoned, so that a missing wait shows. Commit and wait are
//   ein_shim_copy_wait(n)               `cp.async.commit_group` and `cp.async.wait_group n`.
//   ein_shim_lane()                     The lane of this thread: its number in the block, modulo 32.
//
// Limits: no `__shared__` inside templates; one thread runs at a time, so atomics are plain; no thread-block clusters.
#define EIN_HOST 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __shared__ static __attribute__((section("ein_shared")))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINT64_TYPE__ ein_shim_word;

#define EIN_SHIM_VECTOR(T, N, A2, A4)                                                                                  \
  struct N##1 { T x; };                                                                                                \
  struct __align__(A2) N##2 { T x, y; };                                                                               \
  struct N##3 { T x, y, z; };                                                                                          \
  struct __align__(A4) N##4 { T x, y, z, w; };                                                                         \
  static inline N##1 make_##N##1(T x) { return {x}; }                                                                  \
  static inline N##2 make_##N##2(T x, T y) { return {x, y}; }                                                          \
  static inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                                                  \
  static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EIN_SHIM_VECTOR(signed char, char, 2, 4)
EIN_SHIM_VECTOR(unsigned char, uchar, 2, 4)
EIN_SHIM_VECTOR(short, short, 4, 8)
EIN_SHIM_VECTOR(unsigned short, ushort, 4, 8)
EIN_SHIM_VECTOR(int, int, 8, 16)
EIN_SHIM_VECTOR(unsigned, uint, 8, 16)
EIN_SHIM_VECTOR(long long, longlong, 16, 16)
EIN_SHIM_VECTOR(unsigned long long, ulonglong, 16, 16)
EIN_SHIM_VECTOR(float, float, 8, 16)
EIN_SHIM_VECTOR(double, double, 16, 16)
#undef EIN_SHIM_VECTOR
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

// What the library of the shim has: one for all modules of a process.
extern "C" {
extern uint3 threadIdx, blockIdx, blockDim, gridDim;
void ein_shim_block_barrier(int line);
int ein_shim_block_vote(int line, int value, int what);
void ein_shim_named_barrier(int line, unsigned id, unsigned threads);
void ein_shim_warp_line(int line, void (*op)(void**, unsigned), void* mine, unsigned mask);
void ein_shim_named_arrive(int line, unsigned id, unsigned threads);
void ein_shim_phases_make(int line, void* at, unsigned arrivals);
void ein_shim_phases_arrive(int line, void* at, unsigned bytes);
void ein_shim_phases_wait(int line, void* at, unsigned parity);
void ein_shim_bulk_copy(int line, const void* map, void* to, void* at, int c0, int c1, int c2, int c3);
void ein_shim_copy_async(void* to, const void* from, unsigned bytes);
void ein_shim_copy_commit();
void ein_shim_copy_wait(unsigned groups);
unsigned ein_shim_alive();
unsigned ein_shim_lane();
void ein_shim_trap(int line, const char* what) __attribute__((noreturn));
long long clock64();
int printf(const char*, ...);
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
}
static const int warpSize = 32;
#define ein_shim_barrier(id, threads) ein_shim_named_barrier(__LINE__, id, threads)
#define ein_shim_arrive(id, threads) ein_shim_named_arrive(__LINE__, id, threads)
#define ein_shim_phases_make(...) ein_shim_phases_make(__LINE__, __VA_ARGS__)
#define ein_shim_phases_arrive(...) ein_shim_phases_arrive(__LINE__, __VA_ARGS__)
#define ein_shim_phases_wait(...) ein_shim_phases_wait(__LINE__, __VA_ARGS__)
#define ein_shim_bulk_copy(...) ein_shim_bulk_copy(__LINE__, __VA_ARGS__)
#define __syncthreads() ein_shim_block_barrier(__LINE__)
#define __syncthreads_count(v) ein_shim_block_vote(__LINE__, !!(v), 0)
#define __syncthreads_and(v) ein_shim_block_vote(__LINE__, !!(v), 1)
#define __syncthreads_or(v) ein_shim_block_vote(__LINE__, !!(v), 2)
#define __trap() ein_shim_trap(__LINE__, "__trap")
#define assert(c) ((c) ? (void)0 : ein_shim_trap(__LINE__, "assert(" #c ")"))
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}

// ---- Warps: the line is that of the call, so that lanes at different places are told apart.
static inline void ein_shim_warp_at(int line, void (*op)(void**, unsigned), void* mine, unsigned mask = 0xffffffffu) {
  ein_shim_warp_line(line, op, mine, mask);
}
#define ein_shim_warp(...) ein_shim_warp_at(__LINE__, __VA_ARGS__)
static inline void ein_shim_nothing(void**, unsigned) {}
static inline void ein_shim_syncwarp(int line, unsigned mask = 0xffffffffu) {
  ein_shim_warp_line(line, ein_shim_nothing, (void*)1, mask);
}
#define __syncwarp(...) ein_shim_syncwarp(__LINE__ __VA_OPT__(,) __VA_ARGS__)

struct ein_shim_exchange {
  ein_shim_word value, result;
  int source;
};
static inline void ein_shim_exchange_op(void** lanes, unsigned) {
  for (int l = 0; l < 32; l++) {
    ein_shim_exchange* e = (ein_shim_exchange*)lanes[l];
    if (!e) continue;
    ein_shim_exchange* s = (ein_shim_exchange*)lanes[e->source];
    // The value of a lane that takes no part is undefined: it is all ones here, a NaN.
    e->result = s ? s->value : ~(ein_shim_word)0;
  }
}
template <class T> static inline T ein_shim_shuffle(int line, unsigned mask, T v, int source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  ein_shim_exchange e = {0, 0, source};
  __builtin_memcpy(&e.value, &v, sizeof(T));
  ein_shim_warp_line(line, ein_shim_exchange_op, &e, mask);
  __builtin_memcpy(&v, &e.result, sizeof(T));
  return v;
}
template <class T> static inline T ein_shim_shfl(int line, unsigned mask, T v, int source, int width = 32) {
  int lane = (int)ein_shim_lane();
  return ein_shim_shuffle(line, mask, v, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T> static inline T ein_shim_shfl_up(int line, unsigned mask, T v, unsigned delta, int width = 32) {
  int lane = (int)ein_shim_lane(), source = lane - (int)delta;
  return ein_shim_shuffle(line, mask, v, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T> static inline T ein_shim_shfl_down(int line, unsigned mask, T v, unsigned delta, int width = 32) {
  int lane = (int)ein_shim_lane(), source = lane + (int)delta;
  return ein_shim_shuffle(line, mask, v, source > (lane | (width - 1)) ? lane : source);
}
template <class T> static inline T ein_shim_shfl_xor(int line, unsigned mask, T v, int bits, int width = 32) {
  int lane = (int)ein_shim_lane(), source = lane ^ bits;
  return ein_shim_shuffle(line, mask, v, source > (lane | (width - 1)) ? lane : source);
}
#define __shfl_sync(...) ein_shim_shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) ein_shim_shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) ein_shim_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) ein_shim_shfl_xor(__LINE__, __VA_ARGS__)

struct ein_shim_gather {
  ein_shim_word value, all[32];
};
static inline void ein_shim_gather_op(void** lanes, unsigned) {
  for (int l = 0; l < 32; l++)
    for (int s = 0; lanes[l] && s < 32; s++)
      ((ein_shim_gather*)lanes[l])->all[s] = lanes[s] ? ((ein_shim_gather*)lanes[s])->value : ~(ein_shim_word)0;
}
template <class T> static inline void ein_shim_lane_values_at(int line, T v, T* out, unsigned mask = 0xffffffffu) {
  ein_shim_gather g = {0, {}};
  __builtin_memcpy(&g.value, &v, sizeof(T));
  ein_shim_warp_line(line, ein_shim_gather_op, &g, mask);
  for (int l = 0; l < 32; l++) __builtin_memcpy(out + l, g.all + l, sizeof(T));
}
#define ein_shim_lane_values(...) ein_shim_lane_values_at(__LINE__, __VA_ARGS__)

static inline void ein_shim_ballot_op(void** lanes, unsigned) {
  ein_shim_word all = 0;
  for (int l = 0; l < 32; l++)
    if (lanes[l] && ((ein_shim_exchange*)lanes[l])->value) all |= (ein_shim_word)1 << l;
  for (int l = 0; l < 32; l++)
    if (lanes[l]) ((ein_shim_exchange*)lanes[l])->result = all;
}
static inline unsigned ein_shim_ballot(int line, unsigned mask, int v) {
  ein_shim_exchange e = {v ? 1u : 0u, 0, 0};
  ein_shim_warp_line(line, ein_shim_ballot_op, &e, mask);
  return (unsigned)e.result;
}
#define __ballot_sync(mask, v) ein_shim_ballot(__LINE__, mask, (v) ? 1 : 0)
#define __any_sync(mask, v) (ein_shim_ballot(__LINE__, mask, (v) ? 1 : 0) != 0)
#define __all_sync(mask, v) (ein_shim_ballot(__LINE__, mask, (v) ? 0 : 1) == 0)
#define __activemask() ein_shim_alive()
template <class T, class F> static inline T ein_shim_reduce(int line, unsigned mask, T v, F fold) {
  T all[32];
  ein_shim_lane_values_at(line, v, all, mask);
  bool first = true;
  for (int l = 0; l < 32; l++)
    if (mask >> l & 1) v = first ? all[l] : fold(v, all[l]), first = false;
  return v;
}
#define __reduce_add_sync(mask, v) ein_shim_reduce(__LINE__, mask, v, [](auto a, auto b) { return a + b; })
#define __reduce_min_sync(mask, v) ein_shim_reduce(__LINE__, mask, v, [](auto a, auto b) { return a < b ? a : b; })
#define __reduce_max_sync(mask, v) ein_shim_reduce(__LINE__, mask, v, [](auto a, auto b) { return a > b ? a : b; })
#define __reduce_or_sync(mask, v) ein_shim_reduce(__LINE__, mask, v, [](auto a, auto b) { return a | b; })
#define __reduce_and_sync(mask, v) ein_shim_reduce(__LINE__, mask, v, [](auto a, auto b) { return a & b; })

// ---- Atomics: one thread runs at a time, so they are plain.
template <class T> struct ein_shim_same { typedef T type; };
// Where accesses are told, so is that these are atomic.
#ifdef __SANITIZE_THREAD__
extern "C" void ein_shim_atomic(const void* p, unsigned bytes);
#else
static inline void ein_shim_atomic(const void*, unsigned) {}
#endif
#define EIN_SHIM_ATOMIC(NAME, EXPRESSION)                                                                              \
  template <class T> static inline T NAME(T* p, typename ein_shim_same<T>::type v) {                                   \
    ein_shim_atomic(p, sizeof(T));                                                                                     \
    T old = *p;                                                                                                        \
    *p = EXPRESSION;                                                                                                   \
    return old;                                                                                                        \
  }                                                                                                                    \
  template <class T> static inline T NAME##_block(T* p, typename ein_shim_same<T>::type v) { return NAME(p, v); }      \
  template <class T> static inline T NAME##_system(T* p, typename ein_shim_same<T>::type v) { return NAME(p, v); }
EIN_SHIM_ATOMIC(atomicAdd, old + v)
EIN_SHIM_ATOMIC(atomicSub, old - v)
EIN_SHIM_ATOMIC(atomicMin, v < old ? v : old)
EIN_SHIM_ATOMIC(atomicMax, v > old ? v : old)
EIN_SHIM_ATOMIC(atomicExch, v)
EIN_SHIM_ATOMIC(atomicAnd, old & v)
EIN_SHIM_ATOMIC(atomicOr, old | v)
EIN_SHIM_ATOMIC(atomicXor, old ^ v)
EIN_SHIM_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
EIN_SHIM_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef EIN_SHIM_ATOMIC
template <class T>
static inline T atomicCAS(T* p, typename ein_shim_same<T>::type compare, typename ein_shim_same<T>::type v) {
  ein_shim_atomic(p, sizeof(T));
  T old = *p;
  *p = old == compare ? v : old;
  return old;
}

// ---- How a module tells what kernels it has.
struct ein_shim_kernel {
  void (*entry)(void**);
  unsigned char *shared_begin, *shared_end, *common_begin, *common_end, *dynamic;
  unsigned parameters;
  const unsigned* sizes;
};
// As much dynamic shared memory as any GPU has, and room behind it to notice who writes there.
extern "C" unsigned char ein_shim_dynamic[];
template <unsigned... I> struct ein_shim_list {};
template <class... P> struct ein_shim_parameters {
  static constexpr unsigned count = sizeof...(P);
  static constexpr unsigned sizes[count + 1] = {sizeof(P)..., 0};
  template <unsigned... I> static inline void call(void (*f)(P...), void** a, ein_shim_list<I...>) {
    f(*(P*)a[I]...);
  }
  static inline void call(void (*f)(P...), void** a) { call(f, a, ein_shim_list<__integer_pack(count)...>()); }
};
template <class... P> ein_shim_parameters<P...> ein_shim_of(void (*)(P...));
#define EIN_SHIM_KERNEL(NAME)                                                                                          \
  extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_ein_shared_##NAME[];                    \
  extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_ein_shared_##NAME[];                     \
  static void ein_shim_entry_##NAME(void** a) { decltype(ein_shim_of(&NAME))::call(&NAME, a); }                        \
  extern "C" __attribute__((visibility("default"))) ein_shim_kernel ein_shim_kernel_##NAME;                            \
  ein_shim_kernel ein_shim_kernel_##NAME = {                                                                           \
      ein_shim_entry_##NAME, __start_ein_shared_##NAME, __stop_ein_shared_##NAME, __start_ein_shared,                  \
      __stop_ein_shared,     ein_shim_dynamic,          decltype(ein_shim_of(&NAME))::count,                           \
      decltype(ein_shim_of(&NAME))::sizes};
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_ein_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_ein_shared[];
