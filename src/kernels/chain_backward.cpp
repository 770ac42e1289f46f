// The backward pass of a run of layers: input gradients, weight gradients at live positions, and full ones on demand.
#include <algorithm>

#include "chain.hpp"
#include "paths.hpp"

namespace prunefl {

// The gradient of one stage's output on its way to the stage before.
struct Chain::Flow {
    Layout at;
    Buffer gradient;
    const float* given = nullptr;  // the caller's memory instead, at the last stage
    const float* data() const { return given ? given : gradient.data(); }
};

void Chain::start_back(const Tape& tape, const float* dout, bool ours, Flow& flow, int threads) const {
    flow.at = tape.steps.back().after;
    if (ours) {
        flow.given = dout;
        return;
    }
    flow.gradient = Buffer(pool_, flow.at.size());
    if (stages_.back().conv) return kernels().from_torch(dout, {flow.at, flow.gradient.data()}, threads);
    // The kernels rely on zeros beyond the batch.
    std::fill(flow.gradient.data(), flow.gradient.data() + flow.at.size(), 0.f);
    kernels().transpose(dout, flow.at.channels, flow.gradient.data(), flow.at.lanes, flow.at.batch, flow.at.channels,
                        threads);
}

namespace {

// A linear layer's full gradient wants its input with the features innermost.
void add_full_gradient(const std::shared_ptr<Pool>& pool, const Tape::Step& step, const LinearPattern& pattern,
                       const float* dy, ptrdiff_t dy_stride, Total total, int threads) {
    const Layout& at = step.input;
    const Buffer x(pool, static_cast<ptrdiff_t>(at.batch) * pattern.inputs());
    kernels().transpose(step.x.data(), at.lanes, x.data(), pattern.inputs(), pattern.inputs(), at.batch, threads);
    kernels().linear_full_gradient(x.data(), pattern.inputs(), pattern.inputs(), dy, dy_stride, pattern.outputs(),
                                   at.batch, total, threads);
}

void add_full_gradient(const std::shared_ptr<Pool>& pool, const Tape::Step& step, const ConvPattern& pattern,
                       const Planes<const float>& dy, Total total, int threads) {
    const ConvShape& shape = pattern.shape();
    const ConvGeometry& g = *step.geometry;
    constexpr int CACHED = 49152;  // floats of gradient that a thread works on
    const int rows_each = std::clamp(CACHED / shape.per_row(), 1, std::max(1, shape.out_channels / threads));
    const Buffer scratch(pool, static_cast<ptrdiff_t>(threads) * rows_each * shape.per_row());
    kernels().conv_full_gradient({shape.out_channels, shape.groups, shape.per_row(), g.all_block, g.all_offset.data()},
                                 step.x.data(), step.input.row(), dy, total, scratch.data(), rows_each, threads);
}

}  // namespace

void Chain::linear_back(const Tape& tape, size_t i, const float* weights, const float* after,
                        const Gradients& gradients, Flow& flow, int threads) const {
    const Tape::Step& step = tape.steps[i];
    const LinearPattern& pattern = *stages_[i].linear;
    if (stages_[i].relu) kernels().relu_backward(after, flow.gradient.data(), flow.at.size(), threads);
    const float* dy = flow.data();
    if (gradients.biases[i])
        kernels().bias_gradient({dy, flow.at.lanes, flow.at.lanes, 1, flow.at.lanes}, pattern.outputs(),
                                gradients.biases[i], threads);
    Flow next;
    if (i || gradients.input) next = {step.input, Buffer(pool_, step.input.size())};
    kernels().linear_backward(pattern.with(weights), step.x.data(), next.gradient.data(), step.input.lanes, dy,
                              flow.at.lanes, step.input.batch, gradients.weights[i], threads);
    if (gradients.totals[i].sum)
        add_full_gradient(pool_, step, pattern, dy, flow.at.lanes, gradients.totals[i], threads);
    flow = std::move(next);
}

void Chain::conv_back(const Tape& tape, size_t i, const float* weights, const float* after, const Gradients& gradients,
                      Flow& flow, int threads) const {
    const Stage& stage = stages_[i];
    const Tape::Step& step = tape.steps[i];
    const ConvGeometry& g = *step.geometry;
    const ConvPattern& pattern = *stage.conv;
    const Placed<const float> from{flow.at, flow.data()}, active{step.after, after};
    const bool onward = i || gradients.input;
    Layout at = g.output;
    if (!onward) at.pad_h = at.pad_w = 0, at.cells_h = at.height, at.cells_w = at.width;
    const Buffer padded(pool_, at.size());
    if (stage.pool) kernels().pool_backward(from, step.index.bytes(), *stage.pool, {at, padded.data()}, threads);
    else kernels().move_rows(from, stage.relu ? &active : nullptr, {at, padded.data()}, threads);

    const bool flat = g.flat && at.row() == static_cast<ptrdiff_t>(at.width) * at.batch;
    const int length = at.width * at.batch;
    const Planes<const float> dy{padded.data() + at.origin(), at.plane(), at.row(), flat ? 1 : at.height,
                                 flat ? length * at.height : length};
    if (gradients.biases[i]) kernels().bias_gradient(dy, at.channels, gradients.biases[i], threads);
    if (gradients.weights[i])
        kernels().conv_weight_gradient(pattern.forward(g, nullptr), step.x.data(), step.input.row(), dy,
                                       gradients.weights[i], threads);
    if (gradients.totals[i].sum) add_full_gradient(pool_, step, pattern, dy, gradients.totals[i], threads);
    flow = Flow{};
    if (!onward) return;
    const Layout& to = g.input_gradient;
    flow = {to, Buffer(pool_, to.size())};
    const Buffer reordered(pool_, pattern.size());
    kernels().gather(reordered.data(), weights, pattern.backward_order().data(), pattern.size(), threads);
    const int to_length = to.cells_w * to.batch;
    kernels().conv_forward(
        pattern.backward(g, reordered.data()), padded.data(), at.row(),
        {flow.gradient.data(), to.plane(), to.row(), flat ? 1 : to.cells_h, flat ? to_length * to.cells_h : to_length},
        nullptr, false, threads);
}

void Chain::write_input_gradient(const Tape& tape, const Flow& flow, float* dx, int threads) const {
    const Activation& given = tape.given;
    if (given.ours) {
        Layout at = flow.at;
        at.lanes = at.batch, at.stride_h = at.stride_w = 1, at.pad_h = at.pad_w = 0;
        at.cells_h = at.height, at.cells_w = at.width;
        std::fill(at.first_h, at.first_h + MOST_STRIDE, 0);
        std::fill(at.first_w, at.first_w + MOST_STRIDE, 0);
        return kernels().move_rows({flow.at, flow.data()}, nullptr, {at, dx}, threads);
    }
    if (stages_[0].conv) return kernels().to_torch({flow.at, flow.data()}, dx, threads);
    const int features = stages_[0].linear->inputs();
    kernels().transpose(flow.data(), flow.at.lanes, dx, features, features, given.batch, threads);
}

void Chain::backward(const Tape& tape, const std::vector<const float*>& weights, const float* out, const float* dout,
                     bool dout_ours, const Gradients& gradients, int threads) const {
    Flow flow;
    start_back(tape, dout, dout_ours, flow, threads);
    const size_t last = stages_.size() - 1;
    Buffer rows;
    if (stages_[last].linear && stages_[last].relu) {
        // The caller holds the output as (batch, features); ReLU's gradient reads it beside ours.
        const Layout& at = tape.steps[last].after;
        rows = Buffer(pool_, at.size());
        std::fill(rows.data(), rows.data() + at.size(), 0.f);
        kernels().transpose(out, at.channels, rows.data(), at.lanes, at.batch, at.channels, threads);
        out = rows.data();
    }
    for (size_t i = last + 1; i-- > 0;) {
        const float* after = i == last ? out : tape.steps[i + 1].x.data();
        if (stages_[i].conv) conv_back(tape, i, weights[i], after, gradients, flow, threads);
        else linear_back(tape, i, weights[i], after, gradients, flow, threads);
    }
    if (gradients.input) write_input_gradient(tape, flow, gradients.input, threads);
}

}  // namespace prunefl
