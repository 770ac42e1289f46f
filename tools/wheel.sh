#!/bin/sh
# Build the wheels into a folder: tools/wheel.sh PYTHON FOLDER. This machine's kind is repaired into a manylinux wheel;
# one for aarch64 is cross-compiled where Debian's tool chain can be had (tools/arm64). OpenMP is not bundled: torch
# brings one, and two in one process would fight for the cores.
set -eu
python=$1
out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
mkdir -p "$out"

"$python" -m pip wheel --quiet --no-deps --wheel-dir "$raw" "$here"
"$python" -m auditwheel repair --exclude libgomp.so.1 --wheel-dir "$out" "$raw"/*.whl

if [ -x "$here/tools/arm64/build.sh" ] && command -v apt-get >/dev/null; then
    "$here/tools/arm64/setup.sh" "$python"
    "$here/tools/arm64/build.sh" "$raw/arm64"
    # auditwheel reads the wheel's own architecture, so this works across
    "$python" -m auditwheel repair --exclude libgomp.so.1 --wheel-dir "$out" "$raw"/arm64/*.whl
else
    echo "aarch64: not built (needs Debian's tool chain)"
fi
ls -l "$out"
