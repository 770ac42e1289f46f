// What a sparse convolution does to one tile of its output, and back. Included by every path's file.
// A tile of output stays in registers while all live weights of one output row and input block are applied to it.

// Vectors of a tile. Sixteen registers, or wider tiles of half of 32, leave room for the weight and spare ones; 96
// floats are what the blocks of pattern files are made for, and larger tiles, which read larger windows, were no
// faster.
constexpr int TILE = LANES == 16 ? 16 : REGISTERS == 16 ? 12 : 96 / LANES;

struct TilePlace {
    int row, rows, column, vectors, tail;  // tail: lanes of the last vector that are inside the row
};

// What one tile's function does: all output planes of a range of rows, with the weights of one input block. The loop
// over them is inside it: a call for every plane cost a tenth of the time where a plane has fifteen weights.
struct TileRun {
    const float* x;
    ptrdiff_t x_row;
    const int32_t* start;  // of the block's rows and bands
    const int32_t* offset;
    int bands;
    Range used;  // bands
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

// The weights that a tile uses of each row. They are looked up a row ahead: where a row ends is hard to foresee, and
// then the next one should be able to start at once.
struct Pieces {
    const int32_t *first, *last;
    int step, begin, end;
    __attribute__((always_inline)) explicit Pieces(const TileRun& run)
        : first(run.start + run.rows.first * run.bands + run.used.first),
          last(run.start + run.rows.first * run.bands + run.used.last),
          step(run.bands),
          begin(*first),
          end(*last) {}
    __attribute__((always_inline)) void advance() {
        first += step, last += step;
        begin = *first, end = *last;
    }
};

template <int R, int V>
KERNEL void forward_tile(const ForwardRun& run) {
    const float* const x = run.x;
    const int32_t* __restrict const offset = run.offset;
    const float* __restrict const value = run.value;
    const ptrdiff_t x_row = run.x_row, y_row = run.y_row;
    const bool first = run.first, relu = run.relu;
    const int tail = run.tail;
    Pieces pieces(run);
    for (int row = run.rows.first; row < run.rows.last; row++) {
        int k = pieces.begin;
        const int end = pieces.end;
        pieces.advance();
        if (k == end && !first && !relu) continue;
        float* const y = run.y + row * run.y_plane;
        Vec sum[R][V];
        const Vec start = splat(first && run.bias ? run.bias[row] : 0.f);
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = start;
        if constexpr (R * V <= 6) {
            // Too few sums to keep the multipliers busy: every other weight has its own.
            Vec other[R][V] = {};
            for (; k + 2 <= end; k += 2) {
                const float *from = x + offset[k], *next = x + offset[k + 1];
                const Vec w = splat(value[k]), w_next = splat(value[k + 1]);
                UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
                    sum[r][v] += w * load(from + r * x_row + v * LANES);
                    other[r][v] += w_next * load(next + r * x_row + v * LANES);
                }
            }
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] += other[r][v];
        }
        for (; k < end; k++) {
            const float* from = x + offset[k];
            const Vec w = splat(value[k]);
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] +=
                w * load(from + r * x_row + v * LANES);
        }
        // Sums of the blocks before are added last: the multiply-adds need not wait for them.
        if (!first) UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
                const float* from = y + r * y_row + v * LANES;
                sum[r][v] += v == V - 1 ? load_first(from, tail) : load(from);
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
    Pieces pieces(run);
    for (int row = run.rows.first; row < run.rows.last; row++) {
        int k = pieces.begin;
        const int end = pieces.end;
        pieces.advance();
        if (k == end) continue;
        const float* const dy = run.dy + row * run.y_plane;
        Vec g[R][V];
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) {
            const float* from = dy + r * y_row + v * LANES;
            g[r][v] = v == V - 1 ? load_first(from, tail) : load(from);
        }
        for (; k + 4 <= end; k += 4) {
            const float *xa = x + offset[k], *xb = x + offset[k + 1], *xc = x + offset[k + 2], *xd = x + offset[k + 3];
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
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) a +=
                g[r][v] * load(from + r * x_row + v * LANES);
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
