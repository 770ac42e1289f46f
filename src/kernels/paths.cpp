// Choosing the instruction set once, when the module is imported.
#include "paths.hpp"

#include <cstdlib>
#include <stdexcept>

namespace prunefl {

#if defined(__x86_64__)
extern const Kernels path_avx512, path_avx2;
#endif
#if defined(__aarch64__)
extern const Kernels path_neon;
#else
extern const Kernels path_plain;
#endif

namespace {

std::vector<const Kernels*> runnable() {
    std::vector<const Kernels*> found;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        found.push_back(&path_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&path_avx2);
#endif
#if defined(__aarch64__)
    found.push_back(&path_neon);
#else
    found.push_back(&path_plain);
#endif
    return found;
}

const Kernels* named(const std::string& name) {
    std::string known;
    for (const Kernels* path : runnable()) {
        if (name == path->name) return path;
        known += known.empty() ? path->name : std::string(", ") + path->name;
    }
    throw std::invalid_argument("PRUNEFL_KERNELS=" + name + ", this machine runs " + known);
}

const Kernels* first_choice() {
    const char* wanted = std::getenv("PRUNEFL_KERNELS");
    return wanted && *wanted ? named(wanted) : runnable().front();
}

const Kernels*& current() {
    static const Kernels* path = first_choice();
    return path;
}

}  // namespace

const Kernels& kernels() { return *current(); }

std::vector<std::string> paths() {
    std::vector<std::string> names;
    for (const Kernels* path : runnable()) names.push_back(path->name);
    return names;
}

void use_path(const std::string& name) { current() = named(name); }

}  // namespace prunefl
