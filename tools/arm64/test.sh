#!/bin/sh
# Run what needs no torch on an emulated Cortex-A72: kernels, wire and core, as built for aarch64 (`make test-arm64`).
# It proves that the numbers are right, not how fast they come. Further arguments are pytest's, in place of the rooms.
set -eu
host_python=${1:-python3}
[ $# = 0 ] || shift
here=$(cd "$(dirname "$0")/../.." && pwd)
at="$here/build/arm64"
"$here/tools/arm64/setup.sh" "$host_python"
rm -rf "$at/wheel" "$at/package"
"$here/tools/arm64/build.sh" "$at/wheel"
# Beside the environment and not in it, so that the next run tests what was built for it.
"$host_python" -m zipfile --extract "$at"/wheel/*.whl "$at/package"

cd "$here"
# The commands load networks, which are torch's.
[ $# -gt 0 ] || set -- tests/kernels tests/wire tests/core --ignore tests/wire/test_wire_commands.py
# CI's inputs have no deadline, which an emulator would miss.
CI=true PYTHONPATH="$at/package" OMP_NUM_THREADS=2 "$at/venv/bin/python" -m pytest -p no:cacheprovider "$@"
