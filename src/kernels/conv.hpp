// Sparse convolution on planes whose rows hold width x batch floats. Included by every path's file.
// A tile of output stays in registers while all live weights of one output row and input block are applied to it.

// Vectors of a tile. Sixteen registers, or wider tiles of half of 32, leave room for the weight and spare ones; 96 floats
// are what the blocks of pattern files are made for, and larger tiles, which read larger windows, were no faster.
constexpr int TILE = LANES == 16 ? 16 : REGISTERS == 16 ? 12 : 96 / LANES;

struct TilePlace {
    int row, rows, column, vectors, tail;  // tail: lanes of the last vector that are inside the row
};

// What one tile's function does: all output planes of a range of rows, with the weights of one input block. The loop
// over them is inside it: a call for every plane cost a tenth of the time where a plane has fifteen weights.
struct TileRun {
    const float* x;
    ptrdiff_t x_row;
    const int32_t* start;  // of the block's rows
    const int32_t* offset;
    Range rows;
    ptrdiff_t y_plane, y_row;
    int tail;
};

struct ForwardRun : TileRun {
    const float* value;
    float* y;
    const float* bias;
    bool first, relu;
};

struct GradientRun : TileRun {
    const float* dy;
    float* dw;
};

template <int R, int V>
KERNEL void forward_tile(const ForwardRun& run) {
    const float* const x = run.x;
    const int32_t* __restrict const offset = run.offset;
    const float* __restrict const value = run.value;
    const ptrdiff_t x_row = run.x_row, y_row = run.y_row;
    const bool first = run.first, relu = run.relu;
    const int tail = run.tail;
    int k = run.start[run.rows.first];
    for (int row = run.rows.first; row < run.rows.last; row++) {
        const int end = run.start[row + 1];
        if (k == end && !first && !relu) continue;
        float* const y = run.y + row * run.y_plane;
        Vec sum[R][V];
        if (first) {
            const Vec bias = splat(run.bias ? run.bias[row] : 0.f);
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = bias;
        } else {
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
                const float* from = y + r * y_row + v * LANES;
                sum[r][v] = v == V - 1 ? load_first(from, tail) : load(from);
            }
        }
        for (; k < end; k++) {
            const float* from = x + offset[k];
            const Vec w = splat(value[k]);
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
                sum[r][v] += w * load(from + r * x_row + v * LANES);
        }
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
            const Vec result = relu ? positive(sum[r][v]) : sum[r][v];
            float* to = y + r * y_row + v * LANES;
            if (v == V - 1) store_first(to, result, tail);
            else store(to, result);
        }
    }
}

template <int R, int V>
KERNEL void gradient_tile(const GradientRun& run) {
    const float* const x = run.x;
    const int32_t* __restrict const offset = run.offset;
    float* __restrict const dw = run.dw;
    const ptrdiff_t x_row = run.x_row, y_row = run.y_row;
    const int tail = run.tail;
    int k = run.start[run.rows.first];
    for (int row = run.rows.first; row < run.rows.last; row++) {
        const int end = run.start[row + 1];
        if (k == end) continue;
        const float* const dy = run.dy + row * run.y_plane;
        Vec g[R][V];
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
            const float* from = dy + r * y_row + v * LANES;
            g[r][v] = v == V - 1 ? load_first(from, tail) : load(from);
        }
        for (; k + 4 <= end; k += 4) {
            const float *xa = x + offset[k], *xb = x + offset[k + 1], *xc = x + offset[k + 2],
                        *xd = x + offset[k + 3];
            Vec a{}, b{}, c{}, d{};
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
                const ptrdiff_t at = r * x_row + v * LANES;
                a += g[r][v] * load(xa + at);
                b += g[r][v] * load(xb + at);
                c += g[r][v] * load(xc + at);
                d += g[r][v] * load(xd + at);
            }
            store4(dw + k, load4(dw + k) + sums_of_four(a, b, c, d));
        }
        for (; k < end; k++) {
            const float* from = x + offset[k];
            Vec a{};
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
                a += g[r][v] * load(from + r * x_row + v * LANES);
            dw[k] += sum_of(a);
        }
    }
}

typedef decltype(&forward_tile<1, 1>) ForwardTile;
typedef decltype(&gradient_tile<1, 1>) GradientTile;
struct TileFunctions {
    ForwardTile forward;
    GradientTile gradient;
};

// One function for every number of rows and vectors that fits the registers.
struct TileTable {
    TileFunctions at[TILE + 1][TILE + 1];
    template <int R, int V>
    constexpr void fill() {
        if constexpr (R * V <= TILE) {
            at[R][V] = {forward_tile<R, V>, gradient_tile<R, V>};
            fill<R, V + 1>();
        } else if constexpr (R < TILE) {
            fill<R + 1, 1>();
        }
    }
    constexpr TileTable() : at{} { fill<1, 1>(); }
};
static constexpr TileTable TILES;

// The tiles of one plane: several whole rows where these are short, parts of one row where they are long.
struct Tiling {
    int vectors, per_row, rows_each, down, count;
    int length, height;
    Tiling(int height_, int length_) : length(length_), height(height_) {
        vectors = (length + LANES - 1) / LANES;
        per_row = (vectors + TILE - 1) / TILE;
        rows_each = per_row > 1 ? 1 : most(1, least(height, TILE / vectors));
        down = (height + rows_each - 1) / rows_each;
        count = down * per_row;
    }
    TilePlace place(int index) const {
        const Range rows = part_of(height, index / per_row, down);
        const Range columns = part_of(vectors, index % per_row, per_row);
        const bool last = columns.last == vectors;
        return {rows.first, rows.last - rows.first, columns.first * LANES, columns.last - columns.first,
                last ? length - (vectors - 1) * LANES : LANES};
    }
};

static void conv_forward(const ConvWeights& w, const float* x, ptrdiff_t x_row, const Planes<float>& y,
                         const float* bias, bool relu, int threads) {
    const Tiling tiling(y.height, y.length);
    // Few tiles: share out the output planes instead, in as few parts as can be, for each reads the whole input.
    const bool by_tile = tiling.count >= threads * 3;
    const int tasks = threads == 1 ? 1 : by_tile ? least(tiling.count, threads * 4) : least(w.rows, threads);
    run_tasks(tasks, threads, [&](int task) {
        const Range tiles = by_tile ? part_of(tiling.count, task, tasks) : Range{0, tiling.count};
        const Range rows = by_tile ? Range{0, w.rows} : part_of(w.rows, task, tasks);
        for (int t = tiles.first; t < tiles.last; t++) {
            const TilePlace p = tiling.place(t);
            const ForwardTile apply = TILES.at[p.rows][p.vectors].forward;
            for (int b = 0; b < w.blocks; b++) {
                const int32_t* begin = w.start + static_cast<ptrdiff_t>(b) * w.rows;
                apply({{x + p.row * x_row + p.column, x_row, begin, w.offset, rows, y.plane, y.row, p.tail},
                       w.value,
                       y.data + p.row * y.row + p.column,
                       bias,
                       b == 0,
                       relu && b == w.blocks - 1});
            }
        }
    });
}

// dw, in the weights' order, is overwritten. Rows are shared out, so that no two threads add to one weight.
static void conv_weight_gradient(const ConvWeights& w, const float* x, ptrdiff_t x_row,
                                 const Planes<const float>& dy, float* dw, int threads) {
    const Tiling tiling(dy.height, dy.length);
    const int tasks = least(w.rows, threads);
    run_tasks(tasks, threads, [&](int task) {
        const Range rows = part_of(w.rows, task, tasks);
        for (int b = 0; b < w.blocks; b++) {
            const int32_t* begin = w.start + static_cast<ptrdiff_t>(b) * w.rows;
            memset(dw + begin[rows.first], 0, sizeof(float) * (begin[rows.last] - begin[rows.first]));
        }
        for (int t = 0; t < tiling.count; t++) {
            const TilePlace p = tiling.place(t);
            const GradientTile apply = TILES.at[p.rows][p.vectors].gradient;
            for (int b = 0; b < w.blocks; b++) {
                const int32_t* begin = w.start + static_cast<ptrdiff_t>(b) * w.rows;
                apply({{x + p.row * x_row + p.column, x_row, begin, w.offset, rows, dy.plane, dy.row, p.tail},
                       dy.data + p.row * dy.row + p.column,
                       dw});
            }
        }
    });
}

// The gradient of all weights, pruned ones too, of rows [first, last); `dw` holds (last - first) x per_row floats.
static void full_gradient_rows(const ConvPositions& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                               Range rows, float* dw) {
    const Tiling tiling(dy.height, dy.length);
    memset(dw, 0, sizeof(float) * w.per_row * (rows.last - rows.first));
    for (int t = 0; t < tiling.count; t++) {
        const TilePlace p = tiling.place(t);
        const GradientTile apply = TILES.at[p.rows][p.vectors].gradient;
        const float* from = x + p.row * x_row + p.column;
        const float* g = dy.data + p.row * dy.row + p.column;
        for (int k = 0; k < w.per_row; k += w.block) {
            const int32_t start[2] = {0, least(w.block, w.per_row - k)};
            for (int r = rows.first; r < rows.last; r++) {
                const int32_t* offset = w.offset + static_cast<ptrdiff_t>(r / (w.rows / w.groups)) * w.per_row + k;
                float* to = dw + static_cast<ptrdiff_t>(r - rows.first) * w.per_row + k;
                apply({{from, x_row, start, offset, {0, 1}, 0, dy.row, p.tail}, g + r * dy.plane, to});
            }
        }
    }
}

// Adds the full gradient to a total; `scratch` holds threads x rows_each x per_row floats.
static void conv_full_gradient(const ConvPositions& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                               Total total, float* scratch, int rows_each, int threads) {
    run_tasks((w.rows + rows_each - 1) / rows_each, threads, [&](int task) {
        const Range rows{task * rows_each, least(w.rows, (task + 1) * rows_each)};
        const ptrdiff_t each = static_cast<ptrdiff_t>(rows_each) * w.per_row;
        float* dw = scratch + omp_get_thread_num() * each;
        full_gradient_rows(w, x, x_row, dy, rows, dw);
        float* to = total.sum + static_cast<ptrdiff_t>(rows.first) * w.per_row;
        const ptrdiff_t size = static_cast<ptrdiff_t>(rows.last - rows.first) * w.per_row;
        if (total.squared) for (ptrdiff_t i = 0; i < size; i++) to[i] += dw[i] * dw[i];
        else for (ptrdiff_t i = 0; i < size; i++) to[i] += dw[i];
    });
}
