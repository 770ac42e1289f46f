#!/bin/sh
# Install the wheels where no compiler is, and use them: tools/check-wheel.sh PYTHON FOLDER, as root on Debian. The machines
# are bare Debians with Python, made by debootstrap in build: bookworm (3.11) is server and client, trixie (3.13) a client by
# the wheel for 3.12 and later. Packages come from a folder of wheels, not from a network.
set -eu
python=$1
dist=$2
here=$(cd "$(dirname "$0")/.." && pwd)
old="$here/build/bare" # Python 3.11
new="$here/build/bare-new"
[ "$(id -u)" = 0 ] || { echo "make check-wheel: must be root, for chroot"; exit 1; }
command -v debootstrap >/dev/null || apt-get install --quiet=2 --yes --no-install-recommends debootstrap

# the newest, where several versions were built
newest() { ls -t "$dist"/prunefl-*-$1-*"$2".whl 2>/dev/null | head -n 1; }

# make_machine FOLDER SUITE: a bare Debian, with nothing of an earlier check
make_machine() {
    [ -e "$1/usr/bin/python3" ] ||
        debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,libgomp1 "$2" "$1" http://deb.debian.org/debian
    rm -rf "$1"/wheels/prunefl-* "$1/venv" "$1/venv-client" "$1/try"
    mkdir -p "$1/try" "$1/wheels"
    cp "$here/tools/check-wheel-inside.sh" "$1/try/"
}
# on FOLDER STEP...: a step of check-wheel-inside.sh there
on() {
    machine=$1
    shift
    chroot "$machine" /bin/sh /try/check-wheel-inside.sh "$@"
}

wheel=$(newest cp311 x86_64)
[ -n "$wheel" ] || { echo "$dist: no wheel for Python 3.11 on x86-64; first: make wheel"; exit 1; }
make_machine "$old" bookworm
"$python" -m pip download --quiet --dest "$old/wheels" --python-version 3.11 --only-binary=:all: "$wheel[demo,flower]"
on "$old" use
on "$old" lean
clients=2

stable=$(newest cp312-abi3 x86_64)
if [ -n "$stable" ]; then
    make_machine "$new" trixie
    version=$(chroot "$new" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -m pip download --quiet --dest "$new/wheels" --python-version "$version" --only-binary=:all: "$stable[client]" mlxtend
    on "$new" lean
    clients=3
else
    echo "$dist: no wheel for Python 3.12 and later, so that it is not checked"
fi

# a federation on loopback: one client with torch, the others as in their container, without
on "$old" server $clients &
server=$!
on "$old" client 1 $clients &
second=$!
third=""
[ $clients = 2 ] || { on "$new" client 2 $clients & third=$!; }
for process in $server $second $third; do wait "$process"; done
echo "check-wheel: installed, ran the demo, trained and joined a federation of $clients without a compiler"

arm=$(newest '*' aarch64)
[ -n "$arm" ] || exit 0
rm -rf "$here/build/arm64/check"
"$python" -m zipfile --extract "$arm" "$here/build/arm64/check"
PYTHONPATH="$here/build/arm64/check" "$here/build/arm64/venv/bin/python" "$here/tools/check-wheel-arm64.py"
