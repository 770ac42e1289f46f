// One pass through a plan at one batch size: where values and gradients lie, and the steps in their order.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "memory.hpp"
#include "paths.hpp"
#include "plan.hpp"

namespace prunefl {

class Program;

// What a pass is made for.
struct Pass {
    int batch, threads;
    bool training;
};

// What changes from one pass to the next.
struct Draw {
    uint64_t seed = 0;
    bool note_statistics = true;  // whether BatchNorm keeps what it sees
};

// One operation of a program. It asks for layouts first, then for memory, and then it runs.
class Step {
  public:
    Step(const Operation& operation, int index) : op(operation), index(index) {}
    virtual ~Step() = default;
    // How an input has to lie; none: any way will do.
    virtual std::optional<Layout> wants(const Program&, int) const { return std::nullopt; }
    // How the output is best left, where no reader cares.
    virtual Layout prefers(const Program&) const;
    // How the output's gradient should lie; none: any way will do. Views of the output may be in the way.
    virtual std::optional<Layout> wants_gradient(const Program&) const { return std::nullopt; }
    // How an input's gradient is best left, where its producer does not care.
    virtual Layout gives(const Program&, int input) const;
    // Ask for memory, and say what the backward pass reads again.
    virtual void reserve(Program&) {}
    virtual void forward(Program&) = 0;
    virtual void backward(Program&) = 0;

    const Operation& op;
    const int index;
};

std::unique_ptr<Step> make_step(const Operation& operation, int index, const Program& program, Parameters& parameters);

struct Held {
    Layout at;
    int buffer = -1;
};

// Where a step writes an input's gradient: in its place where that fits, else beside it, from where it is moved.
struct Outlet {
    int value = -1;
    bool first = true;  // of the readers of this value, on the way back
    bool straight = false;
    Held beside;
};

class Program {
  public:
    Program(const Plan& plan, Parameters& parameters, const Pass& pass);
    // x: (batch, channels, height, width). Returns the logits, (classes, batch).
    const float* forward(const float* x, const Draw& draw);
    // dlogits: (classes, batch).
    void backward(const float* dlogits);
    const Pass& pass() const { return pass_; }
    ptrdiff_t num_bytes() const { return memory_.num_bytes(); }

    // For steps.
    const Draw& draw() const { return draw_; }
    int threads() const { return pass_.threads; }
    Memory& memory() { return memory_; }
    float* data(int buffer) const { return memory_.data(buffer); }
    const Shape& shape(int value) const { return plan_.values[value]; }
    Layout plain(int value) const;
    Layout whole_vectors(int value) const;
    int time_back(int index) const { return 2 * static_cast<int>(plan_.operations.size()) + 1 - index; }
    bool has_gradient(int value) const { return pass_.training && storage_[value] != storage_[0]; }
    // A step's input as that step wants it, and its output.
    Placed<const float> input(const Step& step, int i) const;
    Placed<float> output(const Step& step) const;
    Layout output_layout(const Step& step) const;
    Placed<const float> gradient(const Step& step) const;
    Layout gradient_layout(const Step& step) const;
    Placed<float> gradient_to_change(const Step& step) const;
    void keep_input(const Step& step, int i);
    void keep_output(const Step& step);
    // Where a step that writes rows leaves the gradient of an input; inputs are served last to first.
    Gift gift(const Step& step, int i) const;
    void keep_gifts(const Step& step);
    // For steps that write whole tensors. `made`: the layout they write; `fits` says whether the gradient's own place
    // would do as well.
    template <class Fits>
    Outlet outlet(const Step& step, int i, const Layout& made, Fits fits);
    Placed<float> open(const Outlet& to) const;
    void close(const Outlet& to) const;

  private:
    void find_storage();
    void place_values();
    void make_copies();
    void place_gradients();
    void read_input(const float* x);
    Layout seen_as(const Layout& at, int value) const;
    bool comes_first_back(const Step& step, int input) const;
    Layout home_layout(int storage, int root) const;
    Layout gradient_layout(int storage, int root) const;
    int num_readers(int storage) const;
    bool is_viewed(int storage, int root) const;

    const Plan& plan_;
    Pass pass_;
    Draw draw_;
    Memory memory_;
    std::vector<std::unique_ptr<Step>> steps_;
    std::vector<int> storage_;  // of a value; views share one
    std::vector<Held> homes_;   // by storage
    std::vector<Held> gradients_;
    std::vector<std::vector<Held>> copies_;  // by step and input; without a buffer where the home will do
    Held logits_;
};

// Whether pixels lie one after another.
inline bool is_plain(const Layout& at) {
    return at.stride_h == 1 && at.stride_w == 1 && at.cells_h == at.height && at.cells_w == at.width &&
           at.pad_h == at.first_h[0] && at.pad_w == at.first_w[0];
}
bool same_layout(const Layout& a, const Layout& b);

template <class Fits>
Outlet Program::outlet(const Step& step, int i, const Layout& made, Fits fits) {
    Outlet to;
    to.value = step.op.inputs[i];
    if (!has_gradient(to.value)) return to;
    to.first = comes_first_back(step, i);
    Held& held = gradients_[storage_[to.value]];
    memory_.keep(held.buffer, time_back(step.index));
    to.straight = to.first && fits(seen_as(held.at, to.value));
    if (!to.straight) to.beside = {made, memory_.reserve(made.size(), time_back(step.index))};
    return to;
}

}  // namespace prunefl
