
// ==== running folds ====

EIN_FN double ein_up(double v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }
EIN_FN long long ein_up(long long v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }

// A state is that of some elements side by side; `join` takes that of those which follow. `get` is what is given.
#define EIN_RUNNING(NAME, NONE, COMBINE)                                                          \
    template <typename T> struct NAME {                                                           \
        T value;                                                                                  \
        EIN_FN NAME none() { return NAME{NONE}; }                                                 \
        EIN_FN NAME of(T v, long long) { return NAME{v}; }                                        \
        __device__ __forceinline__ void join(const NAME& o) { value = COMBINE(value, o.value); }  \
        __device__ __forceinline__ NAME up(int by) const { return NAME{ein_up(value, by)}; }      \
        __device__ __forceinline__ T get() const { return value; }                                \
    };
EIN_RUNNING(ein_RunSum, (T)0, ein_add)
EIN_RUNNING(ein_RunProd, (T)1, ein_mul)
EIN_RUNNING(ein_RunMax, ein_Ends<T>::low(), ein_max)
EIN_RUNNING(ein_RunMin, ein_Ends<T>::high(), ein_min)

// The log of the sum of exponentials, by the largest so far.
template <typename T> struct ein_RunLogSum {
    T top, sum;
    EIN_FN ein_RunLogSum none() { return ein_RunLogSum{ein_Ends<T>::low(), (T)0}; }
    EIN_FN ein_RunLogSum of(T v, long long) { return ein_RunLogSum{v, ein_scale(v, v)}; }
    __device__ __forceinline__ void join(const ein_RunLogSum& o) {
        const T all = ein_max(top, o.top);
        sum = sum * ein_scale(top, all) + o.sum * ein_scale(o.top, all);
        top = all;
    }
    __device__ __forceinline__ ein_RunLogSum up(int by) const { return ein_RunLogSum{ein_up(top, by), ein_up(sum, by)}; }
    // Infinite, not a number, or nothing yet: the largest says it all.
    __device__ __forceinline__ T get() const { return top - top == (T)0 ? top + log(sum) : top; }
};

// The place of the largest (or smallest) so far, of equal ones the last; NaN is larger and smaller than anything.
template <typename T, bool LARGEST> struct ein_RunPlace {
    T value;
    long long place;
    EIN_FN ein_RunPlace none() { return ein_RunPlace{(T)0, -1}; }
    EIN_FN ein_RunPlace of(T v, long long at) { return ein_RunPlace{v, at}; }
    __device__ __forceinline__ void join(const ein_RunPlace& o) {
        const bool beats = o.value != o.value || (value == value && (LARGEST ? o.value >= value : o.value <= value));
        if (o.place >= 0 && (place < 0 || beats)) *this = o;
    }
    __device__ __forceinline__ ein_RunPlace up(int by) const {
        return ein_RunPlace{ein_up(value, by), ein_up(place, by)};
    }
    __device__ __forceinline__ long long get() const { return place; }
};

// The map h -> scale * h + shift of some elements side by side; nothing yet is `some` no map. A shift of exactly 0 stays
// 0 under any scale: products of scales overflow where no state does.
template <typename T> struct ein_RunAffine {
    T scale, shift;
    bool some;
    EIN_FN ein_RunAffine none() { return ein_RunAffine{(T)1, (T)0, false}; }
    EIN_FN ein_RunAffine of(ein_RunAffine v, long long) { return v; }
    __device__ __forceinline__ void join(const ein_RunAffine& o) {
        if (!o.some) return;
        if (some) {
            scale = ein_mul(scale, o.scale);
            shift = shift == (T)0 ? o.shift : ein_add(ein_mul(o.scale, shift), o.shift);
        } else {
            *this = o;
        }
    }
    __device__ __forceinline__ ein_RunAffine up(int by) const {
        return ein_RunAffine{ein_up(scale, by), ein_up(shift, by), ein_up((long long)some, by) != 0};
    }
    __device__ __forceinline__ ein_RunAffine get() const { return *this; }
};

// Runs along one line by a whole block of THREADS threads, EACH elements side by side by each. `Line` reads and writes
// element `at` of the line; `ends` is shared, one for each warp.
template <typename S, int THREADS, int EACH, typename Line>
EIN_FN void ein_scan_block(Line line, long long length, S* ends) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    S before = S::none();
    for (long long from = 0; from < length; from += THREADS * EACH) {
        const long long at = from + (long long)threadIdx.x * EACH;
        S own[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            own[i] = at + i < length ? S::of(line.read(at + i), at + i) : S::none();
            if (i > 0) {
                S sum = own[i - 1];
                sum.join(own[i]);
                own[i] = sum;
            }
        }
        S all = own[EACH - 1];
#pragma unroll
        for (int by = 1; by < 32; by <<= 1) {
            S left = all.up(by);
            if (lane >= by) {
                left.join(all);
                all = left;
            }
        }
        if (lane == 31) ends[warp] = all;
        // What is left of this thread: the line so far, the warps before, the lanes before.
        const S lanes = all.up(1);
        __syncthreads();
        S left = before;
        for (int w = 0; w < THREADS / 32; w++) {
            if (w == warp) {
                left = before;
                if (lane > 0) left.join(lanes);
            }
            before.join(ends[w]);
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            S sum = left;
            sum.join(own[i]);
            if (at + i < length) line.write(at + i, sum.get());
        }
        __syncthreads();
    }
}

// Runs along one line by one thread.
template <typename S, typename Line> EIN_FN void ein_scan_thread(Line line, long long length) {
    S sum = S::none();
    for (long long at = 0; at < length; at++) {
        sum.join(S::of(line.read(at), at));
        line.write(at, sum.get());
    }
}
