// Average pooling, products and dropout on rows of width x batch floats. Included by every path's file.

// What each pixel counts in the mean of a window.
INLINE float window_share(const PoolShape& pool, bool padding_counts, int h, int w, int height, int width) {
    const int top = h * pool.stride_h - pool.pad_h, left = w * pool.stride_w - pool.pad_w;
    int bottom = top + pool.kernel_h, right = left + pool.kernel_w;
    if (padding_counts) {
        bottom = least(bottom, height + pool.pad_h);
        right = least(right, width + pool.pad_w);
        return 1.f / static_cast<float>((bottom - top) * (right - left));
    }
    bottom = least(bottom, height), right = least(right, width);
    return 1.f / static_cast<float>((bottom - most(0, top)) * (right - most(0, left)));
}

// y = mean of the window; `counted`: whether zeros of the padding count.
static void average_forward(const Placed<const float>& x, const PoolShape& pool, bool counted, const Placed<float>& y,
                            int threads) {
    const Layout &from = x.at, &at = y.at;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy in(from), out(at);
        clear_padding(y, c);
        for (int h = 0; h < at.height; h++) {
            float* row = open_row(y, c, h, out.data);
            memset(row, 0, sizeof(float) * at.width * at.batch);
            const int top = h * pool.stride_h - pool.pad_h;
            for (int i = most(0, top); i < least(from.height, top + pool.kernel_h); i++) {
                const float* line = read_row(x, c, i, in.data);
                for (int w = 0; w < at.width; w++) {
                    const int left = w * pool.stride_w - pool.pad_w;
                    float* __restrict to = row + static_cast<ptrdiff_t>(w) * at.batch;
                    for (int j = most(0, left); j < least(from.width, left + pool.kernel_w); j++)
                        add_to_row(line + static_cast<ptrdiff_t>(j) * at.batch, to, at.batch);
                }
            }
            for (int w = 0; w < at.width; w++) {
                const float part = window_share(pool, counted, h, w, from.height, from.width);
                for (int n = 0; n < at.batch; n++) row[static_cast<ptrdiff_t>(w) * at.batch + n] *= part;
            }
            close_row(y, c, h, row, out.data);
        }
    });
}

static void average_backward(const Placed<const float>& dy, const PoolShape& pool, bool counted,
                             const Placed<float>& dx, int threads) {
    const Layout &at = dy.at, &to = dx.at;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy in(at), out(to);
        clear_padding(dx, c);
        const ptrdiff_t length = static_cast<ptrdiff_t>(to.width) * to.batch;
        for (int i = 0; i < to.height; i++) {
            float* row = open_row(dx, c, i, out.data);
            memset(row, 0, sizeof(float) * length);
            const int first = most(0, (i + pool.pad_h - pool.kernel_h + pool.stride_h) / pool.stride_h);
            for (int h = first; h < least(at.height, (i + pool.pad_h) / pool.stride_h + 1); h++) {
                const float* g = read_row(dy, c, h, in.data);
                for (int w = 0; w < at.width; w++) {
                    const float part = window_share(pool, counted, h, w, to.height, to.width);
                    const int left = w * pool.stride_w - pool.pad_w;
                    for (int j = most(0, left); j < least(to.width, left + pool.kernel_w); j++)
                        for (int n = 0; n < at.batch; n++)
                            row[static_cast<ptrdiff_t>(j) * at.batch + n] +=
                                part * g[static_cast<ptrdiff_t>(w) * at.batch + n];
                }
            }
            close_row(dx, c, i, row, out.data);
        }
    });
}

// y = a * b; b may be one pixel a channel.
static void multiply_forward(const Placed<const float>& a, const Placed<const float>& b, const Placed<float>& y,
                             int threads) {
    const Layout& at = y.at;
    const bool pixel = b.at.height == 1 && b.at.width == 1;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy one(at), two(at), out(at);
        clear_padding(y, c);
        for (int h = 0; h < at.height; h++) {
            const float* left = read_row(a, c, h, one.data);
            const float* right = read_row(b, c, pixel ? 0 : h, two.data);
            float* row = open_row(y, c, h, out.data);
            for (int w = 0; w < at.width; w++) {
                const ptrdiff_t i = static_cast<ptrdiff_t>(w) * at.batch;
                const float* __restrict by = pixel ? right : right + i;
                for (int n = 0; n < at.batch; n++) row[i + n] = left[i + n] * by[n];
            }
            close_row(y, c, h, row, out.data);
        }
    });
}

// da (+)= dy * b, summed over the pixels where a is one pixel a channel.
static void multiply_backward(const Placed<const float>& dy, const Placed<const float>& b, const Gift& da,
                              int threads) {
    const Layout &at = dy.at, &to = da.to.at;
    const bool pixel = b.at.height == 1 && b.at.width == 1, summed = to.height < at.height || to.width < at.width;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy one(at), two(at), out(at), made(at);
        if (da.first) clear_padding(da.to, c);
        const ptrdiff_t length = static_cast<ptrdiff_t>(to.width) * to.batch;
        if (summed) memset(made.data, 0, sizeof(float) * at.batch);
        for (int h = 0; h < at.height; h++) {
            const float* g = read_row(dy, c, h, one.data);
            const float* right = read_row(b, c, pixel ? 0 : h, two.data);
            for (int w = 0; w < at.width; w++) {
                const ptrdiff_t i = static_cast<ptrdiff_t>(w) * at.batch;
                const float* __restrict by = pixel ? right : right + i;
                float* __restrict row = summed ? made.data : made.data + i;
                if (summed)
                    for (int n = 0; n < at.batch; n++) row[n] += g[i + n] * by[n];
                else
                    for (int n = 0; n < at.batch; n++) row[n] = g[i + n] * by[n];
            }
            if (!summed) give_row(da, c, h, made.data, length, out.data);
        }
        if (summed) give_row(da, c, 0, made.data, length, out.data);
    });
}

// A hash of a counter: which samples fall depends on seed and place alone, on neither threads nor layout.
INLINE uint32_t scramble(uint64_t seed, uint64_t place) {
    uint64_t z = seed + 0x9E3779B97F4A7C15ull * (place + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
}

// y (+)= x over 1 - p, zero where the counter's hash falls below p. The same on the way back.
static void drop(const Placed<const float>& x, const Dropping& how, const Gift& y, int threads) {
    const Layout& at = x.at;
    const float kept = how.probability < 1.f ? 1.f / (1.f - how.probability) : 0.f;
    const double bar = static_cast<double>(how.probability) * 4294967296.0;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy in(at), out(at), made(at);
        if (y.first) clear_padding(y.to, c);
        const ptrdiff_t length = static_cast<ptrdiff_t>(at.width) * at.batch;
        for (int h = 0; h < at.height; h++) {
            const float* from = read_row(x, c, h, in.data);
            for (ptrdiff_t i = 0; i < length; i++) {
                const uint64_t pixel = how.by_channel ? 0 : static_cast<uint64_t>(h) * at.width + i / at.batch;
                const uint64_t place =
                    (static_cast<uint64_t>(c) * at.height * at.width + pixel) * at.batch + i % at.batch;
                made.data[i] = scramble(how.seed, place) < bar ? 0.f : from[i] * kept;
            }
            give_row(y, c, h, made.data, length, out.data);
        }
    });
}
