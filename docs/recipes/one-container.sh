#!/bin/sh
# A server and its client in one container, both started by one `sovia run`: nothing else is needed.
set -eu
ENGINE=${ENGINE:-podman}
IMAGE=${IMAGE:-localhost/redis-sovia}

$ENGINE run --rm --network none --user 999:999 --cap-drop all --security-opt no-new-privileges --read-only "$IMAGE" \
    sovia run -v -- sh -c '
        redis-server --save "" --dir / --daemonize no >/dev/null &
        until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
        redis-benchmark -t get -n 100000 -q
        redis-cli shutdown nosave
        wait'
