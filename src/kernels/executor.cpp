// Training, evaluation and the state of a network that runs by plan.
#include "executor.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace prunefl {

namespace {

constexpr size_t KEPT_PROGRAMS = 4;
// Of a layer, in eighths: from here on the dense kernels are faster. A constant: it decides bits.
constexpr int64_t DENSE_EIGHTHS = 4;
constexpr int INFERENCE_BATCH = 32;  // larger ones leave the cache

bool is_layer(const Operation& op) { return op.kind == "conv" || op.kind == "linear"; }

// Of one sample, whose logits are `stride` apart.
double cross_entropy(const float* logits, int classes, int stride, int label, double share, float* gradient) {
    double most = -INFINITY, sum = 0;
    for (int c = 0; c < classes; c++) most = std::max<double>(most, logits[c * stride]);
    for (int c = 0; c < classes; c++) sum += std::exp(logits[c * stride] - most);
    for (int c = 0; gradient && c < classes; c++)
        gradient[c * stride] =
            static_cast<float>((std::exp(logits[c * stride] - most) / sum - (c == label ? 1.0 : 0.0)) * share);
    return std::log(sum) + most - logits[label * stride];
}

double onehot_bce(const float* logits, int classes, int stride, int label, double share, float* gradient) {
    double total = 0;
    for (int c = 0; c < classes; c++) {
        const double z = logits[c * stride], one = c == label ? 1.0 : 0.0;
        total += std::max(z, 0.0) - z * one + std::log1p(std::exp(-std::abs(z)));
        if (gradient) gradient[c * stride] = static_cast<float>((1.0 / (1.0 + std::exp(-z)) - one) * share / classes);
    }
    return total / classes;
}

// The first of the largest; NaN counts as the largest, as numpy has it.
int largest(const float* logits, int classes, int stride) {
    int best = 0;
    for (int c = 0; c < classes; c++) {
        if (std::isnan(logits[c * stride])) return c;
        if (logits[c * stride] > logits[best * stride]) best = c;
    }
    return best;
}

}  // namespace

Executor::Executor(Plan plan, const std::vector<int64_t>& sizes, const std::vector<bool>& trained, Loss loss)
    : plan_(std::move(plan)), sizes_(sizes), loss_(loss), parameters_(sizes.size()) {
    std::vector<int64_t> held = sizes;
    // a layer's weight has no values before it has a mask: all positions could be ten times as many as will live
    for (const Operation& op : plan_.operations)
        if (is_layer(op)) held[op.tensors[0]] = 0;
    for (size_t i = 0; i < sizes.size(); i++) {
        parameters_[i].trained = trained[i];
        parameters_[i].value.assign(held[i], 0.f);
        if (trained[i]) parameters_[i].gradient.assign(held[i], 0.f);
    }
}

const Operation& Executor::reader_of(int tensor) const {
    for (const Operation& op : plan_.operations)
        if (is_layer(op) && op.tensors[0] == tensor) return op;
    throw std::invalid_argument("this tensor is no layer's weight");
}

void Executor::set_mask(int tensor, const uint8_t* live) {
    const Operation& op = reader_of(tensor);
    Parameter& p = parameters_[tensor];
    const int64_t all = sizes_[tensor], count = all - std::count(live, live + all, uint8_t{0});
    const bool grouped = op.kind == "conv" && conv_shape(op, plan_).groups > 1;
    p.live.clear();
    if (!grouped && 8 * count > DENSE_EIGHTHS * all) {
        p.live.assign(all / 8 + 2, 0);
        for (int64_t i = 0; i < all; i++) p.live[i / 8] |= static_cast<uint8_t>((live[i] != 0) << i % 8);
    }
    // a dense layer has a pattern without weights, for its geometry
    const std::vector<uint8_t> none(p.dense() ? all : 0, 0);
    const uint8_t* pattern = p.dense() ? none.data() : live;
    if (op.kind == "conv") p.conv = std::make_shared<ConvPattern>(pattern, conv_shape(op, plan_));
    else
        p.linear = std::make_shared<LinearPattern>(pattern, plan_.values[op.output].channels,
                                                   plan_.values[op.inputs[0]].channels);
    const int64_t size = p.dense() ? all : count;
    p.value.assign(size, 0.f);
    p.value.shrink_to_fit();
    p.gradient.assign(size, 0.f);
    p.gradient.shrink_to_fit();
    for (auto& kept : p.memory) kept.clear();
    programs_.clear();
}

int64_t Executor::size(int tensor) const {
    const Parameter& p = parameters_[tensor];
    if (!p.dense()) return static_cast<int64_t>(p.value.size());
    int64_t count = 0;
    for (const uint8_t byte : p.live) count += __builtin_popcount(byte);
    return count;
}

void Executor::arrange(const Parameter& p, const float* values, float* to) {
    if (p.dense()) {
        for (int64_t i = 0, size = p.value.size(); i < size; i++) to[i] = p.live[i / 8] >> i % 8 & 1 ? *values++ : 0.f;
    } else if (p.conv) {
        p.conv->from_row_major(values, to);
    } else if (p.linear) {
        p.linear->from_row_major(values, to);
    } else {
        std::copy(values, values + p.value.size(), to);
    }
}

void Executor::load(int tensor, const float* values) {
    arrange(parameters_[tensor], values, parameters_[tensor].value.data());
}

void Executor::collect(const Parameter& p, const std::vector<float>& from, float* values) {
    if (p.dense()) {
        for (int64_t i = 0, size = from.size(); i < size; i++)
            if (p.live[i / 8] >> i % 8 & 1) *values++ = from[i];
    } else if (p.conv) {
        p.conv->to_row_major(from.data(), values);
    } else if (p.linear) {
        p.linear->to_row_major(from.data(), values);
    } else {
        std::copy(from.begin(), from.end(), values);
    }
}

void Executor::store(int tensor, float* values) const {
    collect(parameters_[tensor], parameters_[tensor].value, values);
}

void Executor::add_gradient(int tensor, const float* values) {
    Parameter& p = parameters_[tensor];
    std::vector<float> ordered(p.value.size());
    arrange(p, values, ordered.data());
    for (size_t i = 0; i < ordered.size(); i++) p.gradient[i] += ordered[i];
}

Program& Executor::program_for(const Pass& pass) {
    for (auto it = programs_.begin(); it != programs_.end(); ++it) {
        const Pass& known = (*it)->pass();
        if (known.batch != pass.batch || known.threads != pass.threads || known.training != pass.training) continue;
        std::rotate(programs_.begin(), it, it + 1);
        return *programs_.front();
    }
    programs_.push_front(std::make_unique<Program>(plan_, parameters_, pass));
    if (programs_.size() > KEPT_PROGRAMS) programs_.pop_back();
    return *programs_.front();
}

Outcome Executor::judge(const float* logits, const int64_t* labels, int batch, float* gradient) const {
    const int classes = static_cast<int>(plan_.values[plan_.operations.back().output].size());
    const auto loss_of = loss_ == Loss::cross_entropy ? cross_entropy : onehot_bce;
    Outcome found{0, 0};
    for (int n = 0; n < batch; n++) {
        if (labels[n] < 0 || labels[n] >= classes) throw std::invalid_argument("a label is none of the classes");
        const int label = static_cast<int>(labels[n]);
        found.loss +=
            loss_of(logits + n, classes, batch, label, 1.0 / batch, gradient ? gradient + n : nullptr) / batch;
        found.right += largest(logits + n, classes, batch) == label;
    }
    return found;
}

Outcome Executor::differentiate(const float* x, const int64_t* labels, int batch, const Draw& draw, int threads) {
    Program& program = program_for({batch, threads, true});
    const float* logits = program.forward(x, draw);
    dlogits_.resize(batch * plan_.values[plan_.operations.back().output].size());
    const Outcome found = judge(logits, labels, batch, dlogits_.data());
    program.backward(dlogits_.data());
    for (Parameter& p : parameters_) {
        if (!p.total.sum || (!p.dense() && (p.conv || p.linear))) continue;
        for (size_t i = 0; i < p.gradient.size(); i++)
            p.total.sum[i] += p.total.squared ? p.gradient[i] * p.gradient[i] : p.gradient[i];
    }
    return found;
}

void Executor::update(float rate, int threads) {
    for (Parameter& p : parameters_) {
        const ptrdiff_t size = static_cast<ptrdiff_t>(p.value.size());
        if (p.dense()) kernels().masked_sgd(p.value.data(), p.gradient.data(), p.live.data(), size, rate, threads);
        else if (p.trained) kernels().sgd(p.value.data(), p.gradient.data(), size, rate, threads);
    }
}

Outcome Executor::evaluate(const float* x, const int64_t* labels, int batch, int threads) {
    const ptrdiff_t sample = plan_.values[0].size();
    const int parts = (batch + INFERENCE_BATCH - 1) / INFERENCE_BATCH;
    Outcome found{0, 0};
    for (int i = 0, first = 0; i < parts; i++) {
        const int some = static_cast<int>(static_cast<int64_t>(batch) * (i + 1) / parts) - first;
        const float* logits = program_for({some, threads, false}).forward(x + first * sample, {0, false});
        const Outcome part = judge(logits, labels + first, some, nullptr);
        found.loss += part.loss * some / batch, found.right += part.right;
        first += some;
    }
    return found;
}

int64_t Executor::num_bytes() const {
    int64_t total = 0;
    for (const auto& program : programs_) total += program->num_bytes();
    return total;
}

}  // namespace prunefl
