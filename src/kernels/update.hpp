// SGD on live weights, and the regathering of weights for input gradients. Included by every path's file.

static void sgd(float* __restrict w, const float* __restrict g, ptrdiff_t size, float rate, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t i = size * task / tasks; i < size * (task + 1) / tasks; i++) w[i] -= rate * g[i];
    });
}

// Eight weights a byte of `live`, the first in the lowest bit; pruned ones stay as they are.
static void masked_sgd(float* __restrict w, const float* __restrict g, const uint8_t* __restrict live, ptrdiff_t size,
                       float rate, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    const ptrdiff_t bytes = size / 8;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t b = bytes * task / tasks; b < bytes * (task + 1) / tasks; b++)
            UNROLL for (int i = 0; i < 8; i++)
                w[b * 8 + i] -= live[b] >> i & 1 ? rate * g[b * 8 + i] : 0.f;
    });
    for (ptrdiff_t i = bytes * 8; i < size; i++)
        if (live[i / 8] >> i % 8 & 1) w[i] -= rate * g[i];
}

static void gather(float* __restrict to, const float* __restrict from, const int32_t* __restrict order,
                   ptrdiff_t size, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        for (ptrdiff_t i = size * task / tasks; i < size * (task + 1) / tasks; i++) to[i] = from[order[i]];
    });
}
