// Layers most of whose weights live, as dense sums: several rows share what is loaded of the input, which the sparse
// kernels cannot. Weights are row-major, pruned ones zero. Included by every path's file.

#if PRUNEFL_LANES == 8
constexpr int DENSE_VECTORS = 4;
constexpr int dense_rows(int vectors) { return vectors <= 2 ? 5 : 3; }
constexpr int GRADIENT_ROWS = 2;
#else
constexpr int DENSE_VECTORS = 6;
constexpr int dense_rows(int vectors) { return vectors <= 2 ? 8 : vectors <= 4 ? 6 : 4; }
constexpr int GRADIENT_ROWS = 4;
#endif

// Some vectors of the output planes, which may lie in several rows.
struct Spots {
    ptrdiff_t x[DENSE_VECTORS], y[DENSE_VECTORS];
    int lanes[DENSE_VECTORS], count;
    Spots(Range some, int length, ptrdiff_t x_row, ptrdiff_t y_row) : count(some.last - some.first) {
        const int vectors = (length + LANES - 1) / LANES;
        for (int v = 0; v < count; v++) {
            const int row = (some.first + v) / vectors, column = (some.first + v) % vectors * LANES;
            x[v] = row * x_row + column, y[v] = row * y_row + column;
            lanes[v] = least(LANES, length - column);
        }
    }
};

struct DenseStep {
    bool first, relu;
    const float* bias;
};

template <int R, int V>
KERNEL void dense_tile(const float* x, const Spots& spots, const int32_t* __restrict offset, const float* __restrict w,
                       ptrdiff_t w_row, int count, float* y, ptrdiff_t y_plane, DenseStep step) {
    Vec sum[R][V];
    const float* from[V];
    UNROLL for (int v = 0; v < V; v++) from[v] = x + spots.x[v];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] =
        step.first ? splat(step.bias ? step.bias[r] : 0.f) : load_first(y + r * y_plane + spots.y[v], spots.lanes[v]);
    for (int k = 0; k < count; k++) {
        Vec weight[R];
        UNROLL for (int r = 0; r < R; r++) weight[r] = splat(w[r * w_row + k]);
        UNROLL for (int v = 0; v < V; v++) {
            const Vec in = load(from[v] + offset[k]);
            UNROLL for (int r = 0; r < R; r++) sum[r][v] += weight[r] * in;
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
        store_first(y + r * y_plane + spots.y[v], step.relu ? positive(sum[r][v]) : sum[r][v], spots.lanes[v]);
}

// Rows [first, last) of one block of positions, as many at a time as the registers hold.
template <int V>
static void dense_rows_of(const DenseWeights& w, Range rows, Range block, const int32_t* offset, const float* x,
                          const Spots& spots, const Planes<float>& y, const float* bias, bool relu) {
    constexpr int R = dense_rows(V);
    for (int r = rows.first; r < rows.last;) {
        const float* weights = w.value + static_cast<ptrdiff_t>(r) * w.per_row + block.first;
        const DenseStep step{block.first == 0, relu && block.last == w.per_row, bias ? bias + r : nullptr};
        const bool whole = r + R <= rows.last;
        const auto tile = whole ? dense_tile<R, V> : dense_tile<1, V>;
        tile(x, spots, offset + block.first, weights, w.per_row, block.last - block.first, y.data + r * y.plane,
             y.plane, step);
        r += whole ? R : 1;
    }
}

// One group only: a row that shares its input with no other gains nothing here.
static void dense_forward(const DenseWeights& w, const float* x, ptrdiff_t x_row, const Planes<float>& y,
                          const float* bias, bool relu, int threads) {
    const int total = y.height * ((y.length + LANES - 1) / LANES);
    const int tiles = (total + DENSE_VECTORS - 1) / DENSE_VECTORS;
    const bool by_tile = tiles >= threads * 3;
    const int tasks = threads == 1 ? 1 : by_tile ? least(tiles, threads * 4) : least(w.rows, threads * 2);
    run_tasks(tasks, threads, [&](int task) {
        const Range some = by_tile ? part_of(tiles, task, tasks) : Range{0, tiles};
        const Range rows = by_tile ? Range{0, w.rows} : part_of(w.rows, task, tasks);
        for (int t = some.first; t < some.last; t++) {
            const Range vectors = part_of(total, t, tiles);
            const Spots spots(vectors, y.length, x_row, y.row);
            for (int k = 0; k < w.per_row; k += w.block) {
                const Range block{k, least(w.per_row, k + w.block)};
#define CALL(V) \
    dense_rows_of<(V < DENSE_VECTORS ? V : DENSE_VECTORS)>(w, rows, block, w.offset, x, spots, y, bias, relu)
                FOR_VECTORS(spots.count, CALL)
#undef CALL
            }
        }
    });
}

// dw of R rows and K positions over some rows of the planes.
template <int R, int K>
KERNEL void dense_gradient_tile(const float* x, ptrdiff_t x_row, const int32_t* __restrict offset, const float* dy,
                                ptrdiff_t y_plane, ptrdiff_t y_row, int height, int length, float* dw,
                                ptrdiff_t w_row) {
    Vec sum[R][K] = {};
    for (int h = 0; h < height; h++)
        for (int i = 0; i < length; i += LANES) {
            Vec g[R];
            UNROLL for (int r = 0; r < R; r++) {
                const float* from = dy + r * y_plane + h * y_row + i;
                g[r] = i + LANES <= length ? load(from) : load_first(from, length - i);
            }
            UNROLL for (int k = 0; k < K; k++) {
                const Vec in = load(x + offset[k] + h * x_row + i);
                UNROLL for (int r = 0; r < R; r++) sum[r][k] += g[r] * in;
            }
        }
    UNROLL for (int r = 0; r < R; r++) {
        float* to = dw + r * w_row;
        if constexpr (K == 4) store4(to, load4(to) + sums_of_four(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
        else to[0] += sum_of(sum[r][0]);
    }
}

template <int R>
static void dense_gradient_rows(const DenseWeights& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                                Range lines, int row, float* dw) {
    const float* from = x + lines.first * x_row;
    const float* g = dy.data + row * dy.plane + lines.first * dy.row;
    float* to = dw + static_cast<ptrdiff_t>(row) * w.per_row;
    const int height = lines.last - lines.first;
    int k = 0;
    for (; k + 4 <= w.per_row; k += 4)
        dense_gradient_tile<R, 4>(from, x_row, w.offset + k, g, dy.plane, dy.row, height, dy.length, to + k, w.per_row);
    for (; k < w.per_row; k++)
        dense_gradient_tile<R, 1>(from, x_row, w.offset + k, g, dy.plane, dy.row, height, dy.length, to + k, w.per_row);
}

// dw, row-major, is overwritten.
static void dense_conv_gradient(const DenseWeights& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                                float* dw, int threads) {
    constexpr int CHUNK = 1024;  // floats of a plane that stay in the cache while all positions go over them
    const int each = most(1, CHUNK / dy.length), chunks = (dy.height + each - 1) / each;
    const int groups = (w.rows + GRADIENT_ROWS - 1) / GRADIENT_ROWS;
    run_tasks(groups, threads, [&](int task) {
        const int row = task * GRADIENT_ROWS, rows = least(GRADIENT_ROWS, w.rows - row);
        memset(dw + static_cast<ptrdiff_t>(row) * w.per_row, 0, sizeof(float) * rows * w.per_row);
        for (int c = 0; c < chunks; c++) {
            const Range lines = part_of(dy.height, c, chunks);
            if (rows == GRADIENT_ROWS) dense_gradient_rows<GRADIENT_ROWS>(w, x, x_row, dy, lines, row, dw);
            else
                for (int r = 0; r < rows; r++) dense_gradient_rows<1>(w, x, x_row, dy, lines, row + r, dw);
        }
    });
}

// dx of R inputs over some outputs; tail: lanes of the last vector that are inside a row.
template <int R, int V>
KERNEL void dense_back_tile(const float* dy, ptrdiff_t y_stride, const float* __restrict w, ptrdiff_t w_row, int count,
                            float* dx, ptrdiff_t x_stride, int tail, bool first) {
    Vec sum[R][V];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] =
        first ? Vec{} : load_first(dx + r * x_stride + v * LANES, v == V - 1 ? tail : LANES);
    for (int o = 0; o < count; o++) {
        const float* weights = w + o * w_row;
        __builtin_prefetch(weights + 64);
        Vec g[V];
        UNROLL for (int v = 0; v < V; v++) g[v] = load(dy + o * y_stride + v * LANES);
        UNROLL for (int r = 0; r < R; r++) {
            const Vec weight = splat(weights[r]);
            UNROLL for (int v = 0; v < V; v++) sum[r][v] += weight * g[v];
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
        store_first(dx + r * x_stride + v * LANES, sum[r][v], v == V - 1 ? tail : LANES);
}

template <int V>
static void dense_back_inputs(const float* dy, ptrdiff_t y_stride, const DenseWeights& w, Range outputs, Range inputs,
                              float* dx, ptrdiff_t x_stride, int tail) {
    constexpr int R = V <= 2 ? dense_rows(2) : dense_rows(3);
    for (int i = inputs.first; i < inputs.last;) {
        const bool whole = i + R <= inputs.last;
        const auto tile = whole ? dense_back_tile<R, V> : dense_back_tile<1, V>;
        tile(dy + outputs.first * y_stride, y_stride, w.value + static_cast<ptrdiff_t>(outputs.first) * w.per_row + i,
             w.per_row, outputs.last - outputs.first, dx + i * x_stride, x_stride, tail, outputs.first == 0);
        i += whole ? R : 1;
    }
}

// The input gradient of a linear layer.
static void dense_linear_backward(const DenseWeights& w, const float* dy, ptrdiff_t y_stride, float* dx,
                                  ptrdiff_t x_stride, int batch, int threads) {
    constexpr int OUTPUTS = 64, INPUTS = 128, PIECE = 3;
    const int vectors = (batch + LANES - 1) / LANES, pieces = (vectors + PIECE - 1) / PIECE;
    run_tasks((w.per_row + INPUTS - 1) / INPUTS, threads, [&](int task) {
        const Range inputs{task * INPUTS, least(w.per_row, (task + 1) * INPUTS)};
        for (int p = 0; p < pieces; p++) {
            const Range some = part_of(vectors, p, pieces);
            const ptrdiff_t at = static_cast<ptrdiff_t>(some.first) * LANES;
            // rows may be whole numbers of narrower vectors
            const int tail = least(LANES, static_cast<int>(x_stride) - (some.last - 1) * LANES);
            for (int o = 0; o < w.rows; o += OUTPUTS) {
                const Range outputs{o, least(w.rows, o + OUTPUTS)};
                switch (some.last - some.first) {
                    case 1: dense_back_inputs<1>(dy + at, y_stride, w, outputs, inputs, dx + at, x_stride, tail); break;
                    case 2: dense_back_inputs<2>(dy + at, y_stride, w, outputs, inputs, dx + at, x_stride, tail); break;
                    default: dense_back_inputs<3>(dy + at, y_stride, w, outputs, inputs, dx + at, x_stride, tail);
                }
            }
        }
    });
}

// dw[o][i] = dy_o · x_i, overwritten; x is (batch, inputs) here.
template <int R>
INLINE void outer_rows(const float* x, int inputs, const float* dy, ptrdiff_t y_stride, int batch, float* dw) {
    int i = 0;
    for (; i + 2 * LANES <= inputs; i += 2 * LANES) {
        Vec sum[R][2] = {};
        for (int n = 0; n < batch; n++) {
            const float* from = x + static_cast<ptrdiff_t>(n) * inputs + i;
            const Vec a = load(from), b = load(from + LANES);
            UNROLL for (int r = 0; r < R; r++) {
                const Vec g = splat(dy[r * y_stride + n]);
                sum[r][0] += g * a;
                sum[r][1] += g * b;
            }
        }
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++)
            store(dw + static_cast<ptrdiff_t>(r) * inputs + i + v * LANES, sum[r][v]);
    }
    for (int r = 0; r < R; r++)
        for (int j = i; j < inputs; j++) {
            float sum = 0;
            for (int n = 0; n < batch; n++) sum += dy[r * y_stride + n] * x[static_cast<ptrdiff_t>(n) * inputs + j];
            dw[static_cast<ptrdiff_t>(r) * inputs + j] = sum;
        }
}

static void dense_linear_gradient(const float* x, int inputs, const float* dy, ptrdiff_t y_stride, int outputs,
                                  int batch, float* dw, int threads) {
    constexpr int ROWS = 5;
    run_tasks((outputs + ROWS - 1) / ROWS, threads, [&](int task) {
        const int row = task * ROWS;
        float* to = dw + static_cast<ptrdiff_t>(row) * inputs;
        if (row + ROWS <= outputs) return outer_rows<ROWS>(x, inputs, dy + row * y_stride, y_stride, batch, to);
        for (int r = 0; r < outputs - row; r++)
            outer_rows<1>(x, inputs, dy + (row + r) * y_stride, y_stride, batch,
                          to + static_cast<ptrdiff_t>(r) * inputs);
    });
}
