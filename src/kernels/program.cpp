// Laying out a pass through a plan, and running it.
#include "program.hpp"

#include <algorithm>
#include <stdexcept>

namespace prunefl {

namespace {

Layout plain_layout(const Shape& shape, int batch, int lanes) {
    Layout at;
    at.channels = shape.channels, at.height = at.cells_h = shape.height, at.width = at.cells_w = shape.width;
    at.batch = batch, at.lanes = lanes;
    return at;
}

bool is_view(const Operation& operation) { return operation.kind == "view"; }

}  // namespace

bool same_layout(const Layout& a, const Layout& b) {
    if (a.channels != b.channels || a.height != b.height || a.width != b.width || a.lanes != b.lanes) return false;
    if (is_plain(a) && is_plain(b)) return true;
    return a.stride_h == b.stride_h && a.stride_w == b.stride_w && a.pad_h == b.pad_h && a.pad_w == b.pad_w &&
           a.cells_h == b.cells_h && a.cells_w == b.cells_w &&
           std::equal(a.first_h, a.first_h + a.stride_h, b.first_h) &&
           std::equal(a.first_w, a.first_w + a.stride_w, b.first_w);
}

Layout Step::prefers(const Program& program) const { return program.plain(op.output); }
Layout Step::gives(const Program& program, int input) const { return program.plain(op.inputs[input]); }

Layout Program::plain(int value) const { return plain_layout(shape(value), pass_.batch, pass_.batch); }

// A linear layer reads one row of whole vectors for each feature.
Layout Program::whole_vectors(int value) const {
    const int lanes = kernels().lanes;
    return plain_layout(shape(value), pass_.batch, (pass_.batch + lanes - 1) / lanes * lanes);
}

Program::Program(const Plan& plan, Parameters& parameters, const Pass& pass) : plan_(plan), pass_(pass) {
    const int count = static_cast<int>(plan.operations.size());
    find_storage();
    for (int i = 0; i < count; i++) steps_.push_back(make_step(plan.operations[i], i, *this, parameters));
    place_values();
    make_copies();
    const Shape& last = plan_.values[plan.operations.back().output];
    logits_ = {plain_layout({static_cast<int>(last.size()), 1, 1}, pass.batch, pass.batch), -1};
    logits_.buffer = memory_.reserve(logits_.at.size(), count);
    if (pass.training) place_gradients();
    for (const auto& step : steps_) step->reserve(*this);
    memory_.place();
}

void Program::find_storage() {
    storage_.assign(plan_.values.size(), 0);
    int count = 1;
    for (const Operation& op : plan_.operations) storage_[op.output] = is_view(op) ? storage_[op.inputs[0]] : count++;
    homes_.resize(count);
    gradients_.resize(count);
}

// The same pixels under a value's own shape: views differ only where nothing lies between pixels.
Layout Program::seen_as(const Layout& at, int value) const {
    const Shape& s = shape(value);
    if (s.channels == at.channels && s.height == at.height && s.width == at.width) return at;
    return plain_layout(s, at.batch, at.lanes);
}

int Program::num_readers(int storage) const {
    int count = 0;
    for (const Operation& op : plan_.operations)
        for (const int value : op.inputs) count += !is_view(op) && storage_[value] == storage;
    return count;
}

// Whether a value is read under another shape, too: then nothing may lie between its pixels.
bool Program::is_viewed(int storage, int root) const {
    for (size_t value = 0; value < storage_.size(); value++)
        if (storage_[value] == storage && static_cast<int>(value) != root) return true;
    return false;
}

// Whether every pixel has a place. A strided convolution leaves out rows and columns that it does not read, but others
// may: the next reader, or the gate of a ReLU on the way back.
static bool holds_all(const Layout& at) {
    return (at.height - 1 + at.pad_h) / at.stride_h < at.cells_h &&
           (at.width - 1 + at.pad_w) / at.stride_w < at.cells_w;
}

// As its first reader wants it, which then need not copy.
Layout Program::home_layout(int storage, int root) const {
    const bool viewed = is_viewed(storage, root);
    for (const auto& step : steps_)
        for (size_t i = 0; i < step->op.inputs.size(); i++) {
            if (is_view(step->op) || storage_[step->op.inputs[i]] != storage) continue;
            const auto wanted = step->wants(*this, static_cast<int>(i));
            if (wanted && holds_all(*wanted) && (!viewed || is_plain(*wanted))) return seen_as(*wanted, root);
        }
    for (const auto& step : steps_)
        if (step->op.output == root) return step->prefers(*this);
    return plain(root);
}

void Program::place_values() {
    const auto place = [&](int value, int time) {
        Held& home = homes_[storage_[value]];
        home.at = home_layout(storage_[value], value);
        home.buffer = memory_.reserve(home.at.size(), time);
    };
    place(0, 0);
    for (const auto& step : steps_)
        if (!is_view(step->op)) place(step->op.output, step->index);
    for (const auto& step : steps_)
        for (const int value : step->op.inputs) memory_.keep(homes_[storage_[value]].buffer, step->index);
    memory_.keep(homes_[storage_[plan_.operations.back().output]].buffer, static_cast<int>(steps_.size()));
}

void Program::make_copies() {
    for (const auto& step : steps_) {
        auto& copies = copies_.emplace_back(step->op.inputs.size());
        for (size_t i = 0; i < copies.size(); i++) {
            const int value = step->op.inputs[i];
            const auto wanted = step->wants(*this, static_cast<int>(i));
            if (!wanted || same_layout(*wanted, seen_as(homes_[storage_[value]].at, value))) continue;
            copies[i] = {*wanted, memory_.reserve(wanted->size(), step->index)};
        }
    }
}

// As the producer needs it; else, where there is one reader, as that leaves it; else plain.
Layout Program::gradient_layout(int storage, int root) const {
    for (const auto& step : steps_)
        if (step->op.output == root)
            if (const auto wanted = step->wants_gradient(*this))
                if (is_plain(*wanted) || !is_viewed(storage, root)) return *wanted;
    const bool alone = num_readers(storage) == 1 && storage_[plan_.operations.back().output] != storage;
    for (const auto& step : steps_)
        for (size_t i = 0; alone && i < step->op.inputs.size(); i++) {
            if (is_view(step->op) || storage_[step->op.inputs[i]] != storage) continue;
            const Layout left = step->gives(*this, static_cast<int>(i));
            if (step->op.inputs[i] == root || is_plain(left)) return seen_as(left, root);
        }
    return plain(root);
}

void Program::place_gradients() {
    for (const auto& step : steps_) {
        const int storage = storage_[step->op.output];
        if (is_view(step->op) || !has_gradient(step->op.output)) continue;
        Held& held = gradients_[storage];
        held.at = gradient_layout(storage, step->op.output);
        held.buffer = memory_.reserve(held.at.size(), time_back(step->index));
    }
    const int last = storage_[plan_.operations.back().output];
    memory_.keep(gradients_[last].buffer, static_cast<int>(steps_.size()) + 1);
}

// Of all that read a value, the last one is the first on the way back; it need not add.
bool Program::comes_first_back(const Step& step, int input) const {
    const int storage = storage_[step.op.inputs[input]];
    if (storage == storage_[plan_.operations.back().output]) return false;
    for (const auto& later : steps_) {
        const auto& inputs = later->op.inputs;
        if (later->index > step.index && !is_view(later->op) &&
            std::any_of(inputs.begin(), inputs.end(), [&](int v) { return storage_[v] == storage; }))
            return false;
    }
    for (size_t i = input + 1; i < step.op.inputs.size(); i++)
        if (storage_[step.op.inputs[i]] == storage) return false;
    return true;
}

void Program::read_input(const float* x) {
    const Held& home = homes_[0];
    float* to = data(home.buffer);
    if (!is_plain(home.at)) return kernels().from_torch(x, {home.at, to}, threads());
    const int features = static_cast<int>(shape(0).size()), lanes = home.at.lanes;
    kernels().transpose(x, features, to, lanes, pass_.batch, features, threads());
    for (int i = 0; i < features && lanes > pass_.batch; i++)
        std::fill(to + static_cast<ptrdiff_t>(i) * lanes + pass_.batch, to + static_cast<ptrdiff_t>(i + 1) * lanes,
                  0.f);
}

const float* Program::forward(const float* x, const Draw& draw) {
    draw_ = draw;
    memory_.begin(0);
    read_input(x);
    for (const auto& step : steps_) {
        if (step->index) memory_.begin(step->index);
        for (size_t i = 0; i < step->op.inputs.size(); i++) {
            const Held& copy = copies_[step->index][i];
            const int value = step->op.inputs[i];
            if (copy.buffer < 0) continue;
            const Held& home = homes_[storage_[value]];
            kernels().move_rows({seen_as(home.at, value), data(home.buffer)}, nullptr, {copy.at, data(copy.buffer)},
                                threads());
        }
        step->forward(*this);
    }
    const int last = plan_.operations.back().output;
    const Held& home = homes_[storage_[last]];
    memory_.begin(static_cast<int>(steps_.size()));
    Layout from = seen_as(home.at, last), to = logits_.at;
    to.channels = from.channels, to.height = to.cells_h = from.height, to.width = to.cells_w = from.width;
    kernels().move_rows({from, data(home.buffer)}, nullptr, {to, data(logits_.buffer)}, threads());
    return data(logits_.buffer);
}

void Program::backward(const float* dlogits) {
    const Held& last = gradients_[storage_[plan_.operations.back().output]];
    memory_.begin(static_cast<int>(steps_.size()) + 1);
    Layout from = last.at;
    from.lanes = from.batch, from.stride_h = from.stride_w = 1, from.pad_h = from.pad_w = 0;
    from.cells_h = from.height, from.cells_w = from.width, from.first_h[0] = from.first_w[0] = 0;
    kernels().move_rows({from, dlogits}, nullptr, {last.at, data(last.buffer)}, threads());
    for (size_t i = steps_.size(); i-- > 0;) {
        memory_.begin(time_back(static_cast<int>(i)));
        steps_[i]->backward(*this);
    }
}

Placed<const float> Program::input(const Step& step, int i) const {
    const Held& copy = copies_[step.index][i];
    if (copy.buffer >= 0) return {copy.at, data(copy.buffer)};
    const Held& home = homes_[storage_[step.op.inputs[i]]];
    return {seen_as(home.at, step.op.inputs[i]), data(home.buffer)};
}

Layout Program::output_layout(const Step& step) const { return homes_[storage_[step.op.output]].at; }

Placed<float> Program::output(const Step& step) const {
    return {output_layout(step), data(homes_[storage_[step.op.output]].buffer)};
}

Layout Program::gradient_layout(const Step& step) const { return gradients_[storage_[step.op.output]].at; }

Placed<float> Program::gradient_to_change(const Step& step) const {
    const Held& held = gradients_[storage_[step.op.output]];
    return {held.at, data(held.buffer)};
}

Placed<const float> Program::gradient(const Step& step) const {
    const Placed<float> held = gradient_to_change(step);
    return {held.at, held.data};
}

void Program::keep_input(const Step& step, int i) {
    const Held& copy = copies_[step.index][i];
    const int buffer = copy.buffer >= 0 ? copy.buffer : homes_[storage_[step.op.inputs[i]]].buffer;
    if (pass_.training) memory_.keep(buffer, time_back(step.index));
}

void Program::keep_output(const Step& step) {
    if (pass_.training) memory_.keep(homes_[storage_[step.op.output]].buffer, time_back(step.index));
}

Gift Program::gift(const Step& step, int i) const {
    const int value = step.op.inputs[i];
    if (!has_gradient(value)) return {};
    const Held& held = gradients_[storage_[value]];
    return {{seen_as(held.at, value), data(held.buffer)}, comes_first_back(step, i)};
}

void Program::keep_gifts(const Step& step) {
    for (const int value : step.op.inputs)
        if (has_gradient(value)) memory_.keep(gradients_[storage_[value]].buffer, time_back(step.index));
}

Placed<float> Program::open(const Outlet& to) const {
    if (!to.straight) return {to.beside.at, data(to.beside.buffer)};
    const Held& held = gradients_[storage_[to.value]];
    return {seen_as(held.at, to.value), data(held.buffer)};
}

void Program::close(const Outlet& to) const {
    if (to.straight) return;
    const Held& held = gradients_[storage_[to.value]];
    const Placed<const float> from{to.beside.at, data(to.beside.buffer)};
    const Placed<float> place{seen_as(held.at, to.value), data(held.buffer)};
    if (to.first) kernels().move_rows(from, nullptr, place, threads());
    else kernels().add_rows(from, place, threads());
}

}  // namespace prunefl
