#!/bin/sh
# Compile the kernels for machines that are not at hand and compare them with plain loops: NEON under qemu-aarch64
# (Debian: g++-aarch64-linux-gnu, qemu-user), and vectors of sixteen floats, AVX-512's width, in portable code.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources="$here/benchmarks/emulate.cpp $here/src/kernels/chain_forward.cpp $here/src/kernels/chain_backward.cpp
$here/src/kernels/conv_pattern.cpp $here/src/kernels/linear_pattern.cpp $here/src/kernels/paths.cpp"
flags="-std=c++17 -O1 -fopenmp -ffp-contract=fast -DPRUNEFL_NO_UNROLL -Wno-psabi -I$here/src/kernels"

# Sixteen lanes, but no AVX-512 instruction: the code that the compiler makes of it runs anywhere.
printf '#define PRUNEFL_PATH path_plain\n#define PRUNEFL_NAME "sixteen lanes"\n#define PRUNEFL_LANES 16\n#include "path.inl"\n' >"$work/wide.cpp"
g++ $flags -DPRUNEFL_PLAIN_ONLY $sources "$work/wide.cpp" -o "$work/wide"
"$work/wide"

if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then
    aarch64-linux-gnu-g++ -static $flags $sources "$here/src/kernels/path_plain.cpp" -o "$work/neon"
    qemu-aarch64 "$work/neon"
else
    echo "NEON not tried: aarch64-linux-gnu-g++ and qemu-aarch64 are needed"
fi
