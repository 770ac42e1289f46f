#!/bin/sh
# Look for bugs in the C++: tools/tidy.sh PYTHON [FILE...], from `make tidy`, with clang-tidy and what .clang-tidy asks for.
set -eu
python=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
build="$here/build/tidy"
cmake -S "$here" -B "$build" -DPython_EXECUTABLE="$(command -v "$python")" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
# clang has no OpenMP of its own: the compiler's header will do, and nothing else of the compiler's
mkdir -p "$build/openmp"
cp "$("${CXX:-c++}" -print-file-name=include/omp.h)" "$build/openmp/"
cd "$here"
[ $# -gt 0 ] || set -- src/kernels/*.cpp src/coding/*.cpp src/core/*.cpp
for file; do
    case $(uname -m)-$file in *86*path_neon.cpp | aarch64-*path_[ap]*.cpp) ;; *) echo "$file" ;; esac
done | xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet --extra-arg="-isystem$build/openmp"
