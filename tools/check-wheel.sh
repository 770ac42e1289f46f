#!/bin/sh
# Install the wheel where no compiler is, and use it: tools/check-wheel.sh PYTHON FOLDER, as root on Debian. The machine is
# a bare Debian with Python, made by debootstrap in build/bare; packages come from a folder of wheels, not from a network.
set -eu
python=$1
dist=$2
here=$(cd "$(dirname "$0")/.." && pwd)
bare="$here/build/bare"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
command -v debootstrap >/dev/null || apt-get install --quiet=2 --yes --no-install-recommends debootstrap
[ -e "$bare/usr/bin/python3" ] ||
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,libgomp1 "$suite" "$bare" http://deb.debian.org/debian

# the newest, where several versions were built
wheel=$(ls -t "$dist"/prunefl-*-"$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"-*x86_64.whl | head -n 1)
rm -rf "$bare"/wheels/prunefl-* "$bare/venv" "$bare/venv-client" "$bare/try"
"$python" -m pip download --quiet --dest "$bare/wheels" "$wheel[demo,flower]"

mkdir -p "$bare/try"
cp "$here/tools/check-wheel-inside.sh" "$bare/try/"
chroot "$bare" /bin/sh /try/check-wheel-inside.sh

arm=$(ls -t "$dist"/prunefl-*aarch64.whl 2>/dev/null | head -n 1)
[ -n "$arm" ] || exit 0
rm -rf "$here/build/arm64/check"
"$python" -m zipfile --extract "$arm" "$here/build/arm64/check"
PYTHONPATH="$here/build/arm64/check" "$here/build/arm64/venv/bin/python" "$here/tools/check-wheel-arm64.py"
