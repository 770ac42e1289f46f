// SGD on live weights, and the regathering of weights for input gradients. Included by every path's file.

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

static void gather(float* __restrict to, const float* __restrict from, const int32_t* __restrict order,
                   ptrdiff_t size, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t i = size * task / tasks; i < size * (task + 1) / tasks; i++) to[i] = from[order[i]];
    });
}
