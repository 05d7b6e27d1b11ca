
// ---- many rows, by groups of four warps (`wgmma`) and bulk copies: each block takes 128 rows of a pair over tiles of BN keys ----
//
// As above, but for who does what (Shah et al., FlashAttention-3, 2024). One warp of a group of four fetches: keys and
// values come as boxes of tensors that the driver described, into rings of STAGES tiles, swizzled lines as `wgmma` reads
// them. Two groups multiply and weigh, 64 rows each. Every tile of a ring has two barriers: `full`, for which the bytes
// count, and `free`, at which the eight warps arrive that are done with it. While the scores of a tile become weights, the
// values of the tile before it are multiplied, and the groups take turns: one gives its products while the other weighs.
// What lies outside of a tensor, also places of a head up to the next multiple of 64, comes as 0.

template <typename A, int BN, int STAGES> struct ein_Grouped {
    static constexpr int BM = 128, THREADS = 384, NT = BN / 8, DK = (A::D + 15) / 16;
    // Panels of 64 values, and bytes of a row or key in all of them.
    static constexpr int DPS = (A::D + 63) / 64, EPS = (A::E + 63) / 64, DB = DPS * 128, EB = EPS * 128;
    // Bytes of shared memory of a block, with what it takes to begin at a multiple of 1024.
    static constexpr int ROOM = 1024 + BM * DB + STAGES * BN * (DB + EB) + 8 * BM + 32 + 32 * STAGES;
};

// The tensors that boxes are copied of.
struct ein_Maps {
    const ein_Map &k, &v, &own_k, &own_v;
};

// Of a ring of tiles, the n-th that is fetched.
template <int STAGES> EIN_FN int ein_stage(int n) { return n % STAGES; }
template <int STAGES> EIN_FN unsigned ein_parity(int n) { return (unsigned)(n / STAGES) & 1u; }

// acc += p v, where v is panels of 64 columns, in products of 128 columns at most.
template <typename T, int BN, int N, int FROM = 0>
EIN_FN void ein_multiply_panels(float (&acc)[N][4], const unsigned (&p)[4], const unsigned char* v) {
    if constexpr (FROM < N) {
        constexpr int own = N - FROM >= 16 ? 16 : 8;
        ein_group_product<T>(*(float (*)[own][4]) & acc[FROM], p, ein_operand(v + FROM / 8 * BN * 128, BN * 128, 1024));
        ein_multiply_panels<T, BN, N, FROM + own>(acc, p, v);
    }
}

template <typename A, typename T, int BN, int STAGES, int SPLITS, typename Out>
EIN_FN void ein_attention_groups(const A& a, const ein_Maps& maps, Out out, float* parts, unsigned char* room) {
    typedef ein_Grouped<A, BN, STAGES> G;
    constexpr int BM = G::BM, NT = G::NT, DK = G::DK, DB = G::DB, EB = G::EB;
    // The threads that multiply, and barriers: of all of them, and of each group's turn.
    constexpr int MULTIPLYING = 256, ALL = 1, TURN = 2;
    typedef ein_Attending<A, 1, 64> State;
    constexpr int rows = A::QUERIES * A::GROUP, tiles = (rows + BM - 1) / BM;
    unsigned char* const qs = ein_blocks(room);
    unsigned char* const ks = qs + BM * DB;
    unsigned char* const vs = ks + STAGES * BN * DB;
    int* const los = (int*)(vs + STAGES * BN * EB);
    int* const his = los + BM;
    int* const range = his + BM;
    // The tile whose values were last found to be unbounded, and one.
    int* const odd = range + 4;
    ein_u64* const full_k = (ein_u64*)(range + 8);
    ein_u64 *const full_v = full_k + STAGES, *const free_k = full_v + STAGES, *const free_v = free_k + STAGES;
    // The rows that see most begin first.
    const int units = A::PAIRS * A::BATCH, split = (int)(blockIdx.x % SPLITS);
    const int unit = (int)(blockIdx.x / SPLITS % units);
    const int first = (tiles - 1 - (int)(blockIdx.x / SPLITS / units)) * BM;
    const int pair = unit % A::PAIRS, batch = unit / A::PAIRS, kv = ein_kv(a, pair);

    // Keys that some row sees, and those that all rows see.
    if (threadIdx.x == 0) {
        range[0] = A::KEYS, range[1] = 0, range[2] = 0, range[3] = A::KEYS, *odd = 0;
        for (int n = 0; n < 2 * STAGES; n++) ein_phases_make(full_k + n, 1), ein_phases_make(free_k + n, 8);
        ein_phases_made();
    }
    __syncthreads();
    for (int r = threadIdx.x; r < BM; r += G::THREADS) {
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
    __syncthreads();
    const int lo = range[0], hi = range[1], all_lo = range[2], all_hi = range[3];
    const int seen = hi > lo ? (hi - lo + BN - 1) / BN : 0;
    const int own_lo = first / A::GROUP, own_hi = (first + BM - 1) / A::GROUP + 1;
    const int count = seen + (A::OWN ? ((own_hi < A::QUERIES ? own_hi : A::QUERIES) - own_lo + BN - 1) / BN : 0);
    int begin, end;
    ein_share<SPLITS>(count, split, begin, end);
    auto is_own = [&](int tile) { return A::OWN && tile >= seen; };
    auto place = [&](int tile) { return is_own(tile) ? own_lo + (tile - seen) * BN : lo + tile * BN; };

    // The same for all lanes of a warp, which the compiler has to see.
    const int role = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (role == 0) {
        ein_fewer_registers<24>();
        if (threadIdx.x == 0) {
            // Fetches a tile of panels of 64 values into a ring, when it is free.
            auto fetch = [&](int tile, unsigned char* ring, ein_u64* full, ein_u64* free, const ein_Map& map, int panels,
                             int key, int head, int batches) {
                const int n = tile - begin, stage = ein_stage<STAGES>(n);
                ein_phases_wait(free + stage, ein_parity<STAGES>(n) ^ 1u);
                ein_phases_expect(full + stage, (unsigned)(panels * BN * 128));
                for (int panel = 0; panel < panels; panel++) {
                    int at[4] = {panel * 64, 0, 0, 0};
                    at[key] = place(tile), at[head] = kv, at[batches] = batch;
                    ein_bulk_copy(ring + (stage * panels + panel) * BN * 128, map, full + stage, at);
                }
            };
            // Keys come one tile ahead of values.
#pragma unroll 1
            for (int tile = begin; tile <= end && begin < end; tile++) {
                if (tile < end) {
                    if (is_own(tile))
                        fetch(tile, ks, full_k, free_k, maps.own_k, G::DPS, A::OK_KEY, A::OK_HEAD, A::OK_BATCH);
                    else
                        fetch(tile, ks, full_k, free_k, maps.k, G::DPS, A::K_KEY, A::K_HEAD, A::K_BATCH);
                }
                if (tile > begin) {
                    if (is_own(tile - 1))
                        fetch(tile - 1, vs, full_v, free_v, maps.own_v, G::EPS, A::OV_KEY, A::OV_HEAD, A::OV_BATCH);
                    else
                        fetch(tile - 1, vs, full_v, free_v, maps.v, G::EPS, A::V_KEY, A::V_HEAD, A::V_BATCH);
                }
            }
        }
        return;
    }
    ein_more_registers<240>();
    const int thread = (int)threadIdx.x - 128, lane = thread & 31, warp = thread >> 5, group = role - 1;
    const int g = lane >> 2, c = lane & 3;
    constexpr int words = DK * 2;
    for (int n = thread; n < BM * words; n += MULTIPLYING) {
        const int r = n / words, word = n % words, query = (first + r) / A::GROUP, head = (first + r) % A::GROUP;
        const bool real = query < A::QUERIES && word * 8 < A::D;
        const unsigned short* from = a.q + batch * A::Q_B + (pair * A::GROUP + head) * A::Q_H + query * A::Q_S;
        ein_copy_16(qs + ein_line<BM>(r, word * 8), real ? from + word * 8 : a.q, real);
    }
    ein_copies_end();
    ein_copies_wait<0>();
    ein_written();
    ein_meet(ALL, MULTIPLYING);

    auto wait = [&](ein_u64* full, int tile) {
        ein_phases_wait(full + ein_stage<STAGES>(tile - begin), ein_parity<STAGES>(tile - begin));
    };
    // This warp is done with a tile.
    auto done = [&](ein_u64* free, int tile) {
        if (lane == 0) ein_phases_arrive(free + ein_stage<STAGES>(tile - begin));
    };
    auto keys = [&](int tile) { return ks + ein_stage<STAGES>(tile - begin) * BN * DB; };
    auto values = [&](int tile) { return vs + ein_stage<STAGES>(tile - begin) * BN * EB; };
    // Where a tile's values are in memory, how far apart and how many to the last.
    struct Rows {
        const unsigned short* from;
        long long step;
        int count;
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

    State state;
    state.none();
    float s[1][NT][4];
    unsigned p[NT / 2][4];
    // The rows of this group of warps.
    const unsigned char* const own_q = qs + group * 64 * 128;
    auto multiply_values = [&](int tile) {
#pragma unroll
        for (int k = 0; k < NT / 2; k++) ein_multiply_panels<T, BN>(state.acc[0], p[k], values(tile) + k * 2048);
        ein_group_end();
    };
    // Infinities and what is no number count where they are seen: what the products would spread of them is taken out of a
    // tile that not all see, and added to those that do. All warps do so together, as they share the tile.
    auto bound_values = [&](int tile) {
        unsigned char* const own_v = values(tile);
        bool found = false;
        constexpr int words = (A::E + 15) / 16 * 2;
        for (int n = thread; n < BN * words; n += MULTIPLYING) {
            unsigned* const word = (unsigned*)(own_v + ein_line<BN>(n / words, n % words * 8));
#pragma unroll
            for (int i = 0; i < 4; i++) found |= ein_bound<T>(word[i]);
        }
        if (found) *odd = tile + 1;
        ein_written();
        ein_meet(ALL, MULTIPLYING);
        const bool any = *odd == tile + 1;
        ein_meet(ALL, MULTIPLYING);
        if (!any) return;
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
        const unsigned char* const own_k = keys(tile);
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
    float scale[1][2];

    if (begin < end) {
        wait(full_k, begin);
        ein_held(s[0]);
        ein_group_begin();
        multiply_keys(begin);
        ein_group_wait<0>();
        done(free_k, begin);
        weigh(begin, scale);
        pack();
        // The first group has the first turn.
        if (group == 1 && begin + 1 < end) ein_pass(TURN, MULTIPLYING);
    }
#pragma unroll 1
    for (int tile = begin + 1; tile < end; tile++) {
        if (is_partial(tile - 1)) {
            wait(full_v, tile - 1);
            bound_values(tile - 1);
        }
        wait(full_k, tile);
        ein_meet(TURN + group, MULTIPLYING);
        ein_held(s[0]);
        ein_held(state.acc[0]);
        ein_group_begin();
        multiply_keys(tile);
        wait(full_v, tile - 1);
        ein_group_begin();
        multiply_values(tile - 1);
        if (group == 0 || tile + 1 < end) ein_pass(TURN + 1 - group, MULTIPLYING);
        ein_group_wait<1>();
        done(free_k, tile);
        weigh(tile, scale);
        ein_group_wait<0>();
        done(free_v, tile - 1);
        ein_held(state.acc[0]);
        state.scaled(scale);
        pack();
    }
    if (begin < end) {
        wait(full_v, end - 1);
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
