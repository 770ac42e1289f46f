// A run of layers computed in one go: activations stay in (channels, height, width, batch) from end to end.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "buffers.hpp"
#include "pattern.hpp"

namespace prunefl {

// A sparse layer and what follows it.
struct Stage {
    std::shared_ptr<const LinearPattern> linear;  // one of these two
    std::shared_ptr<const ConvPattern> conv;
    bool relu;
    std::optional<PoolShape> pool;
};

// A tensor as torch gives it: (batch, channels, height, width) contiguous, or, if `ours`, with the batch innermost.
struct Activation {
    int batch, channels, height, width;
    bool ours;
};

// What a forward pass leaves for the backward pass.
struct Tape {
    struct Step {
        Layout input;
        Buffer x;
        std::shared_ptr<const ConvGeometry> geometry;
        Layout after;  // the stage's output as the next stage reads it
        Buffer index;  // winners of the pooling windows
    };
    Tape() = default;
    Tape(const Tape&) = delete;
    Activation given;
    std::vector<Step> steps;
};

// Gradients to write, by stage; null where none is wanted.
struct Gradients {
    std::vector<float*> weights, biases;
    std::vector<Total> totals;
    float* input;
};

class Chain {
  public:
    explicit Chain(std::vector<Stage> stages);
    const std::vector<Stage>& stages() const { return stages_; }
    // (channels, height, width) of the output; throws std::invalid_argument for an input that does not fit.
    Activation output_for(const Activation& given) const;
    // The output is (batch, features) after a linear layer, ours after a convolution.
    std::shared_ptr<Tape> forward(const Activation& given, const float* x, const std::vector<const float*>& weights,
                                  const std::vector<const float*>& biases, float* out, int threads) const;
    // The same without a tape, a part of the batch at a time where that is possible.
    void infer(const Activation& given, const float* x, const std::vector<const float*>& weights,
               const std::vector<const float*>& biases, float* out, int threads) const;
    // out: what forward wrote; `dout_ours` says how its gradient lies. The tape stays as it is.
    void backward(const Tape& tape, const std::vector<const float*>& weights, const float* out, const float* dout,
                  bool dout_ours, const Gradients& gradients, int threads) const;

  private:
    struct Flow;  // a gradient on its way back
    std::shared_ptr<Tape> run(const Activation& given, const float* x, const std::vector<const float*>& weights,
                              const std::vector<const float*>& biases, float* out, int threads, bool keep) const;
    void plan(const Activation& given, Tape& tape) const;
    void read_input(const Tape& tape, const float* x, int threads) const;
    void run_conv(const Tape& tape, size_t i, const float* weights, const float* bias, float* to, int threads) const;
    void run_linear(const Tape& tape, size_t i, const float* weights, const float* bias, float* to, int threads) const;
    void start_back(const Tape& tape, const float* dout, bool ours, Flow& flow, int threads) const;
    void conv_back(const Tape& tape, size_t i, const float* weights, const float* after, const Gradients& gradients,
                   Flow& flow, int threads) const;
    void linear_back(const Tape& tape, size_t i, const float* weights, const float* after, const Gradients& gradients,
                     Flow& flow, int threads) const;
    void write_input_gradient(const Tape& tape, const Flow& flow, float* dx, int threads) const;

    std::vector<Stage> stages_;
    std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace prunefl
