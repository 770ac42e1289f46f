// A linear layer in a program, with the ReLU that follows it.
#include <algorithm>

#include "dense_layers.hpp"
#include "steps.hpp"

namespace prunefl {

namespace {

class LinearStep : public Step {
  public:
    LinearStep(const Operation& op, int index, const Program& program, Parameters& parameters)
        : Step(op, index),
          weight_(parameters[op.tensors[0]]),
          bias_(op.tensors[1] < 0 ? nullptr : &parameters[op.tensors[1]]),
          pattern_(*weight_.linear),
          relu_(op.sizes[0]),
          in_(program.whole_vectors(op.inputs[0])),
          out_(program.whole_vectors(op.output)) {
        if (weight_.dense()) offset_ = linear_offsets(pattern_.inputs(), in_.lanes);
    }

    std::optional<Layout> wants(const Program&, int) const override { return in_; }
    Layout prefers(const Program&) const override { return out_; }
    std::optional<Layout> wants_gradient(const Program&) const override { return out_; }
    Layout gives(const Program&, int) const override { return in_; }

    void reserve(Program& program) override {
        Memory& memory = program.memory();
        if (!same_layout(program.output_layout(*this), out_)) y_ = memory.reserve(out_.size(), index);
        if (!program.pass().training) return;
        const int back = program.time_back(index);
        program.keep_input(*this, 0);
        if (relu_ && y_ < 0) program.keep_output(*this);
        if (relu_ && y_ >= 0) memory.keep(y_, back);
        features_ = memory.reserve(static_cast<ptrdiff_t>(in_.batch) * pattern_.inputs(), back);
        outlet_ = program.outlet(*this, 0, in_, [&](const Layout& at) { return same_layout(at, in_); });
    }

    void forward(Program& program) override {
        const Placed<float> to = program.output(*this);
        float* y = y_ < 0 ? to.data : program.data(y_);
        const float *x = program.input(*this, 0).data, *bias = bias_ ? bias_->value.data() : nullptr;
        if (weight_.dense())
            kernels().dense_forward(matrix(), x, in_.lanes, {y, out_.lanes, out_.lanes, 1, out_.lanes}, bias, relu_,
                                    program.threads());
        else
            kernels().linear_forward(pattern_.with(weight_.value.data()), x, in_.lanes, y, out_.lanes, out_.batch, bias,
                                     relu_, program.threads());
        if (y_ >= 0) kernels().move_rows({out_, y}, nullptr, to, program.threads());
    }

    void backward(Program& program) override {
        const int threads = program.threads();
        float* dy = program.gradient_to_change(*this).data;
        if (relu_)
            kernels().relu_backward(y_ < 0 ? program.output(*this).data : program.data(y_), dy, out_.size(), threads);
        if (bias_)
            kernels().bias_gradient({dy, out_.lanes, out_.lanes, 1, out_.lanes}, pattern_.outputs(),
                                    bias_->gradient.data(), threads);
        const bool onward = program.has_gradient(op.inputs[0]);
        float* dx = onward ? program.open(outlet_).data : nullptr;
        const float* x = program.input(*this, 0).data;
        if (weight_.dense()) {
            backward_densely(program, x, dy, dx);
        } else {
            kernels().linear_backward(pattern_.with(weight_.value.data()), x, dx, in_.lanes, dy, out_.lanes, in_.batch,
                                      weight_.gradient.data(), threads);
            if (weight_.total.sum) add_full_gradient(program, x, dy);
        }
        if (onward) program.close(outlet_);
    }

  private:
    DenseWeights matrix() const {
        return {pattern_.outputs(), pattern_.inputs(), DENSE_BLOCK, offset_.data(), weight_.value.data()};
    }

    void backward_densely(Program& program, const float* x, const float* dy, float* dx) {
        const int threads = program.threads(), inputs = pattern_.inputs();
        if (dx) kernels().dense_linear_backward(matrix(), dy, out_.lanes, dx, in_.lanes, in_.batch, threads);
        float* rows = program.data(features_);
        kernels().transpose(x, in_.lanes, rows, inputs, inputs, in_.batch, threads);
        kernels().dense_linear_gradient(rows, inputs, dy, out_.lanes, pattern_.outputs(), in_.batch,
                                        weight_.gradient.data(), threads);
    }

    // It wants the input with the features innermost.
    void add_full_gradient(Program& program, const float* x, const float* dy) {
        float* rows = program.data(features_);
        kernels().transpose(x, in_.lanes, rows, pattern_.inputs(), pattern_.inputs(), in_.batch, program.threads());
        kernels().linear_full_gradient(rows, pattern_.inputs(), pattern_.inputs(), dy, out_.lanes, pattern_.outputs(),
                                       in_.batch, weight_.total, program.threads());
    }

    Parameter& weight_;
    Parameter* bias_;
    const LinearPattern& pattern_;
    const bool relu_;
    const Layout in_, out_;
    std::vector<int32_t> offset_;
    int y_ = -1, features_ = -1;
    Outlet outlet_;
};

}  // namespace

std::unique_ptr<Step> make_linear(const Operation& op, int index, const Program& program, Parameters& parameters) {
    return std::make_unique<LinearStep>(op, index, program, parameters);
}

}  // namespace prunefl
