// The forward pass of a run of layers, and the layouts in which it keeps the activations.
#include <algorithm>
#include <stdexcept>

#include "chain.hpp"
#include "paths.hpp"

namespace prunefl {

namespace {

constexpr int INFERENCE_BATCH = 32;  // larger ones leave the cache

Layout plain_layout(int channels, int height, int width, int batch, int lanes) {
    Layout at;
    at.channels = channels, at.height = at.cells_h = height, at.width = at.cells_w = width;
    at.batch = batch, at.lanes = lanes;
    return at;
}

// A linear layer reads one row of whole vectors for each feature.
Layout linear_layout(int channels, int height, int width, int batch) {
    const int lanes = kernels().lanes;
    return plain_layout(channels, height, width, batch, (batch + lanes - 1) / lanes * lanes);
}

int pooled(int size, int kernel, int stride, int pad) { return (size + 2 * pad - kernel) / stride + 1; }

}  // namespace

Chain::Chain(std::vector<Stage> stages) : stages_(std::move(stages)) {
    if (stages_.empty()) throw std::invalid_argument("a chain needs a layer");
    for (size_t i = 1; i < stages_.size(); i++)
        if (stages_[i].conv && stages_[i - 1].linear) throw std::invalid_argument("a convolution after a linear layer");
}

Activation Chain::output_for(const Activation& given) const {
    Activation at = given;
    for (const Stage& stage : stages_) {
        if (stage.linear) {
            if (at.channels * at.height * at.width != stage.linear->inputs())
                throw std::invalid_argument("wrong number of features");
            at = {at.batch, stage.linear->outputs(), 1, 1, false};
        } else {
            const ConvShape& shape = stage.conv->shape();
            if (at.channels != shape.in_channels) throw std::invalid_argument("wrong number of channels");
            at = {at.batch, shape.out_channels, shape.out_height(at.height), shape.out_width(at.width), true};
        }
        if (stage.pool) {
            const PoolShape& p = *stage.pool;
            at.height = pooled(at.height, p.kernel_h, p.stride_h, p.pad_h);
            at.width = pooled(at.width, p.kernel_w, p.stride_w, p.pad_w);
        }
        if (at.height < 1 || at.width < 1) throw std::invalid_argument("the input is smaller than the kernel");
    }
    return at;
}

// Decide how every stage's input lies: as its reader needs it.
void Chain::plan(const Activation& given, Tape& tape) const {
    tape.given = given;
    tape.steps.resize(stages_.size());
    Activation at = given;
    for (size_t i = 0; i < stages_.size(); i++) {
        Tape::Step& step = tape.steps[i];
        const Stage& stage = stages_[i];
        if (stage.linear) {
            step.input = linear_layout(at.channels, at.height, at.width, at.batch);
            at = {at.batch, stage.linear->outputs(), 1, 1, false};
        } else {
            step.geometry = stage.conv->geometry(at.height, at.width, at.batch);
            step.input = step.geometry->input;
            at = {at.batch, stage.conv->shape().out_channels, step.geometry->out_height, step.geometry->out_width,
                  true};
        }
        if (stage.pool) {
            const PoolShape& p = *stage.pool;
            at.height = pooled(at.height, p.kernel_h, p.stride_h, p.pad_h);
            at.width = pooled(at.width, p.kernel_w, p.stride_w, p.pad_w);
        }
        if (i) tape.steps[i - 1].after = step.input;
    }
    tape.steps.back().after = stages_.back().linear
                                  ? linear_layout(at.channels, 1, 1, at.batch)
                                  : plain_layout(at.channels, at.height, at.width, at.batch, at.batch);
}

void Chain::read_input(const Tape& tape, const float* x, int threads) const {
    const Activation& given = tape.given;
    const Layout& at = tape.steps[0].input;
    const Placed<float> to{at, tape.steps[0].x.data()};
    if (given.ours) {
        const Layout from = plain_layout(at.channels, at.height, at.width, at.batch, at.batch);
        return kernels().move_rows({from, x}, nullptr, to, threads);
    }
    if (stages_[0].conv) return kernels().from_torch(x, to, threads);
    const int features = stages_[0].linear->inputs();
    kernels().transpose(x, features, to.data, at.lanes, at.batch, features, threads);
    for (int i = 0; i < features && at.lanes > at.batch; i++)
        std::fill(to.data + static_cast<ptrdiff_t>(i) * at.lanes + at.batch,
                  to.data + static_cast<ptrdiff_t>(i + 1) * at.lanes, 0.f);
}

// `to` is the next stage's input, or the caller's memory.
void Chain::run_conv(const Tape& tape, size_t i, const float* weights, const float* bias, float* to,
                     int threads) const {
    const Stage& stage = stages_[i];
    const Tape::Step& step = tape.steps[i];
    const ConvGeometry& g = *step.geometry;
    const ConvWeights w = stage.conv->forward(g, weights);
    const int length = g.out_width * g.batch;
    const auto compute = [&](float* y, ptrdiff_t plane, ptrdiff_t row, bool relu) {
        // Without padding on either side a 1x1 convolution sees one long row.
        const bool flat = g.flat && row == length;
        const Planes<float> planes{y, plane, row, flat ? 1 : g.out_height, flat ? length * g.out_height : length};
        kernels().conv_forward(w, step.x.data(), step.input.row(), planes, bias, relu, threads);
    };
    const Placed<float> after{step.after, to};
    if (!stage.pool && step.after.whole_rows()) {
        // Straight into the interior of what the next convolution reads.
        kernels().clear(after, threads);
        return compute(to + step.after.origin(), step.after.plane(), step.after.row(), stage.relu);
    }
    const Layout made = plain_layout(w.rows, g.out_height, g.out_width, g.batch, g.batch);
    const Buffer y(pool_, made.size());
    compute(y.data(), made.plane(), made.row(), stage.relu && !stage.pool);
    if (stage.pool)
        kernels().pool_forward({y.data(), made.plane(), made.row(), g.out_height, length}, *stage.pool, stage.relu,
                               after, step.index.bytes(), threads);
    else kernels().move_rows({made, y.data()}, nullptr, after, threads);
}

void Chain::run_linear(const Tape& tape, size_t i, const float* weights, const float* bias, float* to,
                       int threads) const {
    const Tape::Step& step = tape.steps[i];
    kernels().linear_forward(stages_[i].linear->with(weights), step.x.data(), step.input.lanes, to, step.after.lanes,
                             step.after.batch, bias, stages_[i].relu, threads);
}

std::shared_ptr<Tape> Chain::run(const Activation& given, const float* x, const std::vector<const float*>& weights,
                                 const std::vector<const float*>& biases, float* out, int threads, bool keep) const {
    auto tape = std::make_shared<Tape>();
    plan(given, *tape);
    auto& steps = tape->steps;
    steps[0].x = Buffer(pool_, steps[0].input.size());
    read_input(*tape, x, threads);
    for (size_t i = 0; i < stages_.size(); i++) {
        const bool last = i + 1 == stages_.size();
        Buffer rows;  // a last linear layer computes (features, batch), torch wants (batch, features)
        if (!last) steps[i + 1].x = Buffer(pool_, steps[i + 1].input.size());
        if (last && stages_[i].linear) rows = Buffer(pool_, steps[i].after.size());
        const Layout& after = steps[i].after;
        if (stages_[i].pool)
            steps[i].index = Buffer(
                pool_, static_cast<ptrdiff_t>(after.channels) * after.height * after.width * after.batch / 4 + 1);
        float* to = !last ? steps[i + 1].x.data() : rows.data() ? rows.data() : out;
        if (stages_[i].conv) run_conv(*tape, i, weights[i], biases[i], to, threads);
        else run_linear(*tape, i, weights[i], biases[i], to, threads);
        if (rows.data())
            kernels().transpose(rows.data(), after.lanes, out, after.channels, after.channels, after.batch, threads);
        if (!keep) steps[i].x = Buffer(), steps[i].index = Buffer();
    }
    return tape;
}

std::shared_ptr<Tape> Chain::forward(const Activation& given, const float* x, const std::vector<const float*>& weights,
                                     const std::vector<const float*>& biases, float* out, int threads) const {
    return run(given, x, weights, biases, out, threads, true);
}

void Chain::infer(const Activation& given, const float* x, const std::vector<const float*>& weights,
                  const std::vector<const float*>& biases, float* out, int threads) const {
    const bool divisible = !given.ours && stages_.back().linear;
    const int parts = divisible ? (given.batch + INFERENCE_BATCH - 1) / INFERENCE_BATCH : 1;
    const ptrdiff_t sample = static_cast<ptrdiff_t>(given.channels) * given.height * given.width;
    int first = 0;
    for (int i = 0; i < parts; i++) {
        Activation some = given;
        some.batch = given.batch * (i + 1) / parts - first;
        float* to = out + (divisible ? static_cast<ptrdiff_t>(first) * stages_.back().linear->outputs() : 0);
        run(some, x + first * sample, weights, biases, to, threads, false);
        first += some.batch;
    }
}

}  // namespace prunefl
