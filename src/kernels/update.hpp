// Steps of the optimisers on live weights, and the regathering of weights for input gradients. Included by every path's
// file.

static void sgd(float* __restrict w, const float* __restrict g, ptrdiff_t size, float rate, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t i = size * task / tasks; i < size * (task + 1) / tasks; i++) w[i] -= rate * g[i];
    });
}

// One lane's weight lives where its bit is set, the first weight in the lowest bit.
INLINE Int live_lanes(const uint8_t* live, ptrdiff_t at) {
    int bits = live[at / 8] >> at % 8;
    if (LANES == 16) bits |= live[at / 8 + 1] << 8;
    Int lane{};
    UNROLL for (int i = 0; i < LANES; i++) lane[i] = 1 << i;
    return (lane & bits) != Int{};
}

// Pruned weights stay as they are, whatever their gradient.
static void masked_sgd(float* __restrict w, const float* __restrict g, const uint8_t* __restrict live, ptrdiff_t size,
                       float rate, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    const ptrdiff_t vectors = size / LANES;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t v = vectors * task / tasks; v < vectors * (task + 1) / tasks; v++) {
            const ptrdiff_t i = v * LANES;
            const Vec old = load(w + i);
            store(w + i, live_lanes(live, i) ? old - rate * load(g + i) : old);
        }
    });
    for (ptrdiff_t i = vectors * LANES; i < size; i++)
        if (live[i / 8] >> i % 8 & 1) w[i] -= rate * g[i];
}

// Optimisers with a memory go block by block: a block's pruned gradients are cleared while it is in the cache.
constexpr ptrdiff_t BLOCK = 4096;
// Weights, gradients and moments are arrays apart; GCC forgets a __restrict within a lambda.
#define INDEPENDENT _Pragma("GCC ivdep")

static void clear_pruned(float* __restrict g, const uint8_t* __restrict live, ptrdiff_t size) {
    const ptrdiff_t vectors = size / LANES;
    for (ptrdiff_t v = 0; v < vectors; v++) {
        const ptrdiff_t i = v * LANES;
        store(g + i, live_lanes(live, i) ? load(g + i) : Vec{});
    }
    for (ptrdiff_t i = vectors * LANES; i < size; i++)
        if (!(live[i / 8] >> i % 8 & 1)) g[i] = 0;
}

// Calls work(block, first, size) for every block; `live` is null where all weights live.
template <class Work>
INLINE void each_block(float* g, const uint8_t* live, ptrdiff_t size, int threads, Work work) {
    const ptrdiff_t blocks = (size + BLOCK - 1) / BLOCK;
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t b = blocks * task / tasks; b < blocks * (task + 1) / tasks; b++) {
            const ptrdiff_t first = b * BLOCK, count = first + BLOCK < size ? BLOCK : size - first;
            if (live) clear_pruned(g + first, live + first / 8, count);
            work(b, first, count);
        }
    });
}

// With momentum, weight decay or a scale that clips the gradient; m is null where there is no momentum.
static void momentum_sgd(float* w, float* g, float* m, const uint8_t* live, ptrdiff_t size, const SgdRule& rule,
                         int threads) {
    const float rate = rule.rate, mu = rule.momentum, decay = rule.decay, scale = rule.scale;
    each_block(g, live, size, threads, [&](ptrdiff_t, ptrdiff_t first, ptrdiff_t count) {
        float* __restrict ww = w + first;
        const float* __restrict gg = g + first;
        float* __restrict mm = m + (m ? first : 0);
        if (!m) {
            INDEPENDENT for (ptrdiff_t i = 0; i < count; i++) ww[i] -= rate * (scale * gg[i] + decay * ww[i]);
        } else if (!rule.nesterov) {
            INDEPENDENT for (ptrdiff_t i = 0; i < count; i++) {
                mm[i] = mu * mm[i] + (scale * gg[i] + decay * ww[i]);
                ww[i] -= rate * mm[i];
            }
        } else {
            INDEPENDENT for (ptrdiff_t i = 0; i < count; i++) {
                const float step = scale * gg[i] + decay * ww[i];
                mm[i] = mu * mm[i] + step;
                ww[i] -= rate * (step + mu * mm[i]);
            }
        }
    });
}

static void adam(float* w, float* g, float* m, float* v, const uint8_t* live, ptrdiff_t size, const AdamRule& rule,
                 int threads) {
    const float shrink = rule.shrink, decay = rule.decay, scale = rule.scale, rate = rule.rate;
    const float rest1 = rule.rest1, beta2 = rule.beta2, rest2 = rule.rest2, epsilon = rule.epsilon;
    each_block(g, live, size, threads, [&](ptrdiff_t, ptrdiff_t first, ptrdiff_t count) {
        float* __restrict ww = w + first;
        const float* __restrict gg = g + first;
        float* __restrict mm = m + first;
        float* __restrict vv = v + first;
        INDEPENDENT for (ptrdiff_t i = 0; i < count; i++) {
            const float step = scale * gg[i] + decay * ww[i];
            mm[i] += rest1 * (step - mm[i]);
            vv[i] = beta2 * vv[i] + rest2 * step * step;
            ww[i] = shrink * ww[i] - rate * mm[i] / (__builtin_sqrtf(vv[i]) + epsilon);
        }
    });
}

// FedProx: g + strength (w - anchor); the anchor of a pruned weight is zero, as the weight is.
static void pull(float* __restrict g, const float* __restrict w, const float* __restrict anchor, ptrdiff_t size,
                 float strength, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t i = size * task / tasks; i < size * (task + 1) / tasks; i++)
            g[i] += strength * (w[i] - anchor[i]);
    });
}

// Of the live gradients, added by block and then in order: the same bits with any number of threads.
static double squared_norm(float* g, const uint8_t* live, ptrdiff_t size, int threads) {
    std::vector<double> sums((size + BLOCK - 1) / BLOCK);
    each_block(g, live, size, threads, [&](ptrdiff_t block, ptrdiff_t first, ptrdiff_t count) {
        double lane[8] = {};
        const float* gg = g + first;
        for (ptrdiff_t i = 0; i + 8 <= count; i += 8)
            for (int k = 0; k < 8; k++) lane[k] += static_cast<double>(gg[i + k]) * gg[i + k];
        double sum = 0;
        for (ptrdiff_t i = count / 8 * 8; i < count; i++) sum += static_cast<double>(gg[i]) * gg[i];
        for (double part : lane) sum += part;
        sums[block] = sum;
    });
    double total = 0;
    for (double sum : sums) total += sum;
    return total;
}

static void gather(float* __restrict to, const float* __restrict from, const int32_t* __restrict order, ptrdiff_t size,
                   int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t i = size * task / tasks; i < size * (task + 1) / tasks; i++) to[i] = from[order[i]];
    });
}
