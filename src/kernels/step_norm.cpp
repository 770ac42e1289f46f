// GroupNorm and LayerNorm in a program.
#include "steps.hpp"

namespace prunefl {

namespace {

class SampleNormStep : public Step {
  public:
    SampleNormStep(const Operation& op, int index, const Program& program, Parameters& parameters)
        : Step(op, index),
          weight_(parameters[op.tensors[0]]),
          bias_(parameters[op.tensors[1]]),
          groups_(op.sizes[0]),
          by_pixel_(op.sizes[1] != 0) {
        const Shape& shape = program.shape(op.output);
        statistics_ =
            static_cast<ptrdiff_t>(groups_) * program.pass().batch * (by_pixel_ ? shape.height * shape.width : 1);
    }
    void reserve(Program& program) override {
        Memory& memory = program.memory();
        moments_ = memory.reserve(2 * statistics_, index);
        sums_ = memory.reserve(4 * statistics_, index);
        if (!program.pass().training) return;
        const int back = program.time_back(index);
        memory.keep(moments_, back);
        sums_back_ = memory.reserve(4 * statistics_, back);
        program.keep_input(*this, 0);
        program.keep_gifts(*this);
    }
    void forward(Program& program) override {
        kernels().sample_norm_forward(program.input(*this, 0), norm(program, sums_), program.output(*this),
                                      program.threads());
    }
    void backward(Program& program) override {
        kernels().sample_norm_backward(program.input(*this, 0), program.gradient(*this), norm(program, sums_back_),
                                       program.gift(*this, 0), program.threads());
    }

  private:
    SampleNorm norm(Program& program, int sums) const {
        float* moments = program.data(moments_);
        // two doubles a statistic; buffers begin at whole cache lines
        return {weight_.value.data(),
                bias_.value.data(),
                moments,
                moments + statistics_,
                weight_.gradient.data(),
                bias_.gradient.data(),
                reinterpret_cast<double*>(program.data(sums)),
                op.factors[0],
                groups_,
                by_pixel_};
    }

    Parameter &weight_, &bias_;
    const int groups_;
    const bool by_pixel_;
    ptrdiff_t statistics_;
    int moments_ = -1, sums_ = -1, sums_back_ = -1;
};

}  // namespace

std::unique_ptr<Step> make_sample_norm(const Operation& op, int index, const Program& program, Parameters& parameters) {
    return std::make_unique<SampleNormStep>(op, index, program, parameters);
}

}  // namespace prunefl
