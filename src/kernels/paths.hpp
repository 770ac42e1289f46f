// Which of the compiled instruction sets this machine runs, and the choice among them.
#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace prunefl {

// The path in use: the fastest, unless PRUNEFL_KERNELS names another.
const Kernels& kernels();
// Names of the paths that this machine can run, the fastest first.
std::vector<std::string> paths();
// Use another path from now on; throws std::invalid_argument for one that this machine lacks.
void use_path(const std::string& name);

}  // namespace prunefl
