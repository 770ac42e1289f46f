// A network as a list of operations on values; what prunefl.local.native has checked and lowered.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "pattern.hpp"

namespace prunefl {

// Of one sample.
struct Shape {
    int channels, height, width;
    ptrdiff_t size() const { return static_cast<ptrdiff_t>(channels) * height * width; }
};

// One operation. What `sizes`, `factors` and `tensors` hold depends on the kind; a tensor of -1 is none.
struct Operation {
    std::string kind;
    std::vector<int> inputs;  // values
    int output;
    std::vector<int> sizes;
    std::vector<float> factors;
    std::vector<int> tensors;
};

// Value 0 is the input; the last operation makes the logits.
struct Plan {
    std::vector<Shape> values;
    std::vector<Operation> operations;
};

// A parameter or buffer in the order of the kernels; of a layer that computes densely, row-major with all positions.
struct Parameter {
    std::vector<float> value, gradient;
    std::shared_ptr<const LinearPattern> linear;  // a weight has one of these two
    std::shared_ptr<const ConvPattern> conv;
    std::vector<uint8_t> live;  // of a weight that computes densely: a bit each, the first in the lowest
    bool trained = false;
    bool dense() const { return !live.empty(); }
    std::vector<float> memory[3];  // what the optimiser remembers: up to two moments, and the anchor that it pulls to
    Total total{nullptr, false};   // where its gradient at all positions is added meanwhile
};
typedef std::vector<Parameter> Parameters;

ConvShape conv_shape(const Operation& operation, const Plan& plan);

}  // namespace prunefl
