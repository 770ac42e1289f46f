// A convolution in a program, with the ReLU and the max-pooling that follow it.
#include <algorithm>

#include "dense_layers.hpp"
#include "steps.hpp"

namespace prunefl {

namespace {

enum ConvSizes {
    GROUPS,
    KERNEL_H,
    KERNEL_W,
    STRIDE_H,
    STRIDE_W,
    DILATION_H,
    DILATION_W,
    TOP,
    BOTTOM,
    LEFT,
    RIGHT,
    RELU,
    POOL
};

class ConvStep : public Step {
  public:
    ConvStep(const Operation& op, int index, const Program& program, Parameters& parameters)
        : Step(op, index),
          weight_(parameters[op.tensors[0]]),
          bias_(op.tensors[1] < 0 ? nullptr : &parameters[op.tensors[1]]),
          pattern_(*weight_.conv),
          relu_(op.sizes[RELU]) {
        const Shape& in = program.shape(op.inputs[0]);
        geometry_ = pattern_.geometry(in.height, in.width, program.pass().batch);
        if (op.sizes.size() > POOL) pool_ = pool_shape(op.sizes, POOL);
        made_ = program.plain(op.output);
        made_.height = made_.cells_h = geometry_->out_height, made_.width = made_.cells_w = geometry_->out_width;
        back_ = geometry_->output;
        if (!program.has_gradient(op.inputs[0])) {
            back_.pad_h = back_.pad_w = 0;
            back_.cells_h = back_.height, back_.cells_w = back_.width;
        } else if (weight_.dense()) {
            dense_back_.emplace(pattern_.shape(), *geometry_);
        }
    }

    std::optional<Layout> wants(const Program&, int) const override { return geometry_->input; }
    std::optional<Layout> wants_gradient(const Program&) const override {
        return relu_ || pool_ ? std::nullopt : std::optional<Layout>(back_);
    }
    Layout gives(const Program& program, int) const override {
        const Layout& at = geometry_->input_gradient;
        return at.stride_h == 1 && at.stride_w == 1 ? program.plain(op.inputs[0]) : at;
    }

    void reserve(Program& program) override {
        Memory& memory = program.memory();
        const bool training = program.pass().training;
        const int back = program.time_back(index);
        writes_home_ = !pool_ && program.output_layout(*this).whole_rows();
        if (!writes_home_) y_ = memory.reserve(made_.size(), index);
        if (pool_) {
            // one byte a winner
            winners_ = memory.reserve((program.plain(op.output).size() + 3) / 4, index);
            if (training) memory.keep(winners_, back);
        }
        if (!training) return;
        program.keep_input(*this, 0);
        if (relu_ && !pool_) program.keep_output(*this);
        moves_back_ = relu_ || pool_ || !same_layout(program.gradient_layout(*this), back_);
        if (moves_back_) gated_ = memory.reserve(back_.size(), back);
        rows_each_ = rows_of_full_gradient();
        if (!weight_.dense())
            scratch_ = memory.reserve(
                static_cast<ptrdiff_t>(program.threads()) * rows_each_ * pattern_.shape().per_row(), back);
        if (!program.has_gradient(op.inputs[0])) return;
        reordered_ = memory.reserve(dense_back_ ? dense_back_->num_weights() : pattern_.size(), back);
        const Layout left = gives(program, 0);
        outlet_ = program.outlet(*this, 0, left, [&](const Layout& at) {
            return same_layout(at, left) || (left.whole_rows() && at.whole_rows());
        });
    }

    void forward(Program& program) override {
        const Placed<float> to = program.output(*this);
        if (writes_home_) {
            kernels().clear(to, program.threads());
            return compute(program, to.data + to.at.origin(), to.at, relu_);
        }
        compute(program, program.data(y_), made_, relu_ && !pool_);
        const int length = made_.width * made_.batch;
        if (pool_)
            kernels().pool_forward({program.data(y_), made_.plane(), made_.row(), made_.height, length}, *pool_, relu_,
                                   to, reinterpret_cast<uint8_t*>(program.data(winners_)), program.threads());
        else kernels().move_rows({made_, program.data(y_)}, nullptr, to, program.threads());
    }

    void backward(Program& program) override {
        const int threads = program.threads();
        const float* padded = padded_gradient(program);
        const int length = back_.width * back_.batch;
        const bool flat = geometry_->flat && back_.row() == length;
        const Planes<const float> dy{padded + back_.origin(), back_.plane(), back_.row(), flat ? 1 : back_.height,
                                     flat ? length * back_.height : length};
        if (bias_) kernels().bias_gradient(dy, back_.channels, bias_->gradient.data(), threads);
        weight_gradient(program, dy);
        if (reordered_ >= 0) input_gradient(program, padded);
    }

  private:
    DenseWeights matrix() const {
        const ConvShape& shape = pattern_.shape();
        return {shape.out_channels, shape.per_row(), DENSE_BLOCK, geometry_->all_offset.data(), weight_.value.data()};
    }

    void weight_gradient(Program& program, const Planes<const float>& dy) {
        const int threads = program.threads();
        const Placed<const float> x = program.input(*this, 0);
        const ConvShape& shape = pattern_.shape();
        if (weight_.dense())
            return kernels().dense_conv_gradient(matrix(), x.data, x.at.row(), dy, weight_.gradient.data(), threads);
        kernels().conv_weight_gradient(pattern_.forward(*geometry_, nullptr), x.data, x.at.row(), dy,
                                       weight_.gradient.data(), threads);
        if (weight_.total.sum)
            kernels().conv_full_gradient(
                {shape.out_channels, shape.groups, shape.per_row(), geometry_->all_block, geometry_->all_offset.data()},
                x.data, x.at.row(), dy, weight_.total, program.data(scratch_), rows_each_, threads);
    }

    int rows_of_full_gradient() const {
        constexpr int CACHED = 49152;  // floats of gradient that a thread works on
        return std::clamp(CACHED / pattern_.shape().per_row(), 1, std::max(1, pattern_.shape().out_channels / 2));
    }

    void compute(Program& program, float* y, const Layout& at, bool relu) {
        const ConvGeometry& g = *geometry_;
        const Placed<const float> x = program.input(*this, 0);
        const int length = g.out_width * g.batch;
        // Without padding on either side a 1x1 convolution sees one long row.
        const bool flat = g.flat && at.row() == length;
        const Planes<float> planes{y, at.plane(), at.row(), flat ? 1 : g.out_height,
                                   flat ? length * g.out_height : length};
        const float* bias = bias_ ? bias_->value.data() : nullptr;
        if (weight_.dense())
            return kernels().dense_forward(matrix(), x.data, x.at.row(), planes, bias, relu, program.threads());
        kernels().conv_forward(pattern_.forward(g, weight_.value.data()), x.data, x.at.row(), planes, bias, relu,
                               program.threads());
    }

    // The gradient before ReLU and pooling, padded as the input gradient reads it.
    const float* padded_gradient(Program& program) {
        const Placed<const float> dy = program.gradient(*this);
        if (!moves_back_) return dy.data;
        const Placed<float> to{back_, program.data(gated_)};
        if (pool_) {
            kernels().pool_backward(dy, reinterpret_cast<const uint8_t*>(program.data(winners_)), *pool_, to,
                                    program.threads());
        } else {
            const Placed<float> y = program.output(*this);
            const Placed<const float> active{y.at, y.data};
            kernels().move_rows(dy, relu_ ? &active : nullptr, to, program.threads());
        }
        return to.data;
    }

    void input_gradient(Program& program, const float* padded) {
        float* values = program.data(reordered_);
        const Placed<float> to = program.open(outlet_);
        const Layout& made = geometry_->input_gradient;
        const bool phases = made.stride_h > 1 || made.stride_w > 1;
        const Layout& at = phases ? made : to.at;
        float* data = phases ? to.data : to.data + at.origin();
        if (!phases && !is_plain(at)) kernels().clear(to, program.threads());
        if (dense_back_) {
            dense_back_->run(weight_.value.data(), values, padded, back_.row(), data, at, phases, program.threads());
            return program.close(outlet_);
        }
        kernels().gather(values, weight_.value.data(), pattern_.backward_order().data(), pattern_.size(),
                         program.threads());
        const int length = made.cells_w * made.batch;
        const bool flat = geometry_->flat && at.row() == length && back_.row() == back_.width * back_.batch;
        kernels().conv_forward(
            pattern_.backward(*geometry_, values), padded, back_.row(),
            {data, at.plane(), at.row(), flat ? 1 : made.cells_h, flat ? length * made.cells_h : length}, nullptr,
            false, program.threads());
        program.close(outlet_);
    }

    Parameter& weight_;
    Parameter* bias_;
    const ConvPattern& pattern_;
    const bool relu_;
    std::optional<PoolShape> pool_;
    std::shared_ptr<const ConvGeometry> geometry_;
    std::optional<DenseBackward> dense_back_;
    Layout made_, back_;
    bool writes_home_ = false, moves_back_ = false;
    int y_ = -1, winners_ = -1, gated_ = -1, scratch_ = -1, reordered_ = -1, rows_each_ = 1;
    Outlet outlet_;
};

}  // namespace

ConvShape conv_shape(const Operation& op, const Plan& plan) {
    const auto& n = op.sizes;
    ConvShape s{};
    const Shape& in = plan.values[op.inputs[0]];
    s.in_channels = in.channels, s.height = in.height, s.width = in.width, s.groups = n[GROUPS];
    s.kernel_h = n[KERNEL_H], s.kernel_w = n[KERNEL_W], s.stride_h = n[STRIDE_H], s.stride_w = n[STRIDE_W];
    s.dilation_h = n[DILATION_H], s.dilation_w = n[DILATION_W];
    s.pad_top = n[TOP], s.pad_bottom = n[BOTTOM], s.pad_left = n[LEFT], s.pad_right = n[RIGHT];
    s.out_channels = plan.values[op.output].channels;
    return s;
}

std::unique_ptr<Step> make_conv(const Operation& op, int index, const Program& program, Parameters& parameters) {
    return std::make_unique<ConvStep>(op, index, program, parameters);
}

}  // namespace prunefl
