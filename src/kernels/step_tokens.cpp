// Tokens in a program: embedding, places that are added, attention. A token is a pixel of a row, a feature a channel.
#include <algorithm>
#include <stdexcept>

#include "steps.hpp"

namespace prunefl {

namespace {

// A step that writes its output, and reads its gradient, pixel after pixel without anything between them.
class PlainStep : public Step {
  public:
    PlainStep(const Operation& op, int index, const Program& program)
        : Step(op, index), made_(program.plain(op.output)) {}
    std::optional<Layout> wants(const Program& program, int i) const override { return program.plain(op.inputs[i]); }
    std::optional<Layout> wants_gradient(const Program&) const override { return made_; }
    void reserve(Program& program) override {
        if (!same_layout(program.output_layout(*this), made_)) y_ = program.memory().reserve(made_.size(), index);
    }
    void forward(Program& program) override {
        const Placed<float> to = program.output(*this);
        compute(program, y_ < 0 ? to.data : program.data(y_));
        if (y_ >= 0) kernels().move_rows({made_, program.data(y_)}, nullptr, to, program.threads());
    }

  protected:
    virtual void compute(Program& program, float* y) = 0;
    const Layout made_;

  private:
    int y_ = -1;
};

// Rows of a table by number; the numbers come as floats, which hold them exactly.
class EmbeddingStep : public PlainStep {
  public:
    EmbeddingStep(const Operation& op, int index, const Program& program, Parameters& parameters)
        : PlainStep(op, index, program), table_(parameters[op.tensors[0]]), width_(made_.channels) {}
    void reserve(Program& program) override {
        PlainStep::reserve(program);
        if (program.pass().training) program.keep_input(*this, 0);
    }
    void backward(Program& program) override {
        const float *x = program.input(*this, 0).data, *dy = program.gradient(*this).data;
        std::fill(table_.gradient.begin(), table_.gradient.end(), 0.f);
        for (ptrdiff_t i = 0, size = made_.plane(); i < size; i++) {
            float* row = table_.gradient.data() + static_cast<ptrdiff_t>(x[i]) * width_;
            for (int d = 0; d < width_; d++) row[d] += dy[d * size + i];
        }
    }

  protected:
    void compute(Program& program, float* y) override {
        const float* x = program.input(*this, 0).data;
        const ptrdiff_t size = made_.plane(), rows = static_cast<ptrdiff_t>(table_.value.size()) / width_;
        for (ptrdiff_t i = 0; i < size; i++) {
            if (!(x[i] >= 0.f && x[i] < static_cast<float>(rows)))
                throw std::invalid_argument("a token is none of the known");
            const float* row = table_.value.data() + static_cast<ptrdiff_t>(x[i]) * width_;
            for (int d = 0; d < width_; d++) y[d * size + i] = row[d];
        }
    }

  private:
    Parameter& table_;
    const int width_;
};

// A parameter of (tokens, features) that is added to every sample.
class PlacesStep : public PlainStep {
  public:
    PlacesStep(const Operation& op, int index, const Program& program, Parameters& parameters)
        : PlainStep(op, index, program), places_(parameters[op.tensors[0]]) {}
    void reserve(Program& program) override {
        PlainStep::reserve(program);
        if (program.pass().training) program.keep_gifts(*this);
    }
    void backward(Program& program) override {
        const Placed<const float> dy = program.gradient(*this);
        each([&](float, int place, ptrdiff_t first) {
            float sum = 0;
            for (int n = 0; n < made_.batch; n++) sum += dy.data[first + n];
            places_.gradient[place] = sum;
        });
        if (!program.has_gradient(op.inputs[0])) return;
        const Gift to = program.gift(*this, 0);
        if (to.first) kernels().move_rows(dy, nullptr, to.to, program.threads());
        else kernels().add_rows(dy, to.to, program.threads());
    }

  protected:
    void compute(Program& program, float* y) override {
        const float* x = program.input(*this, 0).data;
        each([&](float value, int, ptrdiff_t first) {
            for (int n = 0; n < made_.batch; n++) y[first + n] = x[first + n] + value;
        });
    }

  private:
    template <class Work>
    void each(Work work) const {
        const int features = made_.channels, tokens = made_.width;
        for (int d = 0; d < features; d++)
            for (int t = 0; t < tokens; t++) {
                const int place = t * features + d;
                work(places_.value[place], place, (static_cast<ptrdiff_t>(d) * tokens + t) * made_.batch);
            }
    }
    Parameter& places_;
};

class AttentionStep : public PlainStep {
  public:
    AttentionStep(const Operation& op, int index, const Program& program)
        : PlainStep(op, index, program), at_{made_.channels, op.sizes[0], made_.width, made_.batch, op.sizes[1] != 0} {}
    void reserve(Program& program) override {
        PlainStep::reserve(program);
        Memory& memory = program.memory();
        const ptrdiff_t matrix = at_.tokens * at_.channel();
        shares_ = memory.reserve(at_.heads * matrix, index);
        lines_ = memory.reserve(2 * static_cast<ptrdiff_t>(program.threads()) * at_.batch, index);
        if (!program.pass().training) return;
        const int back = program.time_back(index);
        memory.keep(shares_, back);
        program.keep_input(*this, 0);
        scratch_ = memory.reserve(program.threads() * (matrix + at_.batch), back);
        const Layout in = program.plain(op.inputs[0]);
        outlet_ = program.outlet(*this, 0, in, [&](const Layout& at) { return same_layout(at, in); });
    }
    void backward(Program& program) override {
        if (!program.has_gradient(op.inputs[0])) return;
        kernels().attend_backward(at_, program.input(*this, 0).data, program.data(shares_),
                                  program.gradient(*this).data, program.open(outlet_).data, program.data(scratch_),
                                  program.threads());
        program.close(outlet_);
    }

  protected:
    void compute(Program& program, float* y) override {
        kernels().attend_forward(at_, program.input(*this, 0).data, program.data(shares_), y, program.data(lines_),
                                 program.threads());
    }

  private:
    const Attention at_;
    int shares_ = -1, lines_ = -1, scratch_ = -1;
    Outlet outlet_;
};

}  // namespace

std::unique_ptr<Step> make_tokens(const Operation& op, int index, const Program& program, Parameters& parameters) {
    if (op.kind == "embedding") return std::make_unique<EmbeddingStep>(op, index, program, parameters);
    if (op.kind == "places") return std::make_unique<PlacesStep>(op, index, program, parameters);
    return std::make_unique<AttentionStep>(op, index, program);
}

}  // namespace prunefl
