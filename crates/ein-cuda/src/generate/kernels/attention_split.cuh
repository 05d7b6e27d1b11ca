
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

// Folds the parts of blocks of ROWS rows, in their order: a block for each row.
template <typename A, int ROWS, int SPLITS, int THREADS, typename Out>
EIN_FN void ein_attention_join(const A&, Out out, const float* parts) {
    constexpr int E = A::E, rows = A::QUERIES * A::GROUP, tiles = (rows + ROWS - 1) / ROWS;
    const int r = (int)(blockIdx.x % rows), unit = (int)(blockIdx.x / rows) * tiles + r / ROWS;
    const int pair = unit / tiles % A::PAIRS, batch = unit / tiles / A::PAIRS;
    const float* own = parts + ((long long)unit * ROWS + r % ROWS) * SPLITS * (E + 2);
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
