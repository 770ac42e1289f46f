#!/bin/sh
# Run the kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`, or
# `benchmarks/sanitize.sh PYTHON` with an interpreter that has the package's dependencies and nanobind, cmake, pytest.
set -eu
python=${1:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
build=${SANITIZE_BUILD:-"$here/build/sanitize"}

cmake -S "$here" -B "$build" -DPython_EXECUTABLE="$(command -v "$python")" -DPRUNEFL_SANITIZE=ON \
    -DCMAKE_BUILD_TYPE=None >/dev/null
cmake --build "$build" --parallel 2

# The tests run on a copy of the package, with the instrumented modules in place of the ordinary ones.
rm -rf "$build/package"
mkdir -p "$build/package"
cp -R "$here/src/prunefl" "$build/package/"
find "$build/package" -name '*.so' -delete
find "$build/src" -name '_*.so' -exec cp {} "$build/package/prunefl/" \;

asan=$(g++ -print-file-name=libasan.so)
ubsan=$(g++ -print-file-name=libubsan.so)
cxx=$(g++ -print-file-name=libstdc++.so)
# Nothing is captured: a sanitizer ends the process, and its message would be lost. Python and torch keep memory
# until the end: leaks are theirs. Exceptions need libstdc++ loaded beside the sanitizer.
LD_PRELOAD="$asan $ubsan $cxx" ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 OMP_NUM_THREADS=2 \
    PYTHONPATH="$build/package" "$python" -m pytest -p no:cacheprovider --capture=no "$here/tests/kernels" "$here/tests/local" \
    -k "not memory and not papers_networks and not bench"
