#!/bin/sh
# What check-wheel.sh does on the bare machine: install, run the demo, train, and join a federation, with no compiler about.
set -eu
cd /try
export HOME=/try PIP_DISABLE_PIP_VERSION_CHECK=1
for tool in cc gcc g++ clang cmake ninja; do
    if command -v "$tool"; then echo "there is a compiler here: $tool"; exit 1; fi
done
[ -e /dev/null ] || mknod -m 666 /dev/null c 1 3
[ -e /dev/urandom ] || mknod -m 666 /dev/urandom c 1 9
python3 -m venv /venv
/venv/bin/pip install --quiet --no-index --find-links /wheels 'prunefl[demo,flower]'
PATH="/venv/bin:$PATH"
prunefl --version
python -c 'from prunefl import _kernels; print("instruction sets:", *_kernels.paths())'

quick="model.name=lenet run.rounds=4 run.eval_every=2 pruning.interval=2 initial.max_passes=6 initial.samples=60"
prunefl run $quick --out runs/one
prunefl inspect runs/one
prunefl demo --out runs/demo

# a federation of two on loopback; the second client is as in its container, without torch
python3 -m venv /venv-client
/venv-client/bin/pip install --quiet --no-index --find-links /wheels 'prunefl[client]' mlxtend
if /venv-client/bin/python -c 'import torch' 2>/dev/null; then echo "there is torch in the client's environment"; exit 1; fi
prunefl server digits $quick data.clients=2 server.deadline=120 --insecure --port 19092 --out runs/server &
server=$!
prunefl client --server 127.0.0.1:19092 --insecure --share 0/2 --state state-0 &
/venv-client/bin/prunefl client --server 127.0.0.1:19092 --insecure --share 1/2 --state state-1 &
wait "$server"
prunefl inspect runs/server | head -n 3
wait
echo "check-wheel: installed, ran the demo, trained and joined a federation without a compiler"
