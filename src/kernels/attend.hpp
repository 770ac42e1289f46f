// Softmax attention, samples innermost: what is a matrix of numbers elsewhere is one of rows of `batch` floats here.
// Included by every path's file.

// Rows of a matrix: row (i, j) is at data + i * down + j * along.
template <class Float>
struct Rows {
    Float* data;
    ptrdiff_t down, along;
};

// Some lanes of c(i..i+ROWS, j..j+COLUMNS) = scale Σ_k a(i, k) b(k, j).
template <int ROWS, int COLUMNS, bool WHOLE>
INLINE void multiply_tile(const Rows<const float>& a, const Rows<const float>& b, const Rows<float>& c, int depth,
                          float scale, int lanes) {
    Vec sum[ROWS][COLUMNS] = {};
    for (int k = 0; k < depth; k++) {
        Vec left[ROWS];
        UNROLL for (int i = 0; i < ROWS; i++) {
            const float* p = a.data + i * a.down + k * a.along;
            left[i] = WHOLE ? load(p) : load_first(p, lanes);
        }
        UNROLL for (int j = 0; j < COLUMNS; j++) {
            const float* p = b.data + k * b.down + j * b.along;
            const Vec right = WHOLE ? load(p) : load_first(p, lanes);
            UNROLL for (int i = 0; i < ROWS; i++) sum[i][j] += left[i] * right;
        }
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) store_first(c.data + i * c.down + j * c.along, scale * sum[i][j], lanes);
}

template <bool WHOLE>
KERNEL void multiply_lanes(Rows<const float> a, Rows<const float> b, Rows<float> c, int rows, int columns, int depth,
                           float scale, int lanes) {
    constexpr int TALL = 2, LONG = 4;
    for (int i = 0; i < rows; i += TALL)
        for (int j = 0; j < columns; j += LONG) {
            const Rows<const float> left{a.data + i * a.down, a.down, a.along},
                right{b.data + j * b.along, b.down, b.along};
            const Rows<float> to{c.data + i * c.down + j * c.along, c.down, c.along};
            if (i + TALL <= rows && j + LONG <= columns) {
                multiply_tile<TALL, LONG, WHOLE>(left, right, to, depth, scale, lanes);
                continue;
            }
            for (int y = 0; y < least(TALL, rows - i); y++)
                for (int x = 0; x < least(LONG, columns - j); x++)
                    multiply_tile<1, 1, WHOLE>(
                        {left.data + y * a.down, a.down, a.along}, {right.data + x * b.along, b.down, b.along},
                        {to.data + y * c.down + x * c.along, c.down, c.along}, depth, scale, lanes);
        }
}

// c(i, j) = scale Σ_k a(i, k) b(k, j), for each sample by itself.
static void multiply_rows(Rows<const float> a, Rows<const float> b, Rows<float> c, int rows, int columns, int depth,
                          float scale, int batch) {
    for (int n = 0; n < batch; n += LANES) {
        const int lanes = least(LANES, batch - n);
        (lanes == LANES ? multiply_lanes<true> : multiply_lanes<false>)(a, b, c, rows, columns, depth, scale, lanes);
        a.data += LANES, b.data += LANES, c.data += LANES;
    }
}

// p: scores of one query with `tokens` keys, of which the first `seen` count; becomes their softmax.
static void softmax_rows(float* p, int tokens, int seen, int batch, float* most_, float* sum) {
    for (int n = 0; n < batch; n++) most_[n] = p[n], sum[n] = 0.f;
    for (int s = 1; s < seen; s++)
        for (int n = 0; n < batch; n++) most_[n] = p[s * batch + n] <= most_[n] ? most_[n] : p[s * batch + n];
    for (int s = 0; s < seen; s++)
        for (int n = 0; n < batch; n++) {
            p[s * batch + n] = exp_of(p[s * batch + n] - most_[n]);
            sum[n] += p[s * batch + n];
        }
    for (int s = 0; s < seen; s++)
        for (int n = 0; n < batch; n++) p[s * batch + n] /= sum[n];
    memset(p + static_cast<ptrdiff_t>(seen) * batch, 0, sizeof(float) * (tokens - seen) * batch);
}

// Where queries, keys and values of a head begin; channels are `channel` floats apart.
template <class Float>
struct Heads {
    Float *query, *key, *value;
    Heads(const Attention& at, Float* x, int head)
        : query(x + head * at.head_width() * at.channel()),
          key(query + at.width * at.channel()),
          value(key + at.width * at.channel()) {}
};

static void attend_forward(const Attention& at, const float* x, float* p, float* y, float* scratch, int threads) {
    const ptrdiff_t channel = at.channel(), batch = at.batch;
    run_tasks(at.heads, threads, [&](int head) {
        const Heads<const float> of(at, x, head);
        float *mine = p + head * at.tokens * channel, *lines = scratch + 2 * omp_get_thread_num() * batch;
        multiply_rows({of.query, batch, channel}, {of.key, channel, batch}, {mine, channel, batch}, at.tokens,
                      at.tokens, at.head_width(), at.scale(), at.batch);
        for (int t = 0; t < at.tokens; t++)
            softmax_rows(mine + t * channel, at.tokens, at.causal ? t + 1 : at.tokens, at.batch, lines, lines + batch);
        multiply_rows({of.value, channel, batch}, {mine, batch, channel},
                      {y + head * at.head_width() * channel, channel, batch}, at.head_width(), at.tokens, at.tokens,
                      1.f, at.batch);
    });
}

// g: gradients of the probabilities of one query; become those of its scores.
static void softmax_backward(const float* p, float* g, int tokens, int batch, float* sum) {
    for (int n = 0; n < batch; n++) sum[n] = 0.f;
    for (int s = 0; s < tokens; s++)
        for (int n = 0; n < batch; n++) sum[n] += p[s * batch + n] * g[s * batch + n];
    for (int s = 0; s < tokens; s++)
        for (int n = 0; n < batch; n++) g[s * batch + n] = p[s * batch + n] * (g[s * batch + n] - sum[n]);
}

static void attend_backward(const Attention& at, const float* x, const float* p, const float* dy, float* dx,
                            float* scratch, int threads) {
    const ptrdiff_t channel = at.channel(), batch = at.batch;
    const int width = at.head_width(), tokens = at.tokens;
    run_tasks(at.heads, threads, [&](int head) {
        const Heads<const float> of(at, x, head);
        const Heads<float> to(at, dx, head);
        const float *mine = p + head * tokens * channel, *back = dy + head * width * channel;
        float *g = scratch + omp_get_thread_num() * (tokens * channel + batch), *line = g + tokens * channel;
        multiply_rows({back, batch, channel}, {of.value, channel, batch}, {g, channel, batch}, tokens, tokens, width,
                      1.f, at.batch);
        for (int t = 0; t < tokens; t++) softmax_backward(mine + t * channel, g + t * channel, tokens, at.batch, line);
        multiply_rows({of.key, channel, batch}, {g, batch, channel}, {to.query, channel, batch}, width, tokens, tokens,
                      at.scale(), at.batch);
        multiply_rows({of.query, channel, batch}, {g, channel, batch}, {to.key, channel, batch}, width, tokens, tokens,
                      at.scale(), at.batch);
        multiply_rows({back, channel, batch}, {mine, channel, batch}, {to.value, channel, batch}, width, tokens, tokens,
                      1.f, at.batch);
    });
}
