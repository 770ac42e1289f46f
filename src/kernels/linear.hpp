// Sparse linear layers on transposed activations: x is (inputs, batch), y is (outputs, batch), rows a whole number of
// vectors. Included by every path's file.

constexpr int MOST_VECTORS = 6;                        // of one activation row, kept in registers together
constexpr int FORWARD_SETS = REGISTERS == 32 ? 4 : 2;  // of accumulators: they hide the latency of the multiply-adds

// All rows of a range with the weights of one panel: the loop is inside, since a call for every row would cost more.
template <int V, bool TIGHT>
KERNEL void forward_rows(const LinearWeights& w, int panel, const float* __restrict x, ptrdiff_t stride, float* y,
                         ptrdiff_t y_stride, const float* bias, bool relu, Range rows) {
    constexpr int SETS = V <= 5 ? FORWARD_SETS : 1;
    const ptrdiff_t ld = TIGHT ? V * LANES : stride;
    const int32_t* begin = w.start + static_cast<ptrdiff_t>(panel) * w.outputs;
    const uint16_t* __restrict const column = w.column;
    const float* __restrict const value = w.value;
    const bool first = panel == 0;
    relu = relu && panel == w.panels - 1;
    int k = begin[rows.first];
    for (int r = rows.first; r < rows.last; r++) {
        const int end = begin[r + 1];
        if (k == end && !first && !relu) continue;
        float* const to = y + r * y_stride;
        Vec sum[SETS][V] = {};
        if (first) {
            const Vec start = splat(bias ? bias[r] : 0.f);
            UNROLL for (int v = 0; v < V; v++) sum[0][v] = start;
        } else {
            UNROLL for (int v = 0; v < V; v++) sum[0][v] = load(to + v * LANES);
        }
        for (; k + SETS <= end; k += SETS) {
            UNROLL for (int s = 0; s < SETS; s++) {
                const float* from = x + column[k + s] * ld;
                const Vec weight = splat(value[k + s]);
                UNROLL for (int v = 0; v < V; v++) sum[s][v] += weight * load(from + v * LANES);
            }
        }
        for (; k < end; k++) {
            const float* from = x + column[k] * ld;
            const Vec weight = splat(value[k]);
            UNROLL for (int v = 0; v < V; v++) sum[0][v] += weight * load(from + v * LANES);
        }
        UNROLL for (int v = 0; v < V; v++) {
            Vec total = sum[0][v];
            for (int s = 1; s < SETS; s++) total += sum[s][v];
            store(to + v * LANES, relu ? positive(total) : total);
        }
    }
}

template <int V>
static void forward_panels(const LinearWeights& w, const float* x, ptrdiff_t x_stride, float* y, ptrdiff_t y_stride,
                           const float* bias, bool relu, Range rows) {
    const auto apply = x_stride == V * LANES ? forward_rows<V, true> : forward_rows<V, false>;
    for (int p = 0; p < w.panels; p++)
        apply(w, p, x + static_cast<ptrdiff_t>(p) * w.panel_width * x_stride, x_stride, y, y_stride, bias, relu, rows);
}

template <int V, bool TIGHT, bool INPUT, bool WEIGHT>
KERNEL void backward_rows(const LinearWeights& w, int panel, const float* __restrict x, float* __restrict dx,
                          ptrdiff_t stride, const float* __restrict dy, ptrdiff_t y_stride, float* __restrict dw,
                          bool add) {
    const ptrdiff_t ld = TIGHT ? V * LANES : stride;
    const int32_t* begin = w.start + static_cast<ptrdiff_t>(panel) * w.outputs;
    const uint16_t* __restrict const column = w.column;
    const float* __restrict const value = w.value;
    int k = begin[0];
    for (int r = 0; r < w.outputs; r++) {
        const int end = begin[r + 1];
        if (k == end) continue;
        Vec g[V];
        UNROLL for (int v = 0; v < V; v++) g[v] = load(dy + r * y_stride + v * LANES);
        const auto step = [&](int at) __attribute__((always_inline)) {
            const float* from = x + column[at] * ld;
            float* to = dx + column[at] * ld;
            Vec product{};
            if (WEIGHT) {
                product = g[0] * load(from);
                UNROLL for (int v = 1; v < V; v++) product += g[v] * load(from + v * LANES);
            }
            if (INPUT) {
                const Vec weight = splat(value[at]);
                UNROLL for (int v = 0; v < V; v++) store(to + v * LANES, load(to + v * LANES) + weight * g[v]);
            }
            return product;
        };
        for (; k + 4 <= end; k += 4) {
            const Vec a = step(k), b = step(k + 1), c = step(k + 2), d = step(k + 3);
            if (WEIGHT) store4(dw + k, sums_of_four(a, b, c, d) + (add ? load4(dw + k) : Vec4{}));
        }
        for (; k < end; k++) {
            const Vec a = step(k);
            if (WEIGHT) dw[k] = sum_of(a) + (add ? dw[k] : 0.f);
        }
    }
}

template <int V, bool INPUT, bool WEIGHT>
static void backward_panel(const LinearWeights& w, int p, const float* x, float* dx, ptrdiff_t x_stride,
                           const float* dy, ptrdiff_t y_stride, float* dw, bool add) {
    const ptrdiff_t from = static_cast<ptrdiff_t>(p) * w.panel_width * x_stride;
    const auto apply =
        x_stride == V * LANES ? backward_rows<V, true, INPUT, WEIGHT> : backward_rows<V, false, INPUT, WEIGHT>;
    apply(w, p, x + from, INPUT ? dx + from : nullptr, x_stride, dy, y_stride, dw, add);
}

template <int V>
static void backward_panel(const LinearWeights& w, int p, const float* x, float* dx, ptrdiff_t x_stride,
                           const float* dy, ptrdiff_t y_stride, float* dw, bool add) {
    if (dx && dw) backward_panel<V, true, true>(w, p, x, dx, x_stride, dy, y_stride, dw, add);
    else if (dx) backward_panel<V, true, false>(w, p, x, dx, x_stride, dy, y_stride, dw, add);
    else if (dw) backward_panel<V, false, true>(w, p, x, dx, x_stride, dy, y_stride, dw, add);
}

#define FOR_VECTORS(count, call) \
    switch (count) {             \
        case 1: call(1); break;  \
        case 2: call(2); break;  \
        case 3: call(3); break;  \
        case 4: call(4); break;  \
        case 5: call(5); break;  \
        default: call(6);        \
    }

// Visit a row of `vectors` in pieces that fit the registers, as equal as may be: at(first vector, how many).
template <class At>
INLINE void in_pieces(int vectors, At at) {
    const int pieces = (vectors + MOST_VECTORS - 1) / MOST_VECTORS;
    for (int i = 0; i < pieces; i++) {
        const Range range = part_of(vectors, i, pieces);
        at(range.first, range.last - range.first);
    }
}

static void linear_forward(const LinearWeights& w, const float* x, ptrdiff_t x_stride, float* y, ptrdiff_t y_stride,
                           int batch, const float* bias, bool relu, int threads) {
    const int tasks = threads > 1 ? least(w.outputs, threads * 2) : 1;
    run_tasks(tasks, threads, [&](int task) {
        const Range rows = part_of(w.outputs, task, tasks);
        in_pieces((batch + LANES - 1) / LANES, [&](int first, int vectors) {
            const ptrdiff_t at = static_cast<ptrdiff_t>(first) * LANES;
#define CALL(V) forward_panels<V>(w, x + at, x_stride, y + at, y_stride, bias, relu, rows)
            FOR_VECTORS(vectors, CALL)
#undef CALL
        });
    });
}

// dx and dw are overwritten; either may be null. Lanes of dy beyond the batch are zero, those of x finite.
static void linear_backward(const LinearWeights& w, const float* x, float* dx, ptrdiff_t x_stride, const float* dy,
                            ptrdiff_t y_stride, int batch, float* dw, int threads) {
    run_tasks(w.panels, threads, [&](int p) {
        const int columns = least(w.panel_width, w.inputs - p * w.panel_width);
        const ptrdiff_t from = static_cast<ptrdiff_t>(p) * w.panel_width * x_stride;
        if (dx) memset(dx + from, 0, sizeof(float) * columns * x_stride);
        in_pieces((batch + LANES - 1) / LANES, [&](int first, int vectors) {
            const ptrdiff_t at = static_cast<ptrdiff_t>(first) * LANES;
#define CALL(V) backward_panel<V>(w, p, x + at, dx ? dx + at : nullptr, x_stride, dy + at, y_stride, dw, first > 0)
            FOR_VECTORS(vectors, CALL)
#undef CALL
        });
    });
}

// total[o][i] += (dy_o · x_i)², or without the square; x is (batch, inputs) here. A tile is 4 rows by 2 vectors.
template <int ROWS>
INLINE void full_gradient_rows(const float* x, ptrdiff_t x_stride, int inputs, const float* dy, ptrdiff_t y_stride,
                               int batch, Total total) {
    const int edge = inputs / (2 * LANES) * (2 * LANES);
    for (int i = 0; i < edge; i += 2 * LANES) {
        Vec sum[ROWS][2] = {};
        for (int n = 0; n < batch; n++) {
            const Vec a = load(x + n * x_stride + i), b = load(x + n * x_stride + i + LANES);
            UNROLL for (int r = 0; r < ROWS; r++) {
                const Vec g = splat(dy[r * y_stride + n]);
                sum[r][0] += g * a;
                sum[r][1] += g * b;
            }
        }
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < 2; v++) {
            float* to = total.sum + static_cast<ptrdiff_t>(r) * inputs + i + v * LANES;
            store(to, load(to) + (total.squared ? sum[r][v] * sum[r][v] : sum[r][v]));
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int i = edge; i < inputs; i++) {
            float sum = 0;
            for (int n = 0; n < batch; n++) sum += dy[r * y_stride + n] * x[n * x_stride + i];
            total.sum[static_cast<ptrdiff_t>(r) * inputs + i] += total.squared ? sum * sum : sum;
        }
}

[[maybe_unused]] static void linear_full_gradient(const float* x, ptrdiff_t x_stride, int inputs, const float* dy,
                                                  ptrdiff_t y_stride, int outputs, int batch, Total total,
                                                  int threads) {
    constexpr int ROWS = 5;
    const int groups = (outputs + ROWS - 1) / ROWS;
    run_tasks(groups, threads, [&](int task) {
        const int row = task * ROWS;
        const Total here{total.sum + static_cast<ptrdiff_t>(row) * inputs, total.squared};
        const float* g = dy + row * y_stride;
        if (row + ROWS <= outputs) return full_gradient_rows<ROWS>(x, x_stride, inputs, g, y_stride, batch, here);
        for (int r = 0; r < outputs - row; r++)
            full_gradient_rows<1>(x, x_stride, inputs, g + r * y_stride, y_stride, batch,
                                  {here.sum + static_cast<ptrdiff_t>(r) * inputs, total.squared});
    });
}
