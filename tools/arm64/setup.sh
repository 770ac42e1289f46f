#!/bin/sh
# Make a Python for aarch64 that runs here under qemu, with the headers to compile for it: build/arm64/venv/bin/python.
# Needs Debian's apt; installs the cross compiler and qemu where they are missing, all else stays in build/arm64.
set -eu
host_python=${1:-python3}
here=$(cd "$(dirname "$0")/../.." && pwd)
at="$here/build/arm64"
root="$at/root"
[ -e "$at/ready" ] && [ "$at/ready" -nt "$0" ] && exit 0

missing=""
command -v aarch64-linux-gnu-g++ >/dev/null || missing="$missing g++-aarch64-linux-gnu"
command -v qemu-aarch64-static >/dev/null || missing="$missing qemu-user-static"
if [ -n "$missing" ]; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update --quiet=2
    # shellcheck disable=SC2086 # several packages
    $sudo apt-get install --quiet=2 --yes --no-install-recommends $missing
fi

# Debian's python3 for arm64 and all that it needs, unpacked in a folder. apt keeps its books there, too: the
# machine's own list of packages and architectures stays as it is.
rm -rf "$at"
mkdir -p "$at/apt/lists/partial" "$at/apt/archives/partial" "$at/apt/sources" "$root"
: >"$at/apt/status"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" \
    >"$at/apt/sources.list"
cat >"$at/apt/apt.conf" <<CONF
Dir::State "$at/apt";
Dir::State::status "$at/apt/status";
Dir::Cache "$at/apt";
Dir::Etc::sourcelist "$at/apt/sources.list";
Dir::Etc::sourceparts "$at/apt/sources";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
CONF
APT_CONFIG="$at/apt/apt.conf"
export APT_CONFIG
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends --download-only python3 libpython3-dev libgomp1 libstdc++6
for package in "$at"/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
rm -rf "$at/apt"

# An environment whose interpreter is a script: qemu with the emulated Python. What Python itself starts by
# sys.executable, and CMake by what it is told, is that script, so that both need not know.
mkdir -p "$at/venv/bin"
cat >"$at/venv/bin/python" <<SCRIPT
#!/bin/sh
exec qemu-aarch64-static -cpu cortex-a72 -L "$root" -0 "$at/venv/bin/python" "$root/usr/bin/python3" "\$@"
SCRIPT
chmod +x "$at/venv/bin/python"
echo "home = $root/usr/bin" >"$at/venv/pyvenv.cfg"
version=$("$at/venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# Packages are chosen by the machine's own pip, which is quicker than an emulated one.
"$host_python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --target "$at/venv/lib/python$version/site-packages" \
    --python-version "$version" --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 --only-binary=:all: \
    numpy safetensors typer rich pytest hypothesis pip scikit-build-core nanobind setuptools-scm
touch "$at/ready"
