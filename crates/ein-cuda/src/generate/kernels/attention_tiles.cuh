
// ---- many rows, by tensor cores: each block takes WARPS * MT * 16 rows of a pair over tiles of BN keys ----
//
// Dao, FlashAttention-2 (2023): scores stay in registers, as does what is accumulated; keys and values come through
// shared memory, the next tile while this one is worked on. Scores are in units of log 2.

// The state of a warp: MT tiles of 16 rows. Values are padded to a multiple of WIDE.
template <typename A, int MT, int WIDE = 16> struct ein_Attending {
    static constexpr int EN = (A::E + WIDE - 1) / WIDE * WIDE / 8;
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

    // Takes the scores of NT * 8 keys: they become weights. What there was before is to be scaled by `scale`.
    template <int NT> __device__ __forceinline__ void weigh(float (&s)[MT][NT][4], float (&scale)[MT][2]) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float all = top[m][h];
#pragma unroll
                for (int n = 0; n < NT; n++) all = fmaxf(all, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
                all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, 1));
                all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, 2));
                // Nothing is seen yet: any number will do to weigh nothing by.
                const float by = all == -ein_infinity() ? 0.0f : all;
                scale[m][h] = ein_exp2(top[m][h] - by);
                top[m][h] = all;
                float own = 0.0f;
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int i = 2 * h; i < 2 * h + 2; i++) {
                        s[m][n][i] = ein_exp2(s[m][n][i] - by);
                        own += s[m][n][i];
                    }
                sum[m][h] = fmaf(sum[m][h], scale[m][h], own);
            }
    }

    __device__ __forceinline__ void scaled(const float (&scale)[MT][2]) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < EN; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) acc[m][n][i] *= scale[m][i / 2];
    }

    // Both.
    template <int NT> __device__ __forceinline__ void take(float (&s)[MT][NT][4]) {
        float scale[MT][2];
        weigh<NT>(s, scale);
        scaled(scale);
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

// A value of shared memory by itself, where rows are no words of 16 bytes.
template <int SIZE> EIN_FN unsigned short ein_element(const unsigned short* row, int place, bool real) {
    return real && place < SIZE ? row[place] : (unsigned short)0;
}

// Copies ROWS rows of SIZE elements to shared memory, `step` apart: those from `rows` on, and values from SIZE on, are 0.
// WORDS: rows are words of 16 bytes.
template <int ROWS, int SIZE, int THREADS, bool WORDS>
EIN_FN void ein_copy_rows(unsigned short* to, const unsigned short* from, long long step, int rows) {
    constexpr int words = (SIZE + 15) / 16 * 2;
    if (!WORDS) {
        for (int n = threadIdx.x; n < ROWS * words * 8; n += THREADS) {
            const int row = n / (words * 8), place = n % (words * 8);
            to[row * ein_padded(SIZE) + place] = ein_element<SIZE>(from + row * step, place, row < rows);
        }
        return;
    }
    for (int n = threadIdx.x; n < ROWS * words; n += THREADS) {
        const int row = n / words, word = n % words;
        const bool real = row < rows && word * 8 < SIZE;
        ein_copy_16(to + row * ein_padded(SIZE) + word * 8, real ? from + row * step + word * 8 : from, real);
    }
}

// Bytes of shared memory of a block.
template <typename A, int MT, int WARPS, int BN> EIN_FN constexpr int ein_attention_tiles_room() {
    return 2 * (WARPS * MT * 16 * ein_padded(A::D) + 2 * BN * (ein_padded(A::D) + ein_padded(A::E))) +
           8 * WARPS * MT * 16 + 8;
}

// The part of `count` tiles that is the block's, where SPLITS blocks share them.
template <int SPLITS> EIN_FN void ein_share(int count, int split, int& from, int& to) {
    from = (int)((long long)count * split / SPLITS);
    to = (int)((long long)count * (split + 1) / SPLITS);
}

// Stores row `r` of a pair, which is row 8 * h of tile m of a state: the result, or the block's part of it.
template <typename A, int SPLITS, int BM, typename Out, typename State>
EIN_FN void ein_leave(Out out, float* parts, const State& state, int m, int h, int r, int pair, int batch, int split, int c) {
    constexpr int E = A::E, tiles = (A::QUERIES * A::GROUP + BM - 1) / BM;
    const float total = state.sum[m][h];
    const int head = pair * A::GROUP + r % A::GROUP, unit = (batch * A::PAIRS + pair) * tiles + r / BM;
    const long long to = ((long long)batch * A::PAIRS * A::GROUP + head) * A::QUERIES + r / A::GROUP;
    float* const part = parts + (((long long)unit * BM + r % BM) * SPLITS + split) * (E + 2);
#pragma unroll
    for (int e = 0; e < State::EN; e++) {
        const int place = e * 8 + 2 * c;
        if (place >= E) continue;
        if (SPLITS == 1) {
            out.two(to, place, state.acc[m][e][2 * h], state.acc[m][e][2 * h + 1], total);
        } else {
            part[place] = state.acc[m][e][2 * h];
            if (place + 1 < E) part[place + 1] = state.acc[m][e][2 * h + 1];
        }
    }
    if (c != 0) return;
    if (SPLITS == 1) {
        out.state(to, state.top[m][h] * 0.693147180559945309f, total);
    } else {
        part[E] = state.top[m][h], part[E + 1] = total;
    }
}

// With more than one of SPLITS the blocks of some rows share the keys and leave parts, which `ein_attention_join` folds.
template <typename A, typename T, int MT, int WARPS, int BN, int SPLITS, typename Out>
EIN_FN void ein_attention_tiles(const A& a, Out out, float* parts, unsigned char* shared) {
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
    const int units = A::PAIRS * A::BATCH, split = (int)(blockIdx.x % SPLITS);
    const int unit = (int)(blockIdx.x / SPLITS % units);
    const int first = (tiles - 1 - (int)(blockIdx.x / SPLITS / units)) * BM;
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
        if (A::WORDS) {
            ein_copy_16(qs + r * DP + word * 8, real ? from + word * 8 : a.q, real);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                qs[r * DP + word * 8 + i] = ein_element<A::D>(from, word * 8 + i, real);
        }
    }
    __syncthreads();
    const int lo = range[0], hi = range[1];
    // Tiles of the keys, then tiles of the queries' own.
    const int seen = hi > lo ? (hi - lo + BN - 1) / BN : 0;
    const int own_lo = first / A::GROUP, own_hi = (first + BM - 1) / A::GROUP + 1;
    const int count = seen + (A::OWN ? ((own_hi < A::QUERIES ? own_hi : A::QUERIES) - own_lo + BN - 1) / BN : 0);
    int begin, end;
    ein_share<SPLITS>(count, split, begin, end);
    const unsigned short* k = a.k + batch * A::K_B + kv * A::K_H;
    const unsigned short* v = a.v + batch * A::V_B + kv * A::V_H;

    auto fetch = [&](int tile) {
        unsigned short* to_k = ks + (tile & 1) * BN * DP;
        unsigned short* to_v = vs + (tile & 1) * BN * EP;
        if (!A::OWN || tile < seen) {
            const int at = lo + tile * BN;
            ein_copy_rows<BN, A::D, THREADS, A::WORDS>(to_k, k + (long long)at * A::K_T, A::K_T, A::KEYS - at);
            ein_copy_rows<BN, A::E, THREADS, A::WORDS>(to_v, v + (long long)at * A::V_T, A::V_T, A::KEYS - at);
        } else {
            const int at = own_lo + (tile - seen) * BN;
            const unsigned short* own_k = a.own_k + batch * A::OK_B + kv * A::OK_H + (long long)at * A::OK_S;
            const unsigned short* own_v = a.own_v + batch * A::OV_B + kv * A::OV_H + (long long)at * A::OV_S;
            ein_copy_rows<BN, A::D, THREADS, A::WORDS>(to_k, own_k, A::OK_S, A::QUERIES - at);
            ein_copy_rows<BN, A::E, THREADS, A::WORDS>(to_v, own_v, A::OV_S, A::QUERIES - at);
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
    if (begin < end) {
        fetch(begin);
    } else {
        // What is on its way is waited for, though nobody looks at it.
        ein_copies_end();
        ein_copies_wait<0>();
    }
    for (int tile = begin; tile < end; tile++) {
        ein_copies_wait<0>();
        // What was fetched is there for all, and nobody reads the tile before this one any more.
        __syncthreads();
        if (tile + 1 < end) fetch(tile + 1);
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
            if (r < rows) ein_leave<A, SPLITS, BM>(out, parts, state, m, h, r, pair, batch, split, c);
        }
}
