// A network that trains by plan: parameters under their masks, and a program for each batch size in use.
#pragma once
#include <deque>

#include "program.hpp"

namespace prunefl {

enum class Loss { cross_entropy, onehot_bce };

struct Outcome {
    double loss;  // the mean
    int64_t right;
};

class Executor {
  public:
    // sizes: floats of every parameter and buffer; trained: which of them SGD changes.
    Executor(Plan plan, const std::vector<int64_t>& sizes, const std::vector<bool>& trained, Loss loss);
    Executor(const Executor&) = delete;
    const Plan& plan() const { return plan_; }
    // Which weights of a layer live: row-major bytes, as many as the weight has positions.
    void set_mask(int tensor, const uint8_t* live);
    // Live values of a weight in row-major order, all of other tensors: `size` of them.
    int64_t size(int tensor) const;
    void load(int tensor, const float* values);
    void store(int tensor, float* values) const;
    void add_gradient(int tensor, const float* values);
    void set_total(int tensor, Total total) { parameters_[tensor].total = total; }
    int64_t dense_size(int tensor) const { return sizes_[tensor]; }
    // Leave the gradients of a batch in the parameters; totals are added to.
    Outcome differentiate(const float* x, const int64_t* labels, int batch, const Draw& draw, int threads);
    void update(float rate, int threads);
    // Moments and anchor of a tensor, in the order of `load`; they go where its mask changes. Those not given are zero.
    void remember(int which, int tensor, const float* values);
    void recall(int which, int tensor, float* values) const;
    void forget();
    // Steps with a memory; first the pull towards the anchors, where there are any.
    void pull(float strength, int threads);
    double squared_norm(int threads);
    void update_by_sgd(const SgdRule& rule, int threads);
    void update_by_adam(const AdamRule& rule, int threads);
    // As in use, some samples at a time.
    Outcome evaluate(const float* x, const int64_t* labels, int batch, int threads);
    int64_t num_bytes() const;

  private:
    static void arrange(const Parameter& p, const float* values, float* to);
    static void collect(const Parameter& p, const std::vector<float>& from, float* values);
    template <class Work>
    void each_trained(Work work);
    Program& program_for(const Pass& pass);
    Outcome judge(const float* logits, const int64_t* labels, int batch, float* gradient) const;
    const Operation& reader_of(int tensor) const;

    Plan plan_;
    std::vector<int64_t> sizes_;
    Loss loss_;
    Parameters parameters_;
    std::deque<std::unique_ptr<Program>> programs_;  // the latest first
    std::vector<float> dlogits_;
};

}  // namespace prunefl
