#!/bin/sh
# Two containers on a bridge, each in its own network namespace. `sovia agent` runs on the host (its unit: `systemctl enable
# --now sovia-agent`) and vouches for the two ends. Both containers mount the folder of its socket.
set -eu
ENGINE=${ENGINE:-podman}
IMAGE=${IMAGE:-localhost/redis-sovia}
LOCKED="--read-only --cap-drop all --security-opt no-new-privileges --volume /run/sovia:/run/sovia:ro"

$ENGINE run -d --name sovia-redis $LOCKED --user 999:999 "$IMAGE" \
    sovia run -v --trust uid=1000 -- redis-server --protected-mode no --save "" --dir / >/dev/null
trap '$ENGINE rm -f sovia-redis >/dev/null' EXIT
ADDRESS=$($ENGINE inspect sovia-redis --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}')
$ENGINE run --rm $LOCKED --user 1000:1000 --env "ADDRESS=$ADDRESS" "$IMAGE" sh -c '
    until redis-cli -h $ADDRESS ping >/dev/null 2>&1; do sleep 0.1; done
    exec sovia run -v --trust uid=999 -- redis-benchmark -h $ADDRESS -t get -n 300000 -q'
$ENGINE stop sovia-redis >/dev/null
$ENGINE logs sovia-redis
