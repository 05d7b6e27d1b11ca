
// ==== attention ====
//
// A problem `A` is a struct that the generated kernel declares. Constants: BATCH, PAIRS (groups of heads that share their
// keys), GROUP (heads of one), SHARE (heads of a key/value head of the whole), QUERIES, KEYS, D, E; KEYS are those that
// some query of the block sees. Steps in elements: Q_B, Q_H, Q_S, K_B, K_H, K_T, V_B, V_H, V_T; OK_B... of the queries'
// own keys; M_B, M_H, M_S, M_T of the mask. CAUSAL, WINDOW (0: none), PACKED (offsets), MASK, OWN, FINISH. `element` is a
// value in memory, `real` what is computed in. Members: q, k, v, mask, own_k, own_v (element*), offset(n), and
// `diagonal` (query n sees keys below n + diagonal), `phase` (the first head's number among those that share its keys),
// `query`, `key` (the global numbers of the first ones). Functions: load, scored (scale and cap, in units of UNIT).
//
// A row of a problem is a query of a head; rows of a pair are numbered query by query, the heads of one together.

struct ein_Row {
    int query, head, lo, hi;
};

// Row `r` of a pair: sees keys lo..hi, none where it is no row.
template <typename A> EIN_FN ein_Row ein_row(const A& a, int r) {
    ein_Row row{r / (int)A::GROUP, r % (int)A::GROUP, 0, 0};
    if (row.query >= A::QUERIES) return row;
    long long lo = 0, hi = A::KEYS;
    if (A::CAUSAL) {
        const long long end = row.query + a.diagonal;
        if (end < hi) hi = end;
        if (A::WINDOW > 0 && end - A::WINDOW > lo) lo = end - A::WINDOW;
    }
    if (A::PACKED > 0) {
        // The number of offsets that are not above the query: its sequence.
        int low = 0, high = A::PACKED;
        while (low < high) {
            const int mid = (low + high) / 2;
            if (a.offset(mid) <= row.query + a.query) low = mid + 1;
            else high = mid;
        }
        if (low > 0 && a.offset(low - 1) - a.key > lo) lo = a.offset(low - 1) - a.key;
        if (low < A::PACKED && a.offset(low) - a.key < hi) hi = a.offset(low) - a.key;
    }
    if (lo < hi) row.lo = (int)lo, row.hi = (int)hi;
    return row;
}

// The key/value head of a pair, counted from that of the first.
template <typename A> EIN_FN int ein_kv(const A& a, int pair) {
    return ((int)a.phase + pair * (int)A::GROUP) / (int)A::SHARE;
}

// What is added to the score of a key.
template <typename A> EIN_FN typename A::real ein_masked(const A& a, int batch, int head, int query, int key) {
    typedef typename A::real real;
    return (real)A::UNIT * (real)A::load(a.mask[batch * A::M_B + head * A::M_H + query * A::M_S + key * A::M_T]);
}

// ---- any type and size: a block of WARPS warps for each row, a key at a time ----

// Floats of `shared`: WARPS * (E + 2).
template <typename A, int WARPS, typename Out> EIN_FN void ein_attention_rows(const A& a, Out out, typename A::real* shared) {
    typedef typename A::real real;
    constexpr int DS = (A::D + 31) / 32, ES = (A::E + 31) / 32, E = A::E;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    constexpr int rows = A::QUERIES * A::GROUP;
    for (long long n = blockIdx.x; n < (long long)rows * A::PAIRS * A::BATCH; n += gridDim.x) {
        const ein_Row row = ein_row(a, (int)(n % rows));
        const int pair = (int)(n / rows) % A::PAIRS, batch = (int)(n / rows / A::PAIRS);
        const int head = pair * A::GROUP + row.head, kv = ein_kv(a, pair);
        real q[DS], acc[ES], top = -(real)ein_infinity(), sum = 0;
#pragma unroll
        for (int i = 0; i < DS; i++)
            q[i] = i * 32 + lane < A::D
                       ? A::load(a.q[batch * A::Q_B + head * A::Q_H + row.query * A::Q_S + i * 32 + lane])
                       : (real)0;
#pragma unroll
        for (int i = 0; i < ES; i++) acc[i] = 0;
        auto take = [&](const typename A::element* k, const typename A::element* v, real added) {
            real dot = 0;
#pragma unroll
            for (int i = 0; i < DS; i++)
                if (i * 32 + lane < A::D) dot = ein_mad(q[i], (real)A::load(k[i * 32 + lane]), dot);
#pragma unroll
            for (int by = 16; by > 0; by >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, by);
            const real score = A::scored(dot) + added;
            // Not seen: it adds nothing, whatever its value holds.
            if (score == -(real)ein_infinity()) return;
            const real all = ein_max(top, score);
            const real old = ein_scale(top, all), weight = ein_scale(score, all);
            top = all;
            sum = sum * old + weight;
#pragma unroll
            for (int i = 0; i < ES; i++)
                if (i * 32 + lane < E) acc[i] = ein_mad(weight, (real)A::load(v[i * 32 + lane]), acc[i] * old);
        };
        for (int key = row.lo + warp; key < row.hi; key += WARPS)
            take(a.k + batch * A::K_B + kv * A::K_H + key * A::K_T, a.v + batch * A::V_B + kv * A::V_H + key * A::V_T,
                 A::MASK ? ein_masked(a, batch, head, row.query, key) : (real)0);
        if (A::OWN && warp == 0)
            take(a.own_k + batch * A::OK_B + kv * A::OK_H + row.query * A::OK_S,
                 a.own_v + batch * A::OV_B + kv * A::OV_H + row.query * A::OV_S, (real)0);
        real* mine = shared + warp * (E + 2);
        if (lane == 0) mine[E] = top, mine[E + 1] = sum;
#pragma unroll
        for (int i = 0; i < ES; i++)
            if (i * 32 + lane < E) mine[i * 32 + lane] = acc[i];
        __syncthreads();
        real all = -(real)ein_infinity(), total = 0;
        for (int w = 0; w < WARPS; w++) all = ein_max(all, shared[w * (E + 2) + E]);
        for (int w = 0; w < WARPS; w++) total += shared[w * (E + 2) + E + 1] * ein_scale(shared[w * (E + 2) + E], all);
        const long long at = ((long long)batch * A::PAIRS * A::GROUP + head) * A::QUERIES + row.query;
        for (int e = threadIdx.x; e < E; e += WARPS * 32) {
            real value = 0;
            for (int w = 0; w < WARPS; w++) value += shared[w * (E + 2) + e] * ein_scale(shared[w * (E + 2) + E], all);
            out.value(at, e, value, total);
        }
        if (threadIdx.x == 0) out.state(at, all, total);
        __syncthreads();
    }
}
