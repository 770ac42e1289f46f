// Moving activations between torch's layout and ours, a row (width x batch floats) at a time. Included by every path.

// Where row h of channel c lies: phase plane and cell; negative or beyond the cells when it was cropped.
INLINE float* row_cells(const Layout& at, float* data, int c, int h, int phase_w) {
    const int padded = h + at.pad_h, phase = padded % at.stride_h;
    const int cell = padded / at.stride_h - at.first_h[phase];
    if (cell < 0 || cell >= at.cells_h) return nullptr;
    return data + c * at.channel() + (phase * at.stride_w + phase_w) * at.plane() + cell * at.row();
}

// A pixel's floats, in vectors of which the last may overlap the one before: a call of memcpy takes longer.
INLINE void copy_pixel(float* to, const float* from, int count) {
    if (count < LANES) memcpy(to, from, sizeof(float) * count);
    else
        for (int n = 0; n < count; n += LANES)
            store(to + least(n, count - LANES), load(from + least(n, count - LANES)));
}

// A row in one piece: a pointer into the buffer where it lies so, otherwise a copy in `copy`. What was cropped is zero:
// a strided convolution leaves out what it does not read, and a gate before it still asks.
INLINE const float* read_row(const Placed<const float>& from, int c, int h, float* copy) {
    const Layout& at = from.at;
    float* data = const_cast<float*>(from.data);
    const float* row = row_cells(at, data, c, h, 0);
    if (!row) {
        memset(copy, 0, sizeof(float) * at.width * at.batch);
        return copy;
    }
    if (at.stride_w == 1 && at.lanes == at.batch) return row + (at.pad_w - at.first_w[0]) * at.lanes;
    for (int w = 0; w < at.width; w++) {
        const int padded = w + at.pad_w, phase = padded % at.stride_w;
        const int cell = padded / at.stride_w - at.first_w[phase];
        float* to = copy + static_cast<ptrdiff_t>(w) * at.batch;
        if (cell >= 0 && cell < at.cells_w)
            copy_pixel(to, row_cells(at, data, c, h, phase) + cell * at.lanes, at.batch);
        else memset(to, 0, sizeof(float) * at.batch);
    }
    return copy;
}

// Where to write a row: into the buffer if it lies there in one piece, otherwise to `copy`, for close_row to place.
INLINE float* open_row(const Placed<float>& to, int c, int h, float* copy) {
    const Layout& at = to.at;
    if (at.stride_w > 1 || at.lanes != at.batch || at.pad_w + at.width > at.cells_w) return copy;
    float* row = row_cells(at, to.data, c, h, 0);
    return row ? row + at.pad_w * at.lanes : copy;
}

INLINE void close_row(const Placed<float>& to, int c, int h, const float* row, const float* copy) {
    const Layout& at = to.at;
    if (row != copy || !row_cells(at, to.data, c, h, 0)) return;
    for (int w = 0; w < at.width; w++) {
        const int padded = w + at.pad_w, cell = padded / at.stride_w;
        if (cell >= at.cells_w) break;
        float* pixel = row_cells(at, to.data, c, h, padded % at.stride_w) + static_cast<ptrdiff_t>(cell) * at.lanes;
        copy_pixel(pixel, row + static_cast<ptrdiff_t>(w) * at.batch, at.batch);
        if (at.lanes > at.batch) memset(pixel + at.batch, 0, sizeof(float) * (at.lanes - at.batch));
    }
}

// Zero everything in a channel that holds no pixel; buffers are reused with other shapes.
INLINE void clear_padding(const Placed<float>& to, int c) {
    const Layout& at = to.at;
    float* channel = to.data + c * at.channel();
    if (at.stride_h > 1 || at.stride_w > 1) {
        memset(channel, 0, sizeof(float) * at.channel());
        return;
    }
    const int bottom = most(0, at.cells_h - at.pad_h - at.height), right = most(0, at.cells_w - at.pad_w - at.width);
    const ptrdiff_t beside = static_cast<ptrdiff_t>(at.pad_w + right) * at.lanes;
    // What is right of a row and left of the next one lies in one piece, and so with what is above and below.
    float* first = channel + at.pad_h * at.row();
    memset(channel, 0, sizeof(float) * (first - channel + static_cast<ptrdiff_t>(at.pad_w) * at.lanes));
    const int rows = at.cells_h - bottom - at.pad_h;
    for (int h = 1; h < rows && beside; h++) memset(first + h * at.row() - right * at.lanes, 0, sizeof(float) * beside);
    float* last = first + rows * at.row() - right * at.lanes;
    memset(last, 0, sizeof(float) * (channel + at.plane() - last));
}

static void clear(const Placed<float>& to, int threads) {
    run_tasks(to.at.channels, threads, [&](int c) { clear_padding(to, c); });
}

// Transpose rows x columns floats; `to` has `rows` floats in each of its rows.
INLINE void transpose_four(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row) {
    const Vec4 a = load4(from), b = load4(from + from_row), c = load4(from + 2 * from_row),
               d = load4(from + 3 * from_row);
    const Vec4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Vec4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store4(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store4(to + to_row, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store4(to + 2 * to_row, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store4(to + 3 * to_row, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

static void transpose_block(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, int rows, int columns) {
    int j = 0;
    for (; j + 4 <= columns; j += 4) {
        int i = 0;
        for (; i + 4 <= rows; i += 4) transpose_four(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
        for (; i < rows; i++)
            for (int k = 0; k < 4; k++) to[(j + k) * to_row + i] = from[i * from_row + j + k];
    }
    for (; j < columns; j++)
        for (int i = 0; i < rows; i++) to[j * to_row + i] = from[i * from_row + j];
}

static void transpose(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, int rows, int columns,
                      int threads) {
    constexpr int STRIP = 64;
    const bool along = columns >= rows;
    run_tasks(((along ? columns : rows) + STRIP - 1) / STRIP, threads, [&](int task) {
        const int first = task * STRIP;
        if (along)
            transpose_block(from + first, from_row, to + first * to_row, to_row, rows, least(STRIP, columns - first));
        else
            transpose_block(from + first * from_row, from_row, to + first, to_row, least(STRIP, rows - first), columns);
    });
}

// A row of scratch that a task may use for copies. A thread keeps its rows for the next task: few are in use at once.
struct RowCopy {
    static constexpr int MOST = 8;
    float* data;
    explicit RowCopy(const Layout& at) {
        std::vector<float>& row = rows[used++];
        const size_t size = static_cast<size_t>(at.width + 1) * at.batch;
        if (row.size() < size) row.resize(size);
        data = row.data();
    }
    RowCopy(const RowCopy&) = delete;
    ~RowCopy() { used--; }

  private:
    static thread_local std::vector<float> rows[MOST];
    static thread_local int used;
};
thread_local std::vector<float> RowCopy::rows[RowCopy::MOST];
thread_local int RowCopy::used = 0;

// From torch's contiguous (batch, channels, height, width).
static void from_torch(const float* x, const Placed<float>& to, int threads) {
    const Layout& at = to.at;
    const ptrdiff_t plane = static_cast<ptrdiff_t>(at.height) * at.width;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy copy(at);
        clear_padding(to, c);
        for (int h = 0; h < at.height; h++) {
            float* row = open_row(to, c, h, copy.data);
            transpose_block(x + c * plane + static_cast<ptrdiff_t>(h) * at.width, at.channels * plane, row, at.batch,
                            at.batch, at.width);
            close_row(to, c, h, row, copy.data);
        }
    });
}

// To torch's contiguous (batch, channels, height, width).
static void to_torch(const Placed<const float>& from, float* x, int threads) {
    const Layout& at = from.at;
    const ptrdiff_t plane = static_cast<ptrdiff_t>(at.height) * at.width;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy copy(at);
        for (int h = 0; h < at.height; h++)
            transpose_block(read_row(from, c, h, copy.data), at.batch,
                            x + c * plane + static_cast<ptrdiff_t>(h) * at.width, at.channels * plane, at.width,
                            at.batch);
    });
}

// From one layout to another; with `active`, the output of the ReLU before `from`, its gradient.
static void move_rows(const Placed<const float>& from, const Placed<const float>* active, const Placed<float>& to,
                      int threads) {
    const Layout& at = to.at;
    const ptrdiff_t length = static_cast<ptrdiff_t>(at.width) * at.batch;
    run_tasks(at.channels, threads, [&](int c) {
        RowCopy in(at), out(at), gate(at);
        clear_padding(to, c);
        for (int h = 0; h < at.height; h++) {
            const float* x = read_row(from, c, h, in.data);
            float* __restrict y = open_row(to, c, h, out.data);
            if (active) {
                const float* a = read_row(*active, c, h, gate.data);
                for (ptrdiff_t i = 0; i < length; i++) y[i] = a[i] <= 0.f ? 0.f : x[i];
            } else {
                memcpy(y, x, sizeof(float) * length);
            }
            close_row(to, c, h, y, out.data);
        }
    });
}

// dy ← dy where the ReLU's output is positive, 0 elsewhere.
static void relu_backward(const float* __restrict active, float* __restrict dy, ptrdiff_t size, int threads) {
    const int tasks = threads > 1 && size > 65536 ? threads : 1;
    run_tasks(tasks, threads, [&](int task) {
        const ptrdiff_t first = size * task / tasks, last = size * (task + 1) / tasks;
        for (ptrdiff_t i = first; i < last; i++) dy[i] = active[i] <= 0.f ? 0.f : dy[i];
    });
}

// db[c] = the sum of plane c.
constexpr int SUMS = REGISTERS == 32 ? 4 : 1;  // at a time: an addition takes longer than a load
static void bias_gradient(const Planes<const float>& dy, int channels, float* db, int threads) {
    run_tasks(threads > 1 ? channels : 1, threads, [&](int task) {
        const Range range = threads > 1 ? Range{task, task + 1} : Range{0, channels};
        for (int c = range.first; c < range.last; c++) {
            Vec sum[SUMS] = {};
            for (int h = 0; h < dy.height; h++) {
                const float* row = dy.data + c * dy.plane + h * dy.row;
                int i = 0;
                for (; i + SUMS * LANES <= dy.length; i += SUMS * LANES)
                    UNROLL for (int s = 0; s < SUMS; s++) sum[s] += load(row + i + s * LANES);
                for (; i + LANES <= dy.length; i += LANES) sum[0] += load(row + i);
                if (i < dy.length) sum[0] += load_first(row + i, dy.length - i);
            }
            for (int s = 1; s < SUMS; s++) sum[0] += sum[s];
            db[c] = sum_of(sum[0]);
        }
    });
}
