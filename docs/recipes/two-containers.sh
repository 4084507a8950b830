#!/bin/sh
# A server and a client in two containers of one network namespace, as different users. Each sees only its own processes, so
# neither could trace the other. `--trust` permits shared memory nevertheless. It names the other user by number; `--trust any`
# trusts every user in this network namespace.
set -eu
ENGINE=${ENGINE:-podman}
IMAGE=${IMAGE:-localhost/redis-sovia}
LOCKED="--read-only --cap-drop all --security-opt no-new-privileges"

$ENGINE run -d --name sovia-redis --network none $LOCKED --user 999:999 "$IMAGE" \
    sovia run -v --trust uid=1000 -- redis-server --save "" --dir / >/dev/null
trap '$ENGINE rm -f sovia-redis >/dev/null' EXIT
$ENGINE run --rm --network container:sovia-redis $LOCKED --user 1000:1000 "$IMAGE" sh -c '
    until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
    exec sovia run -v --trust uid=999 -- redis-benchmark -t get -n 100000 -q'
$ENGINE stop sovia-redis >/dev/null
$ENGINE logs sovia-redis
