// Normalisation within a sample: over groups of channels with all their pixels, or over all channels of one pixel.
// Included by every path's file.

INLINE ptrdiff_t num_statistics(const SampleNorm& norm, const Layout& at) {
    return norm.by_pixel ? static_cast<ptrdiff_t>(at.height) * at.width * at.batch : at.batch;
}

// Calls work(place in the row, place in the statistics, count) for the pieces of row h that have statistics each.
template <class Work>
INLINE void each_piece(const SampleNorm& norm, const Layout& at, int h, Work work) {
    const ptrdiff_t length = static_cast<ptrdiff_t>(at.width) * at.batch;
    if (norm.by_pixel) return work(0, h * length, length);
    for (int w = 0; w < at.width; w++) work(static_cast<ptrdiff_t>(w) * at.batch, ptrdiff_t{0}, ptrdiff_t{at.batch});
}

// sum[s] = the mean over a group of what `value` makes of x and the place of its statistics.
template <class Value>
INLINE void group_mean(const Placed<const float>& x, const SampleNorm& norm, int group, double* sum, Value value) {
    const Layout& at = x.at;
    const int each = at.channels / norm.groups;
    const ptrdiff_t size = num_statistics(norm, at);
    const double count = static_cast<double>(each) * (norm.by_pixel ? 1 : at.height * at.width);
    RowCopy copy(at);
    for (ptrdiff_t s = 0; s < size; s++) sum[s] = 0;
    for (int c = group * each; c < (group + 1) * each; c++)
        for (int h = 0; h < at.height; h++) {
            const float* row = read_row(x, c, h, copy.data);
            each_piece(norm, at, h, [&](ptrdiff_t first, ptrdiff_t at_s, ptrdiff_t length) {
                const float* from = row + first;
                double* __restrict to = sum + at_s;
                for (ptrdiff_t i = 0; i < length; i++) to[i] += value(from[i], at_s + i);
            });
        }
    for (ptrdiff_t s = 0; s < size; s++) sum[s] /= count;
}

static void sample_norm_forward(const Placed<const float>& x, const SampleNorm& norm, const Placed<float>& y,
                                int threads) {
    const Layout& at = x.at;
    const ptrdiff_t size = num_statistics(norm, at), length = static_cast<ptrdiff_t>(at.width) * at.batch;
    run_tasks(norm.groups, threads, [&](int g) {
        float *mean = norm.mean + g * size, *inverse = norm.inverse + g * size;
        double* sum = norm.sums + g * size;
        group_mean(x, norm, g, sum, [](float v, ptrdiff_t) { return v; });
        for (ptrdiff_t s = 0; s < size; s++) mean[s] = static_cast<float>(sum[s]);
        group_mean(x, norm, g, sum, [mean](float v, ptrdiff_t s) { return (v - mean[s]) * (v - mean[s]); });
        for (ptrdiff_t s = 0; s < size; s++)
            inverse[s] = static_cast<float>(1.0 / __builtin_sqrt(sum[s] + norm.epsilon));
    });
    const int each = at.channels / norm.groups;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy in(at), out(at), made(at);
        const float *mean = norm.mean + c / each * size, *inverse = norm.inverse + c / each * size;
        const float weight = norm.weight[c], bias = norm.bias[c];
        for (int h = 0; h < at.height; h++) {
            const float* row = read_row(x, c, h, in.data);
            each_piece(norm, at, h, [&](ptrdiff_t first, ptrdiff_t s, ptrdiff_t count) {
                const float *from = row + first, *m = mean + s, *d = inverse + s;
                float* __restrict to = made.data + first;
                for (ptrdiff_t i = 0; i < count; i++) to[i] = (from[i] - m[i]) * d[i] * weight + bias;
            });
            if (!h) clear_padding(y, c);
            float* to = open_row(y, c, h, out.data);
            memcpy(to, made.data, sizeof(float) * length);
            close_row(y, c, h, to, out.data);
        }
    });
}

// Σ g and Σ g·(x - mean)·inverse of one channel.
INLINE void scale_gradients(const Placed<const float>& x, const Placed<const float>& dy, const SampleNorm& norm,
                            int c) {
    const Layout& at = x.at;
    const ptrdiff_t group = c / (at.channels / norm.groups) * num_statistics(norm, at);
    RowCopy in(at), back(at);
    double product = 0, total = 0;
    for (int h = 0; h < at.height; h++) {
        const float *row = read_row(x, c, h, in.data), *g = read_row(dy, c, h, back.data);
        each_piece(norm, at, h, [&](ptrdiff_t first, ptrdiff_t s, ptrdiff_t count) {
            const float *m = norm.mean + group + s, *d = norm.inverse + group + s;
            Vec sum{}, all{};
            for (ptrdiff_t i = 0; i < count; i += LANES) {
                const int lanes = static_cast<int>(count - i < LANES ? count - i : LANES);
                const Vec gradient = load_first(g + first + i, lanes);
                all += gradient;
                sum += gradient * (load_first(row + first + i, lanes) - load_first(m + i, lanes)) *
                       load_first(d + i, lanes);
            }
            product += sum_of(sum), total += sum_of(all);
        });
    }
    norm.weight_gradient[c] = static_cast<float>(product), norm.bias_gradient[c] = static_cast<float>(total);
}

// sum: the means over a group of w·g, and after `size` of them those of w·g·xhat.
INLINE void slants(const Placed<const float>& x, const Placed<const float>& dy, const SampleNorm& norm, int group,
                   double* sum) {
    const Layout& at = x.at;
    const int each = at.channels / norm.groups;
    const ptrdiff_t size = num_statistics(norm, at);
    const double count = static_cast<double>(each) * (norm.by_pixel ? 1 : at.height * at.width);
    RowCopy in(at), back(at);
    for (ptrdiff_t s = 0; s < 2 * size; s++) sum[s] = 0;
    for (int c = group * each; c < (group + 1) * each; c++)
        for (int h = 0; h < at.height; h++) {
            const float *row = read_row(x, c, h, in.data), *g = read_row(dy, c, h, back.data);
            const float weight = norm.weight[c];
            each_piece(norm, at, h, [&](ptrdiff_t first, ptrdiff_t s, ptrdiff_t length) {
                const float *m = norm.mean + group * size + s, *d = norm.inverse + group * size + s;
                double* __restrict level = sum + s, * __restrict slant = sum + size + s;
                for (ptrdiff_t i = 0; i < length; i++) {
                    const float one = weight * g[first + i];
                    level[i] += one, slant[i] += one * (row[first + i] - m[i]) * d[i];
                }
            });
        }
    for (ptrdiff_t s = 0; s < 2 * size; s++) sum[s] /= count;
}

static void sample_norm_backward(const Placed<const float>& x, const Placed<const float>& dy, const SampleNorm& norm,
                                 const Gift& dx, int threads) {
    const Layout& at = x.at;
    const ptrdiff_t size = num_statistics(norm, at), length = static_cast<ptrdiff_t>(at.width) * at.batch;
    run_tasks(at.channels, threads, [&](int c) { scale_gradients(x, dy, norm, c); });
    if (!dx.to.data) return;
    run_tasks(norm.groups, threads, [&](int g) { slants(x, dy, norm, g, norm.sums + 2 * g * size); });
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy in(at), back(at), made(at), out(at);
        const int group = c / (at.channels / norm.groups);
        const double *level = norm.sums + 2 * group * size, *slant = level + size;
        const float *mean = norm.mean + group * size, *inverse = norm.inverse + group * size, weight = norm.weight[c];
        if (dx.first) clear_padding(dx.to, c);
        for (int h = 0; h < at.height; h++) {
            const float *row = read_row(x, c, h, in.data), *g = read_row(dy, c, h, back.data);
            each_piece(norm, at, h, [&](ptrdiff_t first, ptrdiff_t s, ptrdiff_t count) {
                float* __restrict to = made.data + first;
                for (ptrdiff_t i = 0; i < count; i++) {
                    const float d = inverse[s + i], hat = (row[first + i] - mean[s + i]) * d;
                    to[i] = d * (weight * g[first + i] - static_cast<float>(level[s + i]) -
                                 hat * static_cast<float>(slant[s + i]));
                }
            });
            give_row(dx, c, h, made.data, length, out.data);
        }
    });
}
