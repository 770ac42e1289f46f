#!/usr/bin/env bash
# Three cameras in a factory: each keeps its pictures, the server has none. Everything on this machine, over TLS with
# keys, as it would be over a network; docs/federation.md goes through it. Ends all that it has started.
#   examples/factory/run.sh [FOLDER]     (default: ./factory, which must not exist)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-factory}
port=${PORT:-9092}
mkdir "$folder"
cd "$folder"

children=()
trap 'kill "${children[@]}" 2>/dev/null || true; wait' EXIT

python "$here/make_images.py" cameras
prunefl keys keys --clients 3 --host localhost > keys.log
prunefl data describe cameras/camera-0 --clients 3 > task.toml
cat "$here/training.toml" >> task.toml

prunefl server task.toml --keys keys --host 127.0.0.1 --port "$port" --out run > server.log 2>&1 &
children+=($!)
until grep -q listening server.log; do
  kill -0 "${children[0]}" 2>/dev/null || { cat server.log >&2; exit 1; }
  sleep 0.2
done
for i in 0 1 2; do
  prunefl client --server "localhost:$port" --keys "keys/client-$i" --data "cameras/camera-$i" \
    --state "state/$i" > "client-$i.log" 2>&1 &
  children+=($!)
done

for child in "${children[@]}"; do
  wait -n || { tail -n 3 server.log client-*.log >&2; exit 1; }
done
prunefl status run
grep -o 'at 3 clients [0-9.]*' server.log | tail -n 1 | sed 's/at 3 clients/accuracy at the clients:/'
