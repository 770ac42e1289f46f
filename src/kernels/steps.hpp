// The steps that a program can have and that have a file of their own.
#pragma once
#include "program.hpp"

namespace prunefl {

std::unique_ptr<Step> make_conv(const Operation&, int index, const Program&, Parameters&);
std::unique_ptr<Step> make_linear(const Operation&, int index, const Program&, Parameters&);
std::unique_ptr<Step> make_blend(const Operation&, int index, const Program&, Parameters&);
std::unique_ptr<Step> make_sample_norm(const Operation&, int index, const Program&, Parameters&);
std::unique_ptr<Step> make_tokens(const Operation&, int index, const Program&, Parameters&);

inline PoolShape pool_shape(const std::vector<int>& sizes, int at) {
    return {sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3], sizes[at + 4], sizes[at + 5]};
}

}  // namespace prunefl
