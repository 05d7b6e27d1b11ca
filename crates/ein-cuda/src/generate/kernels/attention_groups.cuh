
// ---- many rows, by groups of four warps (`wgmma`): each block takes 128 rows of a pair over tiles of BN keys ----
//
// As above, but for how it is multiplied: queries, keys and values are swizzled lines in shared memory, and products run in
// the background. While the scores of a tile become weights, the values of the tile before it are multiplied (Shah et al.,
// FlashAttention-3, 2024, within a group): keys are fetched one tile ahead of values, and a tile takes one barrier.

// Bytes of shared memory of a block, with what it takes to begin at a multiple of 1024.
template <typename A, int BN> EIN_FN constexpr int ein_attention_groups_room() {
    return 1024 + 2 * ((A::D + 63) / 64 * 64 * (128 + 2 * BN) + (A::E + 63) / 64 * 64 * 2 * BN) + 8 * 128 + 16;
}

// Copies ROWS rows of SIZE elements to lines, `step` apart: those from `rows` on, and values from SIZE on, are 0.
template <int ROWS, int SIZE, int THREADS>
EIN_FN void ein_copy_lines(unsigned char* to, const unsigned short* from, long long step, int rows) {
    constexpr int words = (SIZE + 15) / 16 * 2;
#pragma unroll 4
    for (int n = threadIdx.x; n < ROWS * words; n += THREADS) {
        const int row = n / words, word = n % words;
        const bool real = row < rows && word * 8 < SIZE;
        ein_copy_16(to + ein_line<ROWS>(row, word * 8), real ? from + row * step + word * 8 : from, real);
    }
}

template <typename A, typename T, int BN, int SPLITS, typename Out>
EIN_FN void ein_attention_groups(const A& a, Out out, float* parts, unsigned char* room) {
    constexpr int BM = 128, THREADS = 256, NT = BN / 8, DK = (A::D + 15) / 16;
    constexpr int DB = (A::D + 63) / 64 * 128, EB = (A::E + 63) / 64 * 128;
    typedef ein_Attending<A, 1, 64> State;
    constexpr int rows = A::QUERIES * A::GROUP, tiles = (rows + BM - 1) / BM;
    unsigned char* const qs = ein_blocks(room);
    unsigned char* const ks = qs + BM * DB;
    unsigned char* const vs = ks + 2 * BN * DB;
    int* const los = (int*)(vs + 2 * BN * EB);
    int* const his = los + BM;
    int* const range = his + BM;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, c = lane & 3;
    // The rows that see most begin first.
    const int units = A::PAIRS * A::BATCH, split = (int)(blockIdx.x % SPLITS);
    const int unit = (int)(blockIdx.x / SPLITS % units);
    const int first = (tiles - 1 - (int)(blockIdx.x / SPLITS / units)) * BM;
    const int pair = unit % A::PAIRS, batch = unit / A::PAIRS, kv = ein_kv(a, pair);

    // Keys that some row sees, and those that all rows see.
    if (threadIdx.x == 0) range[0] = A::KEYS, range[1] = 0, range[2] = 0, range[3] = A::KEYS;
    __syncthreads();
    for (int r = threadIdx.x; r < BM; r += THREADS) {
        const ein_Row row = ein_row(a, first + r);
        los[r] = row.lo;
        his[r] = row.hi;
        if (row.lo < row.hi) {
            atomicMin(range, row.lo);
            atomicMax(range + 1, row.hi);
        }
        if (first + r < rows) {
            atomicMax(range + 2, row.lo);
            atomicMin(range + 3, row.hi);
        }
    }
    constexpr int words = DK * 2;
    for (int n = threadIdx.x; n < BM * words; n += THREADS) {
        const int r = n / words, word = n % words, query = (first + r) / A::GROUP, head = (first + r) % A::GROUP;
        const bool real = query < A::QUERIES && word * 8 < A::D;
        const unsigned short* from = a.q + batch * A::Q_B + (pair * A::GROUP + head) * A::Q_H + query * A::Q_S;
        ein_copy_16(qs + ein_line<BM>(r, word * 8), real ? from + word * 8 : a.q, real);
    }
    __syncthreads();
    const int lo = range[0], hi = range[1], all_lo = range[2], all_hi = range[3];
    const int seen = hi > lo ? (hi - lo + BN - 1) / BN : 0;
    const int own_lo = first / A::GROUP, own_hi = (first + BM - 1) / A::GROUP + 1;
    const int count = seen + (A::OWN ? ((own_hi < A::QUERIES ? own_hi : A::QUERIES) - own_lo + BN - 1) / BN : 0);
    int begin, end;
    ein_share<SPLITS>(count, split, begin, end);

    // Where a tile's keys or values are, how far apart and how many to the last.
    struct Rows {
        const unsigned short* from;
        long long step;
        int count;
    };
    auto is_own = [&](int tile) { return A::OWN && tile >= seen; };
    auto place = [&](int tile) { return is_own(tile) ? own_lo + (tile - seen) * BN : lo + tile * BN; };
    auto keys_of = [&](int tile) {
        const int at = place(tile);
        if (is_own(tile)) {
            const unsigned short* from = a.own_k + batch * A::OK_B + kv * A::OK_H + (long long)at * A::OK_S;
            return Rows{from, A::OK_S, A::QUERIES - at};
        }
        return Rows{a.k + batch * A::K_B + kv * A::K_H + (long long)at * A::K_T, A::K_T, A::KEYS - at};
    };
    auto values_of = [&](int tile) {
        const int at = place(tile);
        if (is_own(tile)) {
            const unsigned short* from = a.own_v + batch * A::OV_B + kv * A::OV_H + (long long)at * A::OV_S;
            return Rows{from, A::OV_S, A::QUERIES - at};
        }
        return Rows{a.v + batch * A::V_B + kv * A::V_H + (long long)at * A::V_T, A::V_T, A::KEYS - at};
    };
    // Not all rows see all of it.
    auto is_partial = [&](int tile) {
        const int at = place(tile);
        return is_own(tile) || A::MASK || at < all_lo || at + BN > all_hi;
    };
    auto fetch_keys = [&](int tile) {
        const Rows from = keys_of(tile);
        ein_copy_lines<BN, A::D, THREADS>(ks + (tile & 1) * BN * DB, from.from, from.step, from.count);
    };
    auto fetch_values = [&](int tile) {
        const Rows from = values_of(tile);
        ein_copy_lines<BN, A::E, THREADS>(vs + (tile & 1) * BN * EB, from.from, from.step, from.count);
    };

    State state;
    state.none();
    float s[1][NT][4];
    unsigned p[NT / 2][4];
    // The rows of this group of warps.
    const unsigned char* const own_q = qs + warp / 4 * 64 * 128;
    auto multiply_values = [&](int tile) {
        const unsigned char* const own_v = vs + (tile & 1) * BN * EB;
#pragma unroll
        for (int k = 0; k < NT / 2; k++)
            ein_group_product<T>(state.acc[0], p[k], ein_operand(own_v + k * 2048, BN * 128, 1024));
        ein_group_end();
    };
    // Infinities and what is no number count where they are seen: what the products would spread of them is taken out of a
    // tile that not all see, and added to those that do.
    auto bound_values = [&](int tile) {
        unsigned char* const own_v = vs + (tile & 1) * BN * EB;
        bool odd = false;
        constexpr int words = (A::E + 15) / 16 * 2;
        for (int n = threadIdx.x; n < BN * words; n += THREADS) {
            unsigned* const word = (unsigned*)(own_v + ein_line<BN>(n / words, n % words * 8));
#pragma unroll
            for (int i = 0; i < 4; i++) odd |= ein_bound<T>(word[i]);
        }
        ein_written();
        if (!__syncthreads_or(odd)) return;
        const Rows from = values_of(tile);
        float weights[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) weights[n][i] = ein_half<T>(p[n / 2][n % 2 * 2 + i / 2], i % 2);
#pragma unroll 1
        for (int key = 0; key < min(BN, from.count); key++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float weight = ein_weight<NT>(weights, key, h);
#pragma unroll
                for (int e = 0; e < State::EN; e++)
                    if (e * 8 + 2 * c < A::E)
                        ein_add_unbounded<T>(state.acc[0][e][2 * h], state.acc[0][e][2 * h + 1], weight,
                                             *(const unsigned*)(from.from + key * from.step + e * 8 + 2 * c));
            }
    };

    auto multiply_keys = [&](int tile) {
        const unsigned char* const own_k = ks + (tile & 1) * BN * DB;
#pragma unroll
        for (int d = 0; d < DK; d++)
            ein_group_product<T>(s[0], ein_operand(own_q + d / 4 * BM * 128 + d % 4 * 32, 16, 1024),
                                 ein_operand(own_k + d / 4 * BN * 128 + d % 4 * 32, 16, 1024), d > 0);
        ein_group_end();
    };
    // Scores of a tile become weights, in registers; what there was before is to be scaled.
    auto weigh = [&](int tile, float (&scale)[1][2]) {
        ein_held(s[0]);
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[0][n][i] = A::scored(s[0][n][i]);
        if (is_partial(tile)) {
            const bool own = is_own(tile);
            const int at = place(tile);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = warp * 16 + h * 8 + g, query = (first + r) / A::GROUP;
                const int from = own ? query : los[r], to = own ? query + 1 : his[r];
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int i = 2 * h; i < 2 * h + 2; i++) {
                        const int key = at + n * 8 + 2 * c + (i & 1);
                        if (key < from || key >= to)
                            s[0][n][i] = -ein_infinity();
                        else if (A::MASK && !own && query < A::QUERIES)
                            s[0][n][i] += ein_masked(a, batch, pair * A::GROUP + (first + r) % A::GROUP, query, key);
                    }
            }
        }
        state.template weigh<NT>(s, scale);
    };
    auto pack = [&]() {
#pragma unroll
        for (int k = 0; k < NT / 2; k++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const float* two = &s[0][2 * k + w / 2][w % 2 * 2];
                p[k][w] = ein_pack<T>(two[0], two[1]);
            }
    };
    // Waits for what was fetched: the keys of this tile and the values of the one before are there for all then, and all
    // are done with what is overwritten next.
    auto arrive = [&]() {
        ein_copies_wait<0>();
        ein_written();
        __syncthreads();
    };
    auto fetch = [&](int tile) {
        if (tile + 1 < end) fetch_keys(tile + 1);
        fetch_values(tile);
        ein_copies_end();
    };
    float scale[1][2];

    if (begin < end) {
        fetch_keys(begin);
        ein_copies_end();
        arrive();
        fetch(begin);
        ein_held(s[0]);
        ein_group_begin();
        multiply_keys(begin);
        ein_group_wait<0>();
        weigh(begin, scale);
        pack();
    } else {
        // What is on its way is waited for, though nobody looks at it.
        ein_copies_end();
    }
#pragma unroll 1
    for (int tile = begin + 1; tile < end; tile++) {
        arrive();
        if (is_partial(tile - 1)) bound_values(tile - 1);
        fetch(tile);
        ein_held(s[0]);
        ein_held(state.acc[0]);
        ein_group_begin();
        multiply_keys(tile);
        multiply_values(tile - 1);
        ein_group_wait<1>();
        weigh(tile, scale);
        ein_group_wait<0>();
        ein_held(state.acc[0]);
        state.scaled(scale);
        pack();
    }
    ein_copies_wait<0>();
    if (begin < end) {
        arrive();
        if (is_partial(end - 1)) bound_values(end - 1);
        ein_held(state.acc[0]);
        ein_group_begin();
        multiply_values(end - 1);
        ein_group_wait<0>();
        ein_held(state.acc[0]);
    }
    state.end();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = first + warp * 16 + h * 8 + g;
        if (r < rows) ein_leave<A, SPLITS, BM>(out, parts, state, 0, h, r, pair, batch, split, c);
    }
}
