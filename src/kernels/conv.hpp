// Sparse convolution on planes whose rows hold width x batch floats, tile by tile. Included by every path's file.

// The tiles of one plane: several whole rows where these are short, parts of one row where they are long.
struct Tiling {
    int vectors, per_row, rows_each, down, count;
    int length, height;
    Tiling(int height_, int length_, int most_rows = TILE) : length(length_), height(height_) {
        vectors = (length + LANES - 1) / LANES;
        per_row = (vectors + TILE - 1) / TILE;
        rows_each = per_row > 1 ? 1 : most(1, least(least(height, most_rows), TILE / vectors));
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

// Bands that read nothing but padding, for all lines of a tile, are passed over.
INLINE Range used_bands(const ConvWeights& w, const TilePlace& p) {
    const int last = most(0, least(w.bands, w.last_line - p.row));
    return {least(last, most(0, w.first_line - (p.row + p.rows - 1))), last};
}

// Of the ways to cut a plane the one that loads least: low tiles pass over more padding, high ones share weights.
static Tiling tiling_for(const ConvWeights& w, int height, int length) {
    constexpr int WEIGHT = 2;  // loads that a weight costs beside its input's
    Tiling best(height, length);
    if (best.rows_each == 1) return best;
    int64_t least_loads = INT64_MAX;
    for (int rows = best.rows_each; rows > 0; rows--) {
        const Tiling tiling(height, length, rows);
        int64_t loads = 0;
        for (int t = 0; t < tiling.count; t++) {
            const TilePlace p = tiling.place(t);
            const Range used = used_bands(w, p);
            loads += (used.last - used.first) * (p.rows * p.vectors + WEIGHT);
        }
        if (loads < least_loads) best = tiling, least_loads = loads;
    }
    return best;
}

INLINE TileRun tile_run(const ConvWeights& w, int block, const float* x, ptrdiff_t x_row, const TilePlace& p,
                        Range rows, ptrdiff_t y_plane, ptrdiff_t y_row) {
    const int32_t* start = w.start + static_cast<ptrdiff_t>(block) * w.rows * w.bands;
    return {x, x_row, start, w.offset, w.bands, used_bands(w, p), rows, y_plane, y_row, p.tail};
}

static void conv_forward(const ConvWeights& w, const float* x, ptrdiff_t x_row, const Planes<float>& y,
                         const float* bias, bool relu, int threads) {
    const Tiling tiling = tiling_for(w, y.height, y.length);
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
                apply({tile_run(w, b, x + p.row * x_row + p.column, x_row, p, rows, y.plane, y.row), w.value,
                       y.data + p.row * y.row + p.column, bias, b == 0, relu && b == w.blocks - 1});
            }
        }
    });
}

// dw, in the weights' order, is overwritten. Rows are shared out, so that no two threads add to one weight.
static void conv_weight_gradient(const ConvWeights& w, const float* x, ptrdiff_t x_row, const Planes<const float>& dy,
                                 float* dw, int threads) {
    const Tiling tiling = tiling_for(w, dy.height, dy.length);
    const int tasks = least(w.rows, threads);
    run_tasks(tasks, threads, [&](int task) {
        const Range rows = part_of(w.rows, task, tasks);
        for (int b = 0; b < w.blocks; b++) {
            const int32_t* begin = w.start + static_cast<ptrdiff_t>(b) * w.rows * w.bands;
            const int32_t first = begin[rows.first * w.bands], last = begin[rows.last * w.bands];
            // a layer without a live weight has no dw
            if (last > first) memset(dw + first, 0, sizeof(float) * (last - first));
        }
        for (int t = 0; t < tiling.count; t++) {
            const TilePlace p = tiling.place(t);
            const GradientTile apply = TILES.at[p.rows][p.vectors].gradient;
            for (int b = 0; b < w.blocks; b++)
                apply({tile_run(w, b, x + p.row * x_row + p.column, x_row, p, rows, dy.plane, dy.row),
                       dy.data + p.row * dy.row + p.column, dw});
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
            const int32_t start[3] = {0, least(w.block, w.per_row - k), 0};
            for (int r = rows.first; r < rows.last; r++) {
                const int32_t* offset = w.offset + static_cast<ptrdiff_t>(r / (w.rows / w.groups)) * w.per_row + k;
                float* to = dw + static_cast<ptrdiff_t>(r - rows.first) * w.per_row + k;
                apply({{from, x_row, start, offset, 1, {0, 1}, {0, 1}, 0, dy.row, p.tail}, g + r * dy.plane, to});
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
        if (total.squared)
            for (ptrdiff_t i = 0; i < size; i++) to[i] += dw[i] * dw[i];
        else
            for (ptrdiff_t i = 0; i < size; i++) to[i] += dw[i];
    });
}
