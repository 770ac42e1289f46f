#!/bin/sh
# Run the tests of all C++ modules, and the fuzzer of the wire, under AddressSanitizer and UBSan: `make sanitize`, or
# `benchmarks/sanitize.sh PYTHON` with an interpreter that has the package's dependencies and nanobind, cmake, pytest.
# Further arguments are pytest's, in place of the tests named below.
set -eu
python=${1:-python3}
[ $# = 0 ] || shift
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
export LD_PRELOAD="$asan $ubsan $cxx" ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 OMP_NUM_THREADS=2
# An editable install puts its own modules before PYTHONPATH by a hook that `site` loads: without `site` there is none.
packages=$(LD_PRELOAD='' "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
export PYTHONPATH="$build/package:$packages"
"$python" -S - "$build" <<'CHECK'
import sys
from prunefl import _coding, _core, _kernels

for module in (_coding, _core, _kernels):
    if not module.__file__.startswith(sys.argv[1]):
        sys.exit(f"{module.__file__} is loaded, must be the instrumented one in {sys.argv[1]}")
    if b"__asan_report" not in open(module.__file__, "rb").read():
        sys.exit(f"{module.__file__} is not instrumented")
CHECK
# A sanitizer takes memory as it likes, so that none is counted here.
"$python" -S "$here/benchmarks/fuzz_wire.py" --inputs "${FUZZ_INPUTS:-50000}" --seed 1 --any-memory
cd "$here"
[ $# -gt 0 ] || set -- tests/wire tests/core tests/kernels tests/local/test_native_graphs.py tests/local/test_plan_format.py \
    tests/local/test_layers.py tests/local/test_chain.py tests/local/test_chain_equals_dense.py
"$python" -S -m pytest -p no:cacheprovider --capture=no "$@" \
    -k "not memory and not papers_networks and not bench and not without_torch"
