#!/bin/sh
# Build the wheels into a folder: tools/wheel.sh PYTHON FOLDER. This machine's kind is repaired into a manylinux wheel, for
# Python 3.11 and, in one, for all from 3.12 on; one for aarch64 is cross-compiled where Debian's tool chain can be had
# (tools/arm64). OpenMP is not bundled: torch brings one, and two in one process would fight for the cores.
set -eu
python=$1
out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
mkdir -p "$out"

# build_with PYTHON: its wheel, repaired, in $out
build_with() {
    rm -f "$raw"/*.whl
    # this pip, in that Python, which may have none
    "$python" -m pip --python "$1" wheel --quiet --no-deps --wheel-dir "$raw" "$here"
    "$python" -m auditwheel repair --exclude libgomp.so.1 --wheel-dir "$out" "$raw"/*.whl
}

# A name may stand for nothing (pyenv's shims) or for a Python that nothing can be built for (Debian's without python3-dev),
# so that each is asked. $1: "==" for 3.11, ">=" for 3.12 and later
find_python() {
    for name in "$python" python3.11 python3.12 python3.13 python3.14 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9]*/bin/python3; do
        if "$name" -c "import sys, sysconfig; open(sysconfig.get_path('include') + '/Python.h'); sys.exit(not sys.version_info[:2] $1)" 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
}

for kind in "== (3, 11)" ">= (3, 12)"; do
    found=$(find_python "$kind")
    if [ -n "$found" ]; then
        build_with "$found"
    else
        echo "no Python $kind here, so no wheel for it: install one, or take it from the hosted CI (job wheels)"
    fi
done

if [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null; then
    "$here/tools/arm64/setup.sh" "$python"
    "$here/tools/arm64/build.sh" "$raw/arm64"
    # auditwheel reads the wheel's own architecture, so this works across
    "$python" -m auditwheel repair --exclude libgomp.so.1 --wheel-dir "$out" "$raw"/arm64/*.whl
else
    echo "aarch64: not cross-compiled (that needs Debian's tool chain on x86-64)"
fi
ls -l "$out"
