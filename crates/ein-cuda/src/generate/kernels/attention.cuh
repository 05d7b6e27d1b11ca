
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

// ---- many rows, by tensor cores: each block takes WARPS * MT * 16 rows of a pair over tiles of BN keys ----
//
// Dao, FlashAttention-2 (2023): scores stay in registers, as does what is accumulated; keys and values come through
// shared memory, the next tile while this one is worked on. Scores are in units of log 2.

// The state of a warp: MT tiles of 16 rows.
template <typename A, int MT> struct ein_Attending {
    static constexpr int EN = (A::E + 15) / 16 * 2;
    float acc[MT][EN][4], top[MT][2], sum[MT][2];

    __device__ __forceinline__ void none() {
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int n = 0; n < EN; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) acc[m][n][i] = 0.0f;
            top[m][0] = top[m][1] = -ein_infinity();
            sum[m][0] = sum[m][1] = 0.0f;
        }
    }

    // Takes the scores of NT * 8 keys: they become weights, and what there was before is scaled.
    template <int NT> __device__ __forceinline__ void take(float (&s)[MT][NT][4]) {
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float scale[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float all = top[m][h];
#pragma unroll
                for (int n = 0; n < NT; n++) all = fmaxf(all, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
                all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, 1));
                all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, 2));
                // Nothing is seen yet: any number will do to weigh nothing by.
                const float by = all == -ein_infinity() ? 0.0f : all;
                scale[h] = ein_exp2(top[m][h] - by);
                top[m][h] = all;
                float own = 0.0f;
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int i = 2 * h; i < 2 * h + 2; i++) {
                        s[m][n][i] = ein_exp2(s[m][n][i] - by);
                        own += s[m][n][i];
                    }
                sum[m][h] = fmaf(sum[m][h], scale[h], own);
            }
#pragma unroll
            for (int n = 0; n < EN; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) acc[m][n][i] *= scale[i / 2];
        }
    }

    // The sums of whole rows: so far each lane has that of its own keys.
    __device__ __forceinline__ void end() {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                sum[m][h] += __shfl_xor_sync(0xffffffffu, sum[m][h], 1);
                sum[m][h] += __shfl_xor_sync(0xffffffffu, sum[m][h], 2);
            }
    }
};

// Of the scores of a tile of 16 rows, that of row g + 8h and a key that only counts at run time. Bits are masked rather
// than chosen, or the compiler would put the scores in memory to point at one of them.
template <int NT> EIN_FN float ein_weight(const float (&s)[NT][4], int key, int h) {
    int own = 0;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        own |= __float_as_int(s[n][2 * h]) & -(int)((key & ~7) + (key & 1) == n * 8);
        own |= __float_as_int(s[n][2 * h + 1]) & -(int)((key & ~7) + (key & 1) == n * 8 + 1);
    }
    return __shfl_sync(0xffffffffu, __int_as_float(own), (threadIdx.x & 28) | (key % 8 / 2));
}

// Adds what is unbounded of two values that weigh something.
template <typename T> EIN_FN void ein_add_unbounded(float& low, float& high, float weight, unsigned two) {
    const float a = ein_half<T>(two, 0), b = ein_half<T>(two, 1);
    if (weight != 0.0f && a - a != 0.0f) low += weight * a;
    if (weight != 0.0f && b - b != 0.0f) high += weight * b;
}

// A row of shared memory, in elements: 16 bytes more than its values, so that eight rows lie in different banks.
EIN_FN constexpr int ein_padded(int values) { return (values + 15) / 16 * 16 + 8; }

// Copies ROWS rows of SIZE elements to shared memory, `step` apart: those from `rows` on, and values from SIZE on, are 0.
template <int ROWS, int SIZE, int THREADS>
EIN_FN void ein_copy_rows(unsigned short* to, const unsigned short* from, long long step, int rows) {
    constexpr int words = (SIZE + 15) / 16 * 2;
    for (int n = threadIdx.x; n < ROWS * words; n += THREADS) {
        const int row = n / words, word = n % words;
        const bool real = row < rows && word * 8 < SIZE;
        ein_copy_16(to + row * ein_padded(SIZE) + word * 8, real ? from + row * step + word * 8 : from, real);
    }
}

// Bytes of shared memory of a block.
template <typename A, int MT, int WARPS, int BN> EIN_FN constexpr int ein_attention_room() {
    return 2 * (WARPS * MT * 16 * ein_padded(A::D) + 2 * BN * (ein_padded(A::D) + ein_padded(A::E))) +
           8 * WARPS * MT * 16 + 8;
}

template <typename A, typename T, int MT, int WARPS, int BN, typename Out>
EIN_FN void ein_attention_tiles(const A& a, Out out, unsigned char* shared) {
    constexpr int BM = WARPS * MT * 16, THREADS = WARPS * 32, NT = BN / 8, DK = (A::D + 15) / 16;
    constexpr int DP = ein_padded(A::D), EP = ein_padded(A::E), EN = ein_Attending<A, MT>::EN;
    constexpr int rows = A::QUERIES * A::GROUP, tiles = (rows + BM - 1) / BM;
    unsigned short* const qs = (unsigned short*)shared;
    unsigned short* const ks = qs + BM * DP;
    unsigned short* const vs = ks + 2 * BN * DP;
    int* const los = (int*)(vs + 2 * BN * EP);
    int* const his = los + BM;
    int* const range = his + BM;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, c = lane & 3;
    // The rows that see most begin first.
    const int units = A::PAIRS * A::BATCH, unit = (int)(blockIdx.x % units);
    const int first = (tiles - 1 - (int)(blockIdx.x / units)) * BM;
    const int pair = unit % A::PAIRS, batch = unit / A::PAIRS, kv = ein_kv(a, pair);

    if (threadIdx.x == 0) range[0] = A::KEYS, range[1] = 0;
    __syncthreads();
    for (int r = threadIdx.x; r < BM; r += THREADS) {
        const ein_Row row = ein_row(a, first + r);
        los[r] = row.lo;
        his[r] = row.hi;
        if (row.lo < row.hi) {
            atomicMin(range, row.lo);
            atomicMax(range + 1, row.hi);
        }
    }
    constexpr int words = DK * 2;
    for (int n = threadIdx.x; n < BM * words; n += THREADS) {
        const int r = n / words, word = n % words, query = (first + r) / A::GROUP, head = (first + r) % A::GROUP;
        const bool real = query < A::QUERIES && word * 8 < A::D;
        const unsigned short* from = a.q + batch * A::Q_B + (pair * A::GROUP + head) * A::Q_H + query * A::Q_S;
        ein_copy_16(qs + r * DP + word * 8, real ? from + word * 8 : a.q, real);
    }
    __syncthreads();
    const int lo = range[0], hi = range[1];
    // Tiles of the keys, then tiles of the queries' own.
    const int seen = hi > lo ? (hi - lo + BN - 1) / BN : 0;
    const int own_lo = first / A::GROUP, own_hi = (first + BM - 1) / A::GROUP + 1;
    const int count = seen + (A::OWN ? ((own_hi < A::QUERIES ? own_hi : A::QUERIES) - own_lo + BN - 1) / BN : 0);
    const unsigned short* k = a.k + batch * A::K_B + kv * A::K_H;
    const unsigned short* v = a.v + batch * A::V_B + kv * A::V_H;

    auto fetch = [&](int tile) {
        unsigned short* to_k = ks + (tile & 1) * BN * DP;
        unsigned short* to_v = vs + (tile & 1) * BN * EP;
        if (!A::OWN || tile < seen) {
            const int at = lo + tile * BN;
            ein_copy_rows<BN, A::D, THREADS>(to_k, k + (long long)at * A::K_T, A::K_T, A::KEYS - at);
            ein_copy_rows<BN, A::E, THREADS>(to_v, v + (long long)at * A::V_T, A::V_T, A::KEYS - at);
        } else {
            const int at = own_lo + (tile - seen) * BN;
            const unsigned short* own_k = a.own_k + batch * A::OK_B + kv * A::OK_H + (long long)at * A::OK_S;
            const unsigned short* own_v = a.own_v + batch * A::OV_B + kv * A::OV_H + (long long)at * A::OV_S;
            ein_copy_rows<BN, A::D, THREADS>(to_k, own_k, A::OK_S, A::QUERIES - at);
            ein_copy_rows<BN, A::E, THREADS>(to_v, own_v, A::OV_S, A::QUERIES - at);
        }
        ein_copies_end();
    };

    ein_Attending<A, MT> state;
    state.none();
    // What the rows of this warp see: some of them, and all of them.
    int some_lo = A::KEYS, some_hi = 0, all_lo = 0, all_hi = A::KEYS;
    for (int r = warp * MT * 16; r < (warp + 1) * MT * 16; r++) {
        if (los[r] < his[r]) some_lo = min(some_lo, los[r]), some_hi = max(some_hi, his[r]);
        // What is no row sees nothing, and nobody asks.
        if (first + r < rows) all_lo = max(all_lo, los[r]), all_hi = min(all_hi, his[r]);
    }
    if (count > 0) {
        fetch(0);
    } else {
        // What is on its way is waited for, though nobody looks at it.
        ein_copies_end();
        ein_copies_wait<0>();
    }
    for (int tile = 0; tile < count; tile++) {
        ein_copies_wait<0>();
        // What was fetched is there for all, and nobody reads the tile before this one any more.
        __syncthreads();
        if (tile + 1 < count) fetch(tile + 1);
        const bool own = A::OWN && tile >= seen;
        const int at = own ? own_lo + (tile - seen) * BN : lo + tile * BN;
        if (!own && (at + BN <= some_lo || at >= some_hi)) continue;
        const unsigned short* kt = ks + (tile & 1) * BN * DP;
        const unsigned short* vt = vs + (tile & 1) * BN * EP;
        float s[MT][NT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) s[m][n][i] = 0.0f;
#pragma unroll
        for (int d = 0; d < DK; d++) {
            unsigned q[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
                ein_matrices<false>(
                    q[m], qs + ((warp * MT + m) * 16 + (lane & 15)) * DP + d * 16 + (lane >> 4) * 8);
#pragma unroll
            for (int n = 0; n < NT; n += 2) {
                // Matrices: keys n*8.., values d*16.. and d*16+8..; keys n*8+8.., the same.
                unsigned w[4];
                ein_matrices<false>(w, kt + (n * 8 + (lane >> 4) * 8 + (lane & 7)) * DP + d * 16 + (lane >> 3 & 1) * 8);
                const unsigned left[2] = {w[0], w[1]}, right[2] = {w[2], w[3]};
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    ein_product<T>(s[m][n], q[m], left);
                    ein_product<T>(s[m][n + 1], q[m], right);
                }
            }
        }
        const bool partial = own || A::MASK || at < all_lo || at + BN > all_hi;
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) s[m][n][i] = A::scored(s[m][n][i]);
        if (partial) {
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int r = (warp * MT + m) * 16 + h * 8 + g, query = (first + r) / A::GROUP;
                    const int from = own ? query : los[r], to = own ? query + 1 : his[r];
#pragma unroll
                    for (int n = 0; n < NT; n++)
#pragma unroll
                        for (int i = 2 * h; i < 2 * h + 2; i++) {
                            const int key = at + n * 8 + 2 * c + (i & 1);
                            if (key < from || key >= to)
                                s[m][n][i] = -ein_infinity();
                            else if (A::MASK && !own && query < A::QUERIES)
                                s[m][n][i] += ein_masked(a, batch, pair * A::GROUP + (first + r) % A::GROUP, query, key);
                        }
                }
        }
        state.template take<NT>(s);
        bool odd = false;
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            unsigned p[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int w = 0; w < 4; w++) {
                    const float* two = &s[m][n + w / 2][w % 2 * 2];
                    p[m][w] = ein_pack<T>(two[0], two[1]);
                }
#pragma unroll
            for (int e = 0; e < EN; e += 2) {
                // Matrices: keys n*8.. and n*8+8.., values e*8..; the same, values e*8+8...
                unsigned w[4];
                ein_matrices<true>(w, vt + (n * 8 + (lane & 15)) * EP + e * 8 + (lane >> 4) * 8);
                if (partial)
#pragma unroll
                    for (int i = 0; i < 4; i++) odd |= ein_bound<T>(w[i]);
                const unsigned left[2] = {w[0], w[1]}, right[2] = {w[2], w[3]};
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    ein_product<T>(state.acc[m][e], p[m], left);
                    ein_product<T>(state.acc[m][e + 1], p[m], right);
                }
            }
        }
        // Infinities count where they are seen.
        if (partial && __ballot_sync(0xffffffffu, odd) != 0)
#pragma unroll 1
            for (int key = 0; key < BN; key++)
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const float weight = ein_weight<NT>(s[m], key, h);
#pragma unroll
                        for (int e = 0; e < EN; e++)
                            ein_add_unbounded<T>(state.acc[m][e][2 * h], state.acc[m][e][2 * h + 1], weight,
                                                 *(const unsigned*)(vt + key * EP + e * 8 + 2 * c));
                    }
    }
    state.end();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = first + (warp * MT + m) * 16 + h * 8 + g;
            if (r >= rows) continue;
            const int head = pair * A::GROUP + r % A::GROUP;
            const long long to = ((long long)batch * A::PAIRS * A::GROUP + head) * A::QUERIES + r / A::GROUP;
            const float total = state.sum[m][h];
#pragma unroll
            for (int e = 0; e < EN; e++)
                if (e * 8 + 2 * c < A::E)
                    out.two(to, e * 8 + 2 * c, state.acc[m][e][2 * h], state.acc[m][e][2 * h + 1], total);
            if (c == 0) out.state(to, state.top[m][h] * 0.693147180559945309f, total);
        }
}

// ---- few rows of many keys: blocks share the keys, and read each once ----
//
// Keys and values go from memory to registers, 16 bytes at a time, in the order that `mma` takes them: which value of a
// head stands at which place of a product does not matter as long as both factors agree. A warp takes 16 keys at a time,
// the warps of a block keys that follow each other.

// What a block leaves of its part of the keys: E values, maximum and sum of 16 rows.
template <typename A> EIN_FN constexpr int ein_part() { return 16 * (A::E + 2); }

template <typename A, typename T, int WARPS, int SPLITS, typename Out>
EIN_FN void ein_attention_split(const A& a, Out out, float* parts, float* shared) {
    constexpr int DJ = A::D / 32, EJ = A::E / 64, E = A::E;
    constexpr int rows = A::QUERIES * A::GROUP, tiles = (rows + 15) / 16;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, c = lane & 3;
    const int split = (int)(blockIdx.x % SPLITS), unit = (int)(blockIdx.x / SPLITS);
    const int first = unit % tiles * 16, pair = unit / tiles % A::PAIRS, batch = unit / tiles / A::PAIRS;
    const int kv = ein_kv(a, pair);
    int los[2], his[2], queries[2], lo = A::KEYS, hi = 0, all_lo = 0, all_hi = A::KEYS;
    unsigned q[2 * DJ][4];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const ein_Row row = ein_row(a, first + h * 8 + g);
        const bool real = row.query < A::QUERIES;
        los[h] = row.lo;
        his[h] = row.hi;
        queries[h] = row.query;
        if (row.lo < row.hi) lo = min(lo, row.lo), hi = max(hi, row.hi);
        if (real) all_lo = max(all_lo, row.lo), all_hi = min(all_hi, row.hi);
        const unsigned short* from = a.q + batch * A::Q_B + (pair * A::GROUP + row.head) * A::Q_H + row.query * A::Q_S;
#pragma unroll
        for (int j = 0; j < DJ; j++) {
            unsigned w[4] = {0, 0, 0, 0};
            if (real) ein_load<16>(w, (const unsigned*)(from + j * 32 + c * 8));
            q[2 * j][h] = w[0], q[2 * j][2 + h] = w[1], q[2 * j + 1][h] = w[2], q[2 * j + 1][2 + h] = w[3];
        }
    }
#pragma unroll
    for (int by = 4; by < 32; by <<= 1) {
        lo = min(lo, __shfl_xor_sync(0xffffffffu, lo, by)), hi = max(hi, __shfl_xor_sync(0xffffffffu, hi, by));
        all_lo = max(all_lo, __shfl_xor_sync(0xffffffffu, all_lo, by));
        all_hi = min(all_hi, __shfl_xor_sync(0xffffffffu, all_hi, by));
    }
    // Steps of 16 keys, then of 16 queries' own, which are the first block's.
    const int steps = hi > lo ? (hi - lo + 15) / 16 : 0;
    const int from = (int)((long long)steps * split / SPLITS), to = (int)((long long)steps * (split + 1) / SPLITS);
    const int own_lo = first / A::GROUP;
    const int own_end = min((int)A::QUERIES, (first + 15) / (int)A::GROUP + 1);
    const int count = to - from + (A::OWN && split == 0 ? (own_end - own_lo + 15) / 16 : 0);
    ein_Attending<A, 1> state;
    state.none();
    const unsigned short* keys = a.k + batch * A::K_B + kv * A::K_H;
    const unsigned short* values = a.v + batch * A::V_B + kv * A::V_H;
    for (int n = warp; n < count; n += WARPS) {
        const bool own = A::OWN && n >= to - from;
        const int at = own ? own_lo + (n - (to - from)) * 16 : lo + (from + n) * 16;
        const int end = own ? (int)A::QUERIES : (int)A::KEYS;
        const unsigned short* k = own ? a.own_k + batch * A::OK_B + kv * A::OK_H : keys;
        const unsigned short* v = own ? a.own_v + batch * A::OV_B + kv * A::OV_H : values;
        const long long k_step = own ? A::OK_S : A::K_T, v_step = own ? A::OV_S : A::V_T;
        unsigned kw[2][DJ][4], vw[4][EJ][4];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < DJ; j++) {
                const int key = at + i * 8 + g;
                kw[i][j][0] = kw[i][j][1] = kw[i][j][2] = kw[i][j][3] = 0;
                if (key < end) ein_load<16>(kw[i][j], (const unsigned*)(k + key * k_step + j * 32 + c * 8));
            }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < EJ; j++) {
                const int key = at + i / 2 * 8 + 2 * c + i % 2;
                vw[i][j][0] = vw[i][j][1] = vw[i][j][2] = vw[i][j][3] = 0;
                if (key < end) ein_load<16>(vw[i][j], (const unsigned*)(v + key * v_step + j * 64 + g * 8));
            }
        float s[1][2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            s[0][i][0] = s[0][i][1] = s[0][i][2] = s[0][i][3] = 0.0f;
#pragma unroll
            for (int j = 0; j < DJ; j++) {
                const unsigned low[2] = {kw[i][j][0], kw[i][j][1]}, high[2] = {kw[i][j][2], kw[i][j][3]};
                ein_product<T>(s[0][i], q[2 * j], low);
                ein_product<T>(s[0][i], q[2 * j + 1], high);
            }
        }
        const bool partial = own || A::MASK || at < all_lo || at + 16 > all_hi;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int x = 0; x < 4; x++) {
                s[0][i][x] = A::scored(s[0][i][x]);
                if (partial) {
                    const int h = x / 2, key = at + i * 8 + 2 * c + x % 2;
                    const int own_from = own ? queries[h] : los[h], own_to = own ? queries[h] + 1 : his[h];
                    if (key < own_from || key >= own_to)
                        s[0][i][x] = -ein_infinity();
                    else if (A::MASK && !own && queries[h] < A::QUERIES)
                        s[0][i][x] += ein_masked(a, batch, pair * A::GROUP + (first + h * 8 + g) % A::GROUP,
                                                 queries[h], key);
                }
            }
        state.template take<2>(s);
        unsigned p[4];
        bool unbounded = false;
#pragma unroll
        for (int w = 0; w < 4; w++) p[w] = ein_pack<T>(s[0][w / 2][w % 2 * 2], s[0][w / 2][w % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < EJ; j++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                // Column g of the product is value j*64 + g*8 + 2w, then the next.
                unsigned even[2] = {(vw[0][j][w] & 0xffffu) | (vw[1][j][w] << 16),
                                    (vw[2][j][w] & 0xffffu) | (vw[3][j][w] << 16)};
                unsigned odd[2] = {(vw[0][j][w] >> 16) | (vw[1][j][w] & 0xffff0000u),
                                   (vw[2][j][w] >> 16) | (vw[3][j][w] & 0xffff0000u)};
                if (partial)
#pragma unroll
                    for (int i = 0; i < 2; i++) unbounded |= ein_bound<T>(even[i]) | ein_bound<T>(odd[i]);
                ein_product<T>(state.acc[0][j * 8 + 2 * w], p, even);
                ein_product<T>(state.acc[0][j * 8 + 2 * w + 1], p, odd);
            }
        // Infinities count where they are seen.
        if (partial && __ballot_sync(0xffffffffu, unbounded) != 0)
#pragma unroll 1
            for (int key = 0; key < min(16, end - at); key++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float weight = ein_weight<2>(s[0], key, h);
#pragma unroll
                    for (int n = 0; n < EJ * 8; n++) {
                        const unsigned short* two = v + (at + key) * v_step + n / 8 * 64 + 2 * c * 8 + n % 8;
                        ein_add_unbounded<T>(state.acc[0][n][2 * h], state.acc[0][n][2 * h + 1], weight,
                                             (unsigned)two[0] | ((unsigned)two[8] << 16));
                    }
                }
    }
    state.end();
    // The warps' parts, one after the other.
    float* mine = shared + warp * ein_part<A>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = h * 8 + g;
#pragma unroll
        for (int n = 0; n < EJ * 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) mine[r * (E + 2) + n / 8 * 64 + (2 * c + i) * 8 + n % 8] = state.acc[0][n][2 * h + i];
        if (c == 0) mine[r * (E + 2) + E] = state.top[0][h], mine[r * (E + 2) + E + 1] = state.sum[0][h];
    }
    __syncthreads();
    const int real = min(16, rows - first);
    for (int n = threadIdx.x; n < real * E; n += WARPS * 32) {
        const int r = n / E, e = n % E;
        float all = -ein_infinity(), total = 0.0f, value = 0.0f;
        for (int w = 0; w < WARPS; w++) all = fmaxf(all, shared[w * ein_part<A>() + r * (E + 2) + E]);
        const float by = all == -ein_infinity() ? 0.0f : all;
        for (int w = 0; w < WARPS; w++) {
            const float* part = shared + w * ein_part<A>() + r * (E + 2);
            const float scale = ein_exp2(part[E] - by);
            total += part[E + 1] * scale;
            value += part[e] * scale;
        }
        if (SPLITS > 1) {
            float* to_part = parts + (((long long)unit * 16 + r) * SPLITS + split) * (E + 2);
            to_part[e] = value;
            if (e == 0) to_part[E] = all, to_part[E + 1] = total;
        } else {
            const int head = pair * A::GROUP + (first + r) % A::GROUP;
            const long long row = ((long long)batch * A::PAIRS * A::GROUP + head) * A::QUERIES + (first + r) / A::GROUP;
            out.value(row, e, value, total);
            if (e == 0) out.state(row, all * 0.693147180559945309f, total);
        }
    }
}

// Folds the parts of blocks, in their order: a block for each row.
template <typename A, int SPLITS, int THREADS, typename Out> EIN_FN void ein_attention_join(const A&, Out out, const float* parts) {
    constexpr int E = A::E, rows = A::QUERIES * A::GROUP, tiles = (rows + 15) / 16;
    const int r = (int)(blockIdx.x % rows), unit = (int)(blockIdx.x / rows) * tiles + r / 16;
    const int pair = unit / tiles % A::PAIRS, batch = unit / tiles / A::PAIRS;
    const float* own = parts + ((long long)unit * 16 + r % 16) * SPLITS * (E + 2);
    float all = -ein_infinity();
    for (int n = 0; n < SPLITS; n++) all = fmaxf(all, own[n * (E + 2) + E]);
    const float by = all == -ein_infinity() ? 0.0f : all;
    const int head = pair * A::GROUP + r % A::GROUP;
    const long long row = ((long long)batch * A::PAIRS * A::GROUP + head) * A::QUERIES + r / A::GROUP;
    for (int e = threadIdx.x; e < E; e += THREADS) {
        float total = 0.0f, value = 0.0f;
        for (int n = 0; n < SPLITS; n++) {
            const float scale = ein_exp2(own[n * (E + 2) + E] - by);
            total += own[n * (E + 2) + E + 1] * scale;
            value += own[n * (E + 2) + e] * scale;
        }
        out.value(row, e, value, total);
        if (e == 0) out.state(row, all * 0.693147180559945309f, total);
    }
}
