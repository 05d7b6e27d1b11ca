
// ---- any float, many rows: each block takes 64 rows of a pair over tiles of BN keys, in squares of registers ----
//
// Of its 256 threads (x, y), in 16 lines of 16, each has the scores of rows 4 y to 4 y + 3 and BN / 16 keys, and the values
// of these rows at places 4 x to 4 x + 3 of every 64. So a value that is read from shared memory is used four times and
// more. Queries, keys and weights lie there with rows side by side; a line is four values longer than its rows, so that few
// threads of a warp that writes a row meet at one bank.

// Bytes of shared memory of a block.
template <typename A, int BN> EIN_FN constexpr int ein_attention_squares_room() {
    return (int)sizeof(typename A::real) *
               (A::D * 68 + A::D * (BN + 4) + (A::E + 63) / 64 * 64 * BN + BN * 68) +
           4 * (2 * 64 + 2);
}

template <typename A, int BN, typename Out> EIN_FN void ein_attention_squares(const A& a, Out out, unsigned char* room) {
    typedef typename A::real real;
    typedef typename A::element element;
    constexpr int BM = 64, THREADS = 256, KN = BN / 16, EC = (A::E + 63) / 64, E = A::E, KP = BN + 4, RP = BM + 4;
    constexpr int rows = A::QUERIES * A::GROUP, tiles = (rows + BM - 1) / BM;
    real* const qs = (real*)room;
    real* const ks = qs + A::D * RP;
    real* const vs = ks + A::D * KP;
    real* const ps = vs + EC * 64 * BN;
    int* const los = (int*)(ps + BN * RP);
    int* const his = los + BM;
    int* const range = his + BM;
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    const int units = A::PAIRS * A::BATCH, unit = (int)(blockIdx.x % units);
    const int first = (tiles - 1 - (int)(blockIdx.x / units)) * BM;
    const int pair = unit % A::PAIRS, batch = unit / A::PAIRS, kv = ein_kv(a, pair);

    if (t == 0) range[0] = A::KEYS, range[1] = 0;
    __syncthreads();
    for (int r = t; r < BM; r += THREADS) {
        const ein_Row row = ein_row(a, first + r);
        los[r] = row.lo;
        his[r] = row.hi;
        if (row.lo < row.hi) {
            atomicMin(range, row.lo);
            atomicMax(range + 1, row.hi);
        }
    }
    for (int n = t; n < BM * A::D; n += THREADS) {
        const int r = n / A::D, d = n % A::D, query = (first + r) / A::GROUP, head = (first + r) % A::GROUP;
        const bool is = query < A::QUERIES;
        qs[d * RP + r] = is ? A::load(a.q[batch * A::Q_B + (pair * A::GROUP + head) * A::Q_H + query * A::Q_S + d]) : (real)0;
    }
    __syncthreads();
    const int lo = range[0], hi = range[1];
    const int seen = hi > lo ? (hi - lo + BN - 1) / BN : 0;
    const int own_lo = first / A::GROUP, own_hi = (first + BM - 1) / A::GROUP + 1;
    const int count = seen + (A::OWN ? ((own_hi < A::QUERIES ? own_hi : A::QUERIES) - own_lo + BN - 1) / BN : 0);
    real acc[4][EC * 4], top[4], sum[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        top[i] = -(real)ein_infinity(), sum[i] = 0;
#pragma unroll
        for (int e = 0; e < EC * 4; e++) acc[i][e] = 0;
    }
    for (int tile = 0; tile < count; tile++) {
        const bool own = A::OWN && tile >= seen;
        const int at = own ? own_lo + (tile - seen) * BN : lo + tile * BN;
        const int left = (own ? (int)A::QUERIES : (int)A::KEYS) - at;
        const element* k = own ? a.own_k + batch * A::OK_B + kv * A::OK_H + at * A::OK_S
                               : a.k + batch * A::K_B + kv * A::K_H + at * A::K_T;
        const element* v = own ? a.own_v + batch * A::OV_B + kv * A::OV_H + at * A::OV_S
                               : a.v + batch * A::V_B + kv * A::V_H + at * A::V_T;
        const long long k_step = own ? A::OK_S : A::K_T, v_step = own ? A::OV_S : A::V_T;
        for (int n = t; n < BN * A::D; n += THREADS) {
            const int key = n / A::D, d = n % A::D;
            ks[d * KP + key] = key < left ? A::load(k[key * k_step + d]) : (real)0;
        }
        bool odd = false;
        for (int n = t; n < BN * E; n += THREADS) {
            const int key = n / E, e = n % E;
            const real value = key < left ? A::load(v[key * v_step + e]) : (real)0;
            vs[key * EC * 64 + e] = value;
            odd |= value - value != (real)0;
        }
        // Infinities count where they are seen: such a tile takes no products with weights of 0.
        const bool unbounded = __syncthreads_or(odd);
        real s[4][KN];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int n = 0; n < KN; n++) s[i][n] = 0;
#pragma unroll 4
        for (int d = 0; d < A::D; d++) {
            real q[4], w[KN];
            ein_load<16>(q, qs + d * RP + y * 4);
            ein_load<KN * (int)sizeof(real) < 16 ? KN * (int)sizeof(real) : 16>(w, ks + d * KP + x * KN);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int n = 0; n < KN; n++) s[i][n] = ein_mad(q[i], w[n], s[i][n]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = y * 4 + i, query = (first + r) / A::GROUP;
            const int from = own ? query : los[r], to = own ? query + 1 : his[r];
            real all = top[i];
#pragma unroll
            for (int n = 0; n < KN; n++) {
                const int key = at + x * KN + n;
                s[i][n] = A::scored(s[i][n]);
                if (key < from || key >= to)
                    s[i][n] = -(real)ein_infinity();
                else if (A::MASK && !own && query < A::QUERIES)
                    s[i][n] += ein_masked(a, batch, pair * A::GROUP + (first + r) % A::GROUP, query, key);
                all = ein_max(all, s[i][n]);
            }
#pragma unroll
            for (int by = 8; by > 0; by >>= 1) all = ein_max(all, __shfl_xor_sync(0xffffffffu, all, by));
            const real scale = ein_scale(top[i], all);
            real more = 0;
#pragma unroll
            for (int n = 0; n < KN; n++) {
                const real weight = ein_scale(s[i][n], all);
                ps[(x * KN + n) * RP + r] = weight;
                more += weight;
            }
            top[i] = all;
            sum[i] = ein_mad(sum[i], scale, more);
#pragma unroll
            for (int e = 0; e < EC * 4; e++) acc[i][e] *= scale;
        }
        __syncthreads();
        const int keys = min(BN, left);
        if (unbounded) {
            for (int key = 0; key < keys; key++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const real weight = ps[key * RP + y * 4 + i];
                    if (weight != (real)0)
#pragma unroll
                        for (int e = 0; e < EC * 4; e++)
                            acc[i][e] = ein_mad(weight, vs[key * EC * 64 + e / 4 * 64 + x * 4 + e % 4], acc[i][e]);
                }
        } else {
#pragma unroll 2
            for (int key = 0; key < keys; key++) {
                real p[4];
                ein_load<16>(p, ps + key * RP + y * 4);
#pragma unroll
                for (int c = 0; c < EC; c++) {
                    real w[4];
                    ein_load<16>(w, vs + key * EC * 64 + c * 64 + x * 4);
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int e = 0; e < 4; e++) acc[i][c * 4 + e] = ein_mad(p[i], w[e], acc[i][c * 4 + e]);
                }
            }
        }
        // Nobody overwrites what another still reads.
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        // So far each thread has the sum of its own keys.
#pragma unroll
        for (int by = 8; by > 0; by >>= 1) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], by);
        const int r = first + y * 4 + i;
        if (r >= rows) continue;
        const int head = pair * A::GROUP + r % A::GROUP;
        const long long to = ((long long)batch * A::PAIRS * A::GROUP + head) * A::QUERIES + r / A::GROUP;
#pragma unroll
        for (int e = 0; e < EC * 4; e++) {
            const int place = e / 4 * 64 + x * 4 + e % 4;
            if (place < E) out.value(to, place, acc[i][e], sum[i]);
        }
        if (x == 0) out.state(to, top[i], sum[i]);
    }
}
