// Normalisation, addition and activation in one pass over a channel, and back. Included by every path's file.

// `inside` between two bars, else what is below or above. Everything is computed first: only then are loops vectors.
INLINE float between(float z, float low, float below, float high, float above, float inside) {
    const float upper = z >= high ? above : inside;
    return z <= low ? below : upper;
}

// e^z to 2 units in the last place, in steps that a compiler makes vectors of; NaN stays NaN.
INLINE float exp_of(float z) {
    const float low = z < -87.f ? -87.f : z, x = low > 88.f ? 88.f : low;
    const float twos = x * 1.44269504088896341f;
    const int32_t n = static_cast<int32_t>(twos + (twos < 0.f ? -0.5f : 0.5f));
    const float whole = static_cast<float>(n), r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const int32_t bits = ((n + 127) & 255) << 23;
    float power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return (p * r * r + r + 1.f) * power;
}

// The normal distribution's share below z, to 1e-7 (Abramowitz and Stegun 7.1.26).
INLINE float share_below(float z) {
    const float x = __builtin_fabsf(z) * 0.70710678118654752f, t = 1.f / (1.f + 0.3275911f * x);
    const float poly =
        ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    const float tail = 0.5f * poly * exp_of(-x * x);
    return z < 0.f ? tail : 1.f - tail;
}

template <Act ACT>
INLINE float activate(float z) {
    if constexpr (ACT == Act::relu) return z <= 0.f ? 0.f : z;
    if constexpr (ACT == Act::relu6) return between(z, 0.f, 0.f, 6.f, 6.f, z);
    if constexpr (ACT == Act::hard_swish) return z * between(z, -3.f, 0.f, 3.f, 1.f, z * (1.f / 6.f) + 0.5f);
    if constexpr (ACT == Act::hard_sigmoid) return between(z, -3.f, 0.f, 3.f, 1.f, z * (1.f / 6.f) + 0.5f);
    if constexpr (ACT == Act::sigmoid) return 1.f / (1.f + exp_of(-z));
    if constexpr (ACT == Act::gelu) return z * share_below(z);
    return z;
}

// The slope, from what went in or, of ReLU, from what came out: both tell the same.
template <Act ACT>
INLINE float slope(float z) {
    if constexpr (ACT == Act::relu) return z <= 0.f ? 0.f : 1.f;
    if constexpr (ACT == Act::relu6) return between(z, 0.f, 0.f, 6.f, 0.f, 1.f);
    if constexpr (ACT == Act::hard_swish) return between(z, -3.f, 0.f, 3.f, 1.f, z * (1.f / 3.f) + 0.5f);
    if constexpr (ACT == Act::hard_sigmoid) return between(z, -3.f, 0.f, 3.f, 0.f, 1.f / 6.f);
    if constexpr (ACT == Act::sigmoid) {
        const float s = 1.f / (1.f + exp_of(-z));
        return s * (1.f - s);
    }
    if constexpr (ACT == Act::gelu) return share_below(z) + z * 0.39894228040143268f * exp_of(-0.5f * z * z);
    return 1.f;
}

#define FOR_ACTS(act, call)                                     \
    switch (act) {                                              \
        case Act::relu: call(Act::relu); break;                 \
        case Act::relu6: call(Act::relu6); break;               \
        case Act::hard_swish: call(Act::hard_swish); break;     \
        case Act::hard_sigmoid: call(Act::hard_sigmoid); break; \
        case Act::sigmoid: call(Act::sigmoid); break;           \
        case Act::gelu: call(Act::gelu); break;                 \
        default: call(Act::none);                               \
    }

template <Act ACT>
KERNEL void blend_row(const float* __restrict x, const float* __restrict r, float* __restrict y, ptrdiff_t length,
                      float mean, float scale, float shift) {
    if (r)
        for (ptrdiff_t i = 0; i < length; i++) y[i] = activate<ACT>((x[i] - mean) * scale + shift + r[i]);
    else
        for (ptrdiff_t i = 0; i < length; i++) y[i] = activate<ACT>((x[i] - mean) * scale + shift);
}

// g = dy times the slope.
template <Act ACT>
KERNEL void slope_row(const float* __restrict x, const float* __restrict r, const float* __restrict dy,
                      float* __restrict g, ptrdiff_t length, float mean, float scale, float shift) {
    if (r)
        for (ptrdiff_t i = 0; i < length; i++) g[i] = dy[i] * slope<ACT>((x[i] - mean) * scale + shift + r[i]);
    else
        for (ptrdiff_t i = 0; i < length; i++) g[i] = dy[i] * slope<ACT>((x[i] - mean) * scale + shift);
}

// ReLU's gradient as dense autograd has it: what is cut off is 0, whatever comes.
INLINE void gate_row(const float* __restrict y, const float* __restrict dy, float* __restrict g, ptrdiff_t length,
                     float most_) {
    for (ptrdiff_t i = 0; i < length; i++) g[i] = between(y[i], 0.f, 0.f, most_, 0.f, dy[i]);
}

// The sum of a row's terms, of a vector at `i` and of single floats at its end. Several sums at a time: an addition
// takes longer than a load.
template <class Terms, class Term>
INLINE float row_total(ptrdiff_t length, Terms terms, Term term) {
    constexpr int SETS = 4;
    Vec sum[SETS] = {};
    ptrdiff_t i = 0;
    for (; i + SETS * LANES <= length; i += SETS * LANES)
        UNROLL for (int s = 0; s < SETS; s++) sum[s] += terms(i + s * LANES);
    for (; i + LANES <= length; i += LANES) sum[0] += terms(i);
    float rest = 0.f;
    for (; i < length; i++) rest += term(i);
    return sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

INLINE float row_sum(const float* x, ptrdiff_t length) {
    return row_total(
        length, [&](ptrdiff_t i) { return load(x + i); }, [&](ptrdiff_t i) { return x[i]; });
}

// Σ (x - mean)²
INLINE float row_spread(const float* x, ptrdiff_t length, float mean) {
    return row_total(
        length, [&](ptrdiff_t i) { return (load(x + i) - mean) * (load(x + i) - mean); },
        [&](ptrdiff_t i) { return (x[i] - mean) * (x[i] - mean); });
}

INLINE float row_product(const float* x, const float* g, ptrdiff_t length, float mean) {
    return row_total(
        length, [&](ptrdiff_t i) { return (load(x + i) - mean) * load(g + i); },
        [&](ptrdiff_t i) { return (x[i] - mean) * g[i]; });
}

INLINE void add_to_row(const float* __restrict from, float* __restrict to, ptrdiff_t length) {
    for (ptrdiff_t i = 0; i < length; i++) to[i] += from[i];
}

// Rows that lie one after another are one long row.
INLINE bool in_one_piece(const Layout& at) {
    return at.lanes == at.batch && at.stride_h == 1 && at.stride_w == 1 && at.cells_h == at.height &&
           at.cells_w == at.width && at.pad_h == at.first_h[0] && at.pad_w == at.first_w[0];
}
INLINE Layout as_one_row(Layout at) {
    at.width = at.cells_w = at.height * at.width;
    at.height = at.cells_h = 1, at.pad_h = at.pad_w = 0, at.first_h[0] = at.first_w[0] = 0;
    return at;
}

struct ChannelSums {
    double sum, spread;
};

// Two passes, the second over what the first has brought into the cache: sums of squares alone would cancel.
static ChannelSums channel_sums(const Placed<const float>& x, int c, float* copy, double count) {
    const ptrdiff_t length = static_cast<ptrdiff_t>(x.at.width) * x.at.batch;
    double sum = 0, spread = 0;
    for (int h = 0; h < x.at.height; h++) sum += row_sum(read_row(x, c, h, copy), length);
    const float mean = static_cast<float>(sum / count);
    for (int h = 0; h < x.at.height; h++) spread += row_spread(read_row(x, c, h, copy), length, mean);
    return {sum, spread};
}

// Fills mean and deviation of a channel from its values, or from what is known of it.
INLINE void know_channel(const Norm& norm, const Placed<const float>& x, int c, float* copy) {
    if (!norm.training) {
        norm.mean[c] = norm.running_mean[c];
        norm.inverse[c] = 1.f / __builtin_sqrtf(norm.running_variance[c] + norm.epsilon);
        return;
    }
    const double count = static_cast<double>(x.at.height) * x.at.width * x.at.batch;
    const ChannelSums sums = channel_sums(x, c, copy, count);
    const double mean = sums.sum / count, variance = sums.spread / count;
    norm.mean[c] = static_cast<float>(mean);
    norm.inverse[c] = static_cast<float>(1.0 / __builtin_sqrt(variance + norm.epsilon));
    if (!norm.note) return;
    const float m = norm.momentum;
    norm.running_mean[c] = (1.f - m) * norm.running_mean[c] + m * static_cast<float>(mean);
    norm.running_variance[c] =
        (1.f - m) * norm.running_variance[c] + m * static_cast<float>(sums.spread / (count - 1.0));
}

// A thread's part of the scratch: a channel, and then rows for copies.
struct Bench {
    float *channel, *copies;
    ptrdiff_t row;
    Bench(const Layout& at, float* scratch) : row(static_cast<ptrdiff_t>(at.width) * at.batch) {
        channel = scratch + omp_get_thread_num() * (at.height + COPIED_ROWS) * row;
        copies = channel + at.height * row;
    }
    float* copy(int i) const { return copies + i * row; }
};

static void blend_forward(Placed<const float> x, const Placed<const float>* given_r, Placed<float> y, const Norm* norm,
                          Act act, float* scratch, int threads) {
    Placed<const float> r = given_r ? *given_r : x;
    const Layout whole = x.at;
    if (in_one_piece(x.at) && in_one_piece(y.at) && in_one_piece(r.at))
        x.at = as_one_row(x.at), y.at = as_one_row(y.at), r.at = as_one_row(r.at);
    const ptrdiff_t length = static_cast<ptrdiff_t>(x.at.width) * x.at.batch;
    run_tasks(x.at.channels, threads, [&](int c) {
        const Bench bench(whole, scratch);
        float mean = 0.f, scale = 1.f, shift = 0.f;
        if (norm) {
            know_channel(*norm, x, c, bench.copy(0));
            mean = norm->mean[c], scale = norm->weight[c] * norm->inverse[c], shift = norm->bias[c];
        }
        clear_padding(y, c);
        for (int h = 0; h < x.at.height; h++) {
            const float* from = read_row(x, c, h, bench.copy(0));
            const float* other = given_r ? read_row(r, c, h, bench.copy(1)) : nullptr;
            float* to = open_row(y, c, h, bench.copy(2));
#define CALL(ACT) blend_row<ACT>(from, other, to, length, mean, scale, shift)
            FOR_ACTS(act, CALL)
#undef CALL
            close_row(y, c, h, to, bench.copy(2));
        }
    });
}

// Writes or adds a row of gradient.
INLINE void give_row(const Gift& to, int c, int h, const float* row, ptrdiff_t length, float* copy) {
    float* place = open_row(to.to, c, h, copy);
    if (to.first) {
        memcpy(place, row, sizeof(float) * length);
    } else {
        const float* before = read_row({to.to.at, to.to.data}, c, h, copy);
        if (place == copy && before != copy) memcpy(copy, before, sizeof(float) * length);
        add_to_row(row, place, length);
    }
    close_row(to.to, c, h, place, copy);
}

static void blend_backward(Placed<const float> x, const Placed<const float>* given_r, Placed<const float> y,
                           Placed<const float> dy, Gift dx, Gift dr, const Norm* norm, Act act, float* scratch,
                           int threads) {
    Placed<const float> r = given_r ? *given_r : dy;
    const Layout whole = dy.at;
    const auto one = [](const Gift& gift) { return !gift.to.data || in_one_piece(gift.to.at); };
    if (in_one_piece(x.at) && in_one_piece(y.at) && in_one_piece(dy.at) && in_one_piece(r.at) && one(dx) && one(dr)) {
        x.at = as_one_row(x.at), y.at = as_one_row(y.at), dy.at = as_one_row(dy.at), r.at = as_one_row(r.at);
        dx.to.at = as_one_row(dx.to.at), dr.to.at = as_one_row(dr.to.at);
    }
    const int height = dy.at.height;
    const ptrdiff_t length = static_cast<ptrdiff_t>(dy.at.width) * dy.at.batch;
    const float count = static_cast<float>(height * length);
    const bool gated = act == Act::relu || act == Act::relu6;
    run_tasks(dy.at.channels, threads, [&](int c) {
        const Bench bench(whole, scratch);
        float* all = bench.channel;
        const float scale = norm ? norm->weight[c] * norm->inverse[c] : 1.f;
        const float mean = norm ? norm->mean[c] : 0.f, shift = norm ? norm->bias[c] : 0.f;
        double sum = 0, product = 0;
        if (dx.to.data && dx.first) clear_padding(dx.to, c);
        if (dr.to.data && dr.first) clear_padding(dr.to, c);
        for (int h = 0; h < height; h++) {
            float* g = all + h * length;
            const float* from = read_row(dy, c, h, bench.copy(0));
            if (gated)
                gate_row(read_row(y, c, h, bench.copy(1)), from, g, length, act == Act::relu ? __builtin_inff() : 6.f);
            else if (act == Act::none) memcpy(g, from, sizeof(float) * length);
            else {
                const float* in = read_row(x, c, h, bench.copy(1));
                const float* other = given_r ? read_row(r, c, h, bench.copy(2)) : nullptr;
#define CALL(ACT) slope_row<ACT>(in, other, from, g, length, mean, scale, shift)
                FOR_ACTS(act, CALL)
#undef CALL
            }
            if (norm) {
                sum += row_sum(g, length);
                product += row_product(read_row(x, c, h, bench.copy(1)), g, length, norm->mean[c]);
            }
            if (dr.to.data) give_row(dr, c, h, g, length, bench.copy(3));
            if (dx.to.data && !norm) give_row(dx, c, h, g, length, bench.copy(3));
        }
        if (!norm) return;
        norm->weight_gradient[c] = static_cast<float>(product * norm->inverse[c]);
        norm->bias_gradient[c] = static_cast<float>(sum);
        if (!dx.to.data) return;
        const float slant = -scale * norm->inverse[c] * norm->weight_gradient[c] / count;
        const float level = -scale * norm->bias_gradient[c] / count;
        for (int h = 0; h < height; h++) {
            float* __restrict g = all + h * length;
            const float* __restrict in = read_row(x, c, h, bench.copy(1));
            for (ptrdiff_t i = 0; i < length; i++) g[i] = scale * g[i] + slant * (in[i] - mean) + level;
            give_row(dx, c, h, g, length, bench.copy(3));
        }
    });
}

static void add_rows(const Placed<const float>& from, const Placed<float>& to, int threads) {
    const ptrdiff_t length = static_cast<ptrdiff_t>(to.at.width) * to.at.batch;
    run_tasks(to.at.channels, threads, [&](int c) {
        RowCopy in(to.at), out(to.at);
        for (int h = 0; h < to.at.height; h++)
            give_row({to, false}, c, h, read_row(from, c, h, in.data), length, out.data);
    });
}
