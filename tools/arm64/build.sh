#!/bin/sh
# Build the wheel for aarch64 by cross compilation: tools/arm64/build.sh FOLDER, after setup.sh. The emulated Python
# runs the build, so that tags and headers are its own; compiler, CMake and Ninja are this machine's.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
CMAKE_TOOLCHAIN_FILE="$here/tools/arm64/aarch64.cmake" "$here/build/arm64/venv/bin/python" -m pip wheel --quiet \
    --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$1" "$here"
