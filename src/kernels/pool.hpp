// Max-pooling and ReLU together, on rows of width x batch floats. Included by every path's file.

typedef uint8_t Bytes __attribute__((vector_size(LANES)));

// By instructions of the processor where it has them: of the portable words GCC makes a step for every lane.
#if defined(__AVX512F__) && PRUNEFL_LANES == 16
INLINE Bytes bytes_of(Int v) { return __builtin_convertvector(v, Bytes); }
INLINE Int ints_of(Bytes b) {
    return reinterpret_cast<Int>(_mm512_maskz_cvtepu8_epi32(0xFFFF, reinterpret_cast<__m128i>(b)));
}
#elif defined(__AVX2__) && PRUNEFL_LANES == 8
INLINE Bytes bytes_of(Int v) {
    const __m256i lowest = _mm256_set1_epi32(0x0C080400);
    const __m256i halves = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(v), lowest);
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    Bytes bytes;
    memcpy(&bytes, &both, sizeof bytes);
    return bytes;
}
INLINE Int ints_of(Bytes b) {
    __m128i both{};
    memcpy(&both, &b, sizeof b);
    return reinterpret_cast<Int>(_mm256_cvtepu8_epi32(both));
}
#else
INLINE Bytes bytes_of(Int v) { return __builtin_convertvector(v, Bytes); }
INLINE Int ints_of(Bytes b) { return __builtin_convertvector(b, Int); }
#endif

INLINE void store_bytes(uint8_t* p, Int v, int count) {
    const Bytes bytes = bytes_of(v);
    if (count == LANES) memcpy(p, &bytes, LANES);
    else memcpy(p, &bytes, count);
}
INLINE Int load_bytes(const uint8_t* p, int count) {
    Bytes bytes{};
    if (count == LANES) memcpy(&bytes, p, LANES);
    else memcpy(&bytes, p, count);
    return ints_of(bytes);
}

// The batch in vectors. The last one overlaps the one before where it can: at(first lane, lanes).
template <class At>
INLINE void over_batch(int batch, At at) {
    if (batch < LANES) return at(0, batch);
    for (int n = 0; n < batch; n += LANES) at(least(n, batch - LANES), LANES);
}

// One output pixel; positions in the window are counted row by row. NaN wins, as in torch. With KH and KW the window
// is of that size and holds no padding.
template <int KH, int KW>
INLINE void pool_pixel(const Planes<const float>& x, const float* plane, const PoolShape& pool, int ho, int wo,
                       int width, int batch, bool relu, float* y, uint8_t* index) {
    const int kernel_h = KH ? KH : pool.kernel_h, kernel_w = KW ? KW : pool.kernel_w;
    const int top = ho * pool.stride_h - pool.pad_h, left = wo * pool.stride_w - pool.pad_w;
    over_batch(
        batch, [&](int n, int lanes) __attribute__((always_inline)) {
            Vec best = splat(-__builtin_inff());
            Int where{};
            UNROLL for (int i = 0; i < kernel_h; i++) UNROLL for (int j = 0; j < kernel_w; j++) {
                const int h = top + i, w = left + j;
                if (!(KH && KW) && (h < 0 || h >= x.height || w < 0 || w >= width)) continue;
                const float* from = plane + h * x.row + static_cast<ptrdiff_t>(w) * batch + n;
                const Vec v = lanes == LANES ? load(from) : load_first(from, lanes);
                const Int wins = (v > best) | (v != v);
                best = wins ? v : best;
                where = wins ? Int{} + (i * kernel_w + j) : where;
            }
            if (relu) {
                where = best <= Vec{} ? Int{} + NO_GRADIENT : where;
                best = positive(best);
            }
            if (lanes == LANES) store(y + n, best);
            else store_first(y + n, best, lanes);
            store_bytes(index + n, where, lanes);
        });
}

// Some pixels of a row: a call for every one would cost a fifth of the time.
template <int KH, int KW>
KERNEL void pool_pixels(const Planes<const float>& x, const float* plane, const PoolShape& pool, int h, Range across,
                        int width, int batch, bool relu, float* row, uint8_t* places) {
    for (int w = across.first; w < across.last; w++) {
        const ptrdiff_t at = static_cast<ptrdiff_t>(w) * batch;
        pool_pixel<KH, KW>(x, plane, pool, h, w, width, batch, relu, row + at, places + at);
    }
}

// index: (channels, height, width, batch) bytes of the output.
static void pool_forward(const Planes<const float>& x, const PoolShape& pool, bool relu, const Placed<float>& to,
                         uint8_t* index, int threads) {
    const Layout& at = to.at;
    const bool two = pool.kernel_h == 2 && pool.kernel_w == 2 && !pool.pad_h && !pool.pad_w;
    const bool three = pool.kernel_h == 3 && pool.kernel_w == 3;
    const auto inside = two ? pool_pixels<2, 2> : three ? pool_pixels<3, 3> : pool_pixels<0, 0>;
    const int width = x.length / at.batch;
    // windows that reach over neither side
    const int first = least(at.width, (pool.pad_w + pool.stride_w - 1) / pool.stride_w);
    const int room = width + pool.pad_w - pool.kernel_w;
    const int last = room < 0 ? first : most(first, least(at.width, room / pool.stride_w + 1));
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy copy(at);
        clear_padding(to, c);
        for (int h = 0; h < at.height; h++) {
            float* row = open_row(to, c, h, copy.data);
            uint8_t* places = index + (static_cast<ptrdiff_t>(c) * at.height + h) * at.width * at.batch;
            const int top = h * pool.stride_h - pool.pad_h;
            const bool whole = top >= 0 && top + pool.kernel_h <= x.height;
            const float* plane = x.data + c * x.plane;
            const auto side = pool_pixels<0, 0>;
            side(x, plane, pool, h, {0, first}, width, at.batch, relu, row, places);
            (whole ? inside : side)(x, plane, pool, h, {first, last}, width, at.batch, relu, row, places);
            side(x, plane, pool, h, {last, at.width}, width, at.batch, relu, row, places);
            close_row(to, c, h, row, copy.data);
        }
    });
}

// Two by two windows that do not overlap: every input pixel belongs to at most one of them.
static void pool_backward_two(const float* g, const uint8_t* index, int width, int batch, float* top, float* bottom) {
    for (int w = 0; w < width; w++)
        over_batch(
            batch, [&](int n, int lanes) __attribute__((always_inline)) {
                const ptrdiff_t at = static_cast<ptrdiff_t>(w) * batch + n;
                const Vec v = load_first(g + at, lanes);
                const Int where = load_bytes(index + at, lanes);
                float* to[4] = {top + at, top + at + batch, bottom + at, bottom + at + batch};
                for (int i = 0; i < 4; i++)
                    store_first(to[i] + static_cast<ptrdiff_t>(w) * batch, where == Int{} + i ? v : Vec{}, lanes);
            });
}

// One window of any other kind, sample by sample: `dx` is its first pixel.
INLINE void spread_samples(const float* g, const uint8_t* places, const PoolShape& pool, int batch, float* dx,
                           ptrdiff_t dx_row) {
    for (int n = 0; n < batch; n++) {
        const int where = places[n];
        if (where == NO_GRADIENT) continue;
        dx[where / pool.kernel_w * dx_row + static_cast<ptrdiff_t>(where % pool.kernel_w) * batch + n] += g[n];
    }
}

// The same, pixel by pixel, for small windows; `down` and `across`: its pixels that are no padding.
INLINE void spread_pixels(const float* g, const uint8_t* places, const PoolShape& pool, Range down, Range across,
                          int batch, float* dx, ptrdiff_t dx_row) {
    for (int n = 0; n < batch; n += LANES) {
        const int lanes = least(LANES, batch - n);
        const Vec v = load_first(g + n, lanes);
        const Int where = load_bytes(places + n, lanes);
        for (int i = down.first; i < down.last; i++)
            for (int j = across.first; j < across.last; j++) {
                float* to = dx + i * dx_row + static_cast<ptrdiff_t>(j) * batch + n;
                const Vec mine = where == Int{} + (i * pool.kernel_w + j) ? v : Vec{};
                store_first(to, load_first(to, lanes) + mine, lanes);
            }
    }
}

static void pool_backward_any(const Placed<const float>& dy, const uint8_t* index, const PoolShape& pool, int c,
                              const Planes<float>& dx, int width, float* copy) {
    constexpr int SMALL = 9;
    const bool small = pool.kernel_h * pool.kernel_w <= SMALL;
    const Layout& at = dy.at;
    for (int h = 0; h < at.height; h++) {
        const float* g = read_row(dy, c, h, copy);
        const uint8_t* places = index + (static_cast<ptrdiff_t>(c) * at.height + h) * at.width * at.batch;
        const int top = h * pool.stride_h - pool.pad_h;
        const Range down{most(0, -top), least(pool.kernel_h, dx.height - top)};
        for (int w = 0; w < at.width; w++) {
            const int left = w * pool.stride_w - pool.pad_w;
            const Range across{most(0, -left), least(pool.kernel_w, width - left)};
            const ptrdiff_t from = static_cast<ptrdiff_t>(w) * at.batch;
            float* to = dx.data + c * dx.plane + top * dx.row + static_cast<ptrdiff_t>(left) * at.batch;
            if (small) spread_pixels(g + from, places + from, pool, down, across, at.batch, to, dx.row);
            else spread_samples(g + from, places + from, pool, at.batch, to, dx.row);
        }
    }
}

// dx lies in whole rows, padded.
static void pool_backward(const Placed<const float>& dy, const uint8_t* index, const PoolShape& pool,
                          const Placed<float>& dx, int threads) {
    const Layout &at = dy.at, &to = dx.at;
    const bool two = pool.kernel_h == 2 && pool.kernel_w == 2 && pool.stride_h == 2 && pool.stride_w == 2 &&
                     !pool.pad_h && !pool.pad_w;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy copy(at);
        float* plane = dx.data + c * to.plane();
        // Rows and columns that no window covers get no gradient.
        if (!two || to.height != 2 * at.height || to.width != 2 * at.width)
            memset(plane, 0, sizeof(float) * to.plane());
        else clear_padding(dx, c);
        if (!two)
            return pool_backward_any(dy, index, pool, c, {dx.data + to.origin(), to.plane(), to.row(), to.height, 0},
                                     to.width, copy.data);
        for (int h = 0; h < at.height; h++) {
            const uint8_t* places = index + (static_cast<ptrdiff_t>(c) * at.height + h) * at.width * at.batch;
            float* top = plane + to.origin() + 2 * h * to.row();
            pool_backward_two(read_row(dy, c, h, copy.data), places, at.width, at.batch, top, top + to.row());
        }
    });
}
