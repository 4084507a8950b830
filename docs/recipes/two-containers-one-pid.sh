#!/bin/sh
# Two containers that share a network and a PID namespace, as the same user. Either could trace the other, so no rule is needed.
set -eu
ENGINE=${ENGINE:-podman}
IMAGE=${IMAGE:-localhost/redis-sovia}
LOCKED="--read-only --cap-drop all --security-opt no-new-privileges --user 999:999"

$ENGINE run -d --name sovia-redis --network none $LOCKED "$IMAGE" \
    sovia run -v -- redis-server --save "" --dir / >/dev/null
trap '$ENGINE rm -f sovia-redis >/dev/null' EXIT
$ENGINE run --rm --network container:sovia-redis --pid container:sovia-redis $LOCKED "$IMAGE" sh -c '
    until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
    exec sovia run -v -- redis-benchmark -t get -n 100000 -q'
$ENGINE stop sovia-redis >/dev/null
$ENGINE logs sovia-redis
