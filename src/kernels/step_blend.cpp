// Normalisation, addition and activation in a program: y = act(norm(x) + r), each part of it optional.
#include <stdexcept>

#include "steps.hpp"

namespace prunefl {

namespace {

class BlendStep : public Step {
  public:
    BlendStep(const Operation& op, int index, const Program& program, Parameters& parameters)
        : Step(op, index), act_(static_cast<Act>(op.sizes[0])), has_residual_(op.inputs.size() > 1) {
        for (const int tensor : op.tensors) norm_of_.push_back(&parameters[tensor]);
        const Shape& shape = program.shape(op.output);
        if (normalises() && program.pass().training && program.pass().batch * shape.height * shape.width < 2)
            throw std::invalid_argument("BatchNorm needs more than one value a channel to train");
    }

    void reserve(Program& program) override {
        Memory& memory = program.memory();
        const Shape& shape = program.shape(op.output);
        const ptrdiff_t row = static_cast<ptrdiff_t>(shape.width) * program.pass().batch;
        const ptrdiff_t scratch = program.threads() * (shape.height + COPIED_ROWS) * row;
        scratch_ = memory.reserve(scratch, index);
        if (normalises()) moments_ = memory.reserve(2 * shape.channels, index);
        if (!program.pass().training) return;
        const int back = program.time_back(index);
        scratch_back_ = memory.reserve(scratch, back);
        if (normalises()) memory.keep(moments_, back);
        const bool gated = act_ == Act::relu || act_ == Act::relu6;
        if (gated) program.keep_output(*this);
        if (keeps_input()) program.keep_input(*this, 0);
        if (has_residual_ && !gated && act_ != Act::none) program.keep_input(*this, 1);
        program.keep_gifts(*this);
    }

    void forward(Program& program) override {
        const Placed<const float> r = has_residual_ ? program.input(*this, 1) : Placed<const float>{};
        const Norm norm = this->norm(program);
        kernels().blend_forward(program.input(*this, 0), has_residual_ ? &r : nullptr, program.output(*this),
                                normalises() ? &norm : nullptr, act_, program.data(scratch_), program.threads());
    }

    void backward(Program& program) override {
        const Placed<const float> dy = program.gradient(*this);
        const bool gated = act_ == Act::relu || act_ == Act::relu6,
                   reads_r = has_residual_ && !gated && act_ != Act::none;
        const Placed<const float> r = reads_r ? program.input(*this, 1) : Placed<const float>{};
        const Placed<float> y = program.output(*this);
        const Norm norm = this->norm(program);
        kernels().blend_backward(keeps_input() ? program.input(*this, 0) : dy, reads_r ? &r : nullptr,
                                 gated ? Placed<const float>{y.at, y.data} : dy, dy, program.gift(*this, 0),
                                 has_residual_ ? program.gift(*this, 1) : Gift{}, normalises() ? &norm : nullptr, act_,
                                 program.data(scratch_back_), program.threads());
    }

  private:
    bool normalises() const { return !norm_of_.empty(); }
    bool keeps_input() const { return normalises() || (act_ != Act::none && act_ != Act::relu && act_ != Act::relu6); }
    Norm norm(Program& program) const {
        if (!normalises()) return {};
        float* moments = program.data(moments_);
        const int channels = program.shape(op.output).channels;
        return {norm_of_[0]->value.data(),
                norm_of_[1]->value.data(),
                norm_of_[2]->value.data(),
                norm_of_[3]->value.data(),
                moments,
                moments + channels,
                norm_of_[0]->gradient.data(),
                norm_of_[1]->gradient.data(),
                op.factors[0],
                op.factors[1],
                program.pass().training,
                program.draw().note_statistics};
    }

    const Act act_;
    const bool has_residual_;
    std::vector<Parameter*> norm_of_;  // weight, bias, running mean, running variance
    int scratch_ = -1, scratch_back_ = -1, moments_ = -1;
};

}  // namespace

std::unique_ptr<Step> make_blend(const Operation& op, int index, const Program& program, Parameters& parameters) {
    return std::make_unique<BlendStep>(op, index, program, parameters);
}

}  // namespace prunefl
