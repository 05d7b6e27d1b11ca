
// ==== first elements in sorted order ====

// An element by its rank: the lower comes first; of equal ones the lower place. No two are equal.
struct ein_Ranked {
    long long key;
    long long place;
};

EIN_FN bool ein_before(const ein_Ranked& a, const ein_Ranked& b) {
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}

// What comes after everything.
EIN_FN ein_Ranked ein_beyond() { return ein_Ranked{0x7fffffffffffffffll, 0x7fffffffffffffffll}; }

// Integers that order floats: NaN above all, the two zeros equal.
EIN_FN long long ein_rank(double v) {
    if (v != v) return 0x7fffffffffffffffll;
    // Adding zero makes a minus zero a zero.
    const long long bits = __double_as_longlong(v + 0.0);
    return bits ^ (long long)((ein_u64)(bits >> 63) >> 1);
}
EIN_FN long long ein_rank(long long v) { return v; }

// Sorts COUNT elements, a power of two, by a block of THREADS threads (Batcher's bitonic network).
template <int THREADS> EIN_FN void ein_sort(ein_Ranked* all, long long count) {
    for (long long size = 2; size <= count; size <<= 1)
        for (long long by = size >> 1; by > 0; by >>= 1) {
            __syncthreads();
            for (long long n = threadIdx.x; n < count / 2; n += THREADS) {
                const long long low = (n / by) * 2 * by + n % by, high = low + by;
                const ein_Ranked a = all[low], b = all[high];
                if (ein_before(b, a) == ((low & size) == 0)) {
                    all[low] = b;
                    all[high] = a;
                }
            }
        }
    __syncthreads();
}

// The first K of a row, in `kept`, which has ROOM elements (a power of two, at least K + THREADS): what comes before the
// last of those kept is put behind them; when there might be no more room, they are sorted and cut to K. All threads of
// the block call it. `held` is shared; `Row` gives the key of an element.
template <int THREADS, int K, int ROOM, typename Row>
EIN_FN void ein_top(Row row, long long length, ein_Ranked* kept, int* held) {
    ein_Ranked worst = ein_beyond();
    if (threadIdx.x == 0) *held = 0;
    __syncthreads();
    for (long long from = 0; from < length; from += THREADS) {
        const long long at = from + threadIdx.x;
        if (at < length) {
            const ein_Ranked own{row.key(at), at};
            if (ein_before(own, worst)) kept[atomicAdd(held, 1)] = own;
        }
        __syncthreads();
        const int count = *held;
        if (count + THREADS > ROOM || from + THREADS >= length) {
            for (int n = count + threadIdx.x; n < ROOM; n += THREADS) kept[n] = ein_beyond();
            ein_sort<THREADS>(kept, ROOM);
            if (threadIdx.x == 0) *held = count < K ? count : K;
            if (count >= K) worst = kept[K - 1];
        }
        __syncthreads();
    }
}
