// Pooling, products, concatenation, dropout and views in a program.
#include <stdexcept>

#include "steps.hpp"

namespace prunefl {

namespace {

class MaxPoolStep : public Step {
  public:
    MaxPoolStep(const Operation& op, int index) : Step(op, index), pool_(pool_shape(op.sizes, 0)) {}
    std::optional<Layout> wants(const Program& program, int) const override { return program.plain(op.inputs[0]); }
    void reserve(Program& program) override {
        winners_ = program.memory().reserve((program.plain(op.output).size() + 3) / 4, index);
        if (!program.pass().training) return;
        program.memory().keep(winners_, program.time_back(index));
        outlet_ =
            program.outlet(*this, 0, program.plain(op.inputs[0]), [](const Layout& at) { return at.whole_rows(); });
    }
    void forward(Program& program) override {
        const Placed<const float> x = program.input(*this, 0);
        kernels().pool_forward({x.data, x.at.plane(), x.at.row(), x.at.height, x.at.width * x.at.batch}, pool_, false,
                               program.output(*this), winners(program), program.threads());
    }
    void backward(Program& program) override {
        if (!program.has_gradient(op.inputs[0])) return;
        kernels().pool_backward(program.gradient(*this), winners(program), pool_, program.open(outlet_),
                                program.threads());
        program.close(outlet_);
    }

  private:
    uint8_t* winners(Program& program) const { return reinterpret_cast<uint8_t*>(program.data(winners_)); }
    const PoolShape pool_;
    int winners_ = -1;
    Outlet outlet_;
};

class AveragePoolStep : public Step {
  public:
    AveragePoolStep(const Operation& op, int index)
        : Step(op, index), pool_(pool_shape(op.sizes, 0)), counted_(op.sizes[6]) {}
    void reserve(Program& program) override {
        if (program.pass().training)
            outlet_ = program.outlet(*this, 0, program.plain(op.inputs[0]),
                                     [](const Layout& at) { return at.stride_h == 1 && at.stride_w == 1; });
    }
    void forward(Program& program) override {
        kernels().average_forward(program.input(*this, 0), pool_, counted_, program.output(*this), program.threads());
    }
    void backward(Program& program) override {
        if (!program.has_gradient(op.inputs[0])) return;
        kernels().average_backward(program.gradient(*this), pool_, counted_, program.open(outlet_), program.threads());
        program.close(outlet_);
    }

  private:
    const PoolShape pool_;
    const bool counted_;
    Outlet outlet_;
};

// Either factor may be one pixel a channel.
class MultiplyStep : public Step {
  public:
    MultiplyStep(const Operation& op, int index, const Program& program) : Step(op, index) {
        const Shape &first = program.shape(op.inputs[0]), &out = program.shape(op.output);
        whole_ = first.height == out.height && first.width == out.width ? 0 : 1;
    }
    void reserve(Program& program) override {
        if (!program.pass().training) return;
        program.keep_input(*this, 0);
        program.keep_input(*this, 1);
        program.keep_gifts(*this);
    }
    void forward(Program& program) override {
        kernels().multiply_forward(program.input(*this, whole_), program.input(*this, 1 - whole_),
                                   program.output(*this), program.threads());
    }
    void backward(Program& program) override {
        for (const int i : {1, 0})
            if (program.has_gradient(op.inputs[i]))
                kernels().multiply_backward(program.gradient(*this), program.input(*this, 1 - i),
                                            program.gift(*this, i), program.threads());
    }

  private:
    int whole_;
};

// Channels of one input after those of another.
class ConcatStep : public Step {
  public:
    using Step::Step;
    void reserve(Program& program) override {
        if (program.pass().training) program.keep_gifts(*this);
    }
    void forward(Program& program) override {
        int first = 0;
        for (size_t i = 0; i < op.inputs.size(); i++) {
            const Placed<const float> x = program.input(*this, static_cast<int>(i));
            kernels().move_rows(x, nullptr, some(program.output(*this), first, x.at.channels), program.threads());
            first += x.at.channels;
        }
    }
    void backward(Program& program) override {
        int last = program.shape(op.output).channels;
        for (size_t i = op.inputs.size(); i-- > 0;) {
            const int channels = program.shape(op.inputs[i]).channels;
            last -= channels;
            if (!program.has_gradient(op.inputs[i])) continue;
            const Placed<const float> dy = some(program.gradient(*this), last, channels);
            const Gift to = program.gift(*this, static_cast<int>(i));
            if (to.first) kernels().move_rows(dy, nullptr, to.to, program.threads());
            else kernels().add_rows(dy, to.to, program.threads());
        }
    }

  private:
    template <class Float>
    static Placed<Float> some(Placed<Float> all, int first, int channels) {
        all.data += first * all.at.channel();
        all.at.channels = channels;
        return all;
    }
};

class DropoutStep : public Step {
  public:
    using Step::Step;
    void reserve(Program& program) override {
        if (program.pass().training) program.keep_gifts(*this);
    }
    void forward(Program& program) override {
        kernels().drop(program.input(*this, 0), how(program), {program.output(*this), true}, program.threads());
    }
    void backward(Program& program) override {
        if (program.has_gradient(op.inputs[0]))
            kernels().drop(program.gradient(*this), how(program), program.gift(*this, 0), program.threads());
    }

  private:
    Dropping how(Program& program) const {
        const float probability = program.pass().training ? op.factors[0] : 0.f;
        // layers of one network draw apart
        return {probability, op.sizes[0] != 0, program.draw().seed + 0xD1B54A32D192ED03ull * (index + 1)};
    }
};

class ViewStep : public Step {
  public:
    using Step::Step;
    void forward(Program&) override {}
    void backward(Program&) override {}
};

}  // namespace

std::unique_ptr<Step> make_step(const Operation& op, int index, const Program& program, Parameters& parameters) {
    if (op.kind == "conv") return make_conv(op, index, program, parameters);
    if (op.kind == "linear") return make_linear(op, index, program, parameters);
    if (op.kind == "blend") return make_blend(op, index, program, parameters);
    if (op.kind == "sample_norm") return make_sample_norm(op, index, program, parameters);
    if (op.kind == "embedding" || op.kind == "places" || op.kind == "attention")
        return make_tokens(op, index, program, parameters);
    if (op.kind == "max_pool") return std::make_unique<MaxPoolStep>(op, index);
    if (op.kind == "average_pool") return std::make_unique<AveragePoolStep>(op, index);
    if (op.kind == "multiply") return std::make_unique<MultiplyStep>(op, index, program);
    if (op.kind == "concat") return std::make_unique<ConcatStep>(op, index);
    if (op.kind == "dropout") return std::make_unique<DropoutStep>(op, index);
    if (op.kind == "view") return std::make_unique<ViewStep>(op, index);
    throw std::invalid_argument("operation " + op.kind + " is not known");
}

}  // namespace prunefl
