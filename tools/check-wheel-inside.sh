#!/bin/sh
# What check-wheel.sh does on a bare machine, step by step: use (install, train, run the demo), lean (install a client
# without torch), server N (a federation of N, with one client here), client I N. No compiler is about.
set -eu
cd /try
export HOME=/try PIP_DISABLE_PIP_VERSION_CHECK=1
for tool in cc gcc g++ clang cmake ninja; do
    if command -v "$tool"; then echo "there is a compiler here: $tool"; exit 1; fi
done
[ -e /dev/null ] || mknod -m 666 /dev/null c 1 3
[ -e /dev/urandom ] || mknod -m 666 /dev/urandom c 1 9
quick="model.name=lenet run.rounds=4 run.eval_every=2 pruning.interval=2 initial.max_passes=6 initial.samples=60"
port=19092

case $1 in
use)
    python3 -m venv /venv
    /venv/bin/pip install --quiet --no-index --find-links /wheels 'prunefl[demo,flower]'
    PATH="/venv/bin:$PATH"
    prunefl --version
    python -m prunefl --version
    python -c 'from prunefl import _kernels; print("instruction sets:", *_kernels.paths())'
    # shellcheck disable=SC2086 # several settings
    prunefl run $quick --out runs/one
    prunefl inspect runs/one
    prunefl demo --out runs/demo
    ;;
lean)
    python3 -m venv /venv-client
    /venv-client/bin/pip install --quiet --no-index --find-links /wheels 'prunefl[client]' mlxtend
    if /venv-client/bin/python -c 'import torch' 2>/dev/null; then echo "there is torch in the client's environment"; exit 1; fi
    /venv-client/bin/prunefl --version
    ;;
server)
    # shellcheck disable=SC2086 # several settings
    /venv/bin/prunefl server digits $quick "data.clients=$2" server.deadline=120 --insecure --port $port --out runs/server &
    server=$!
    /venv/bin/prunefl client --server 127.0.0.1:$port --insecure --share "0/$2" --state state-0 &
    client=$!
    wait $server
    wait $client
    /venv/bin/prunefl inspect runs/server | head -n 3
    ;;
client)
    exec /venv-client/bin/prunefl client --server 127.0.0.1:$port --insecure --share "$2/$3" --state "state-$2"
    ;;
esac
