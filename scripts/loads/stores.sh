# Stores of keys: Redis by itself, with a file, a replica, in a cluster, as a board of messages; memcached.
# shellcheck shell=bash disable=SC2034,SC2154
subject Stores
packages+=(redis-server redis-tools memcached libmemcached-tools)

# redis_server HOW PORT OPTION...: starts a server in a folder of its own, `$folder/redis.PORT`.
redis_server() {
    mkdir -p "$folder/redis.$2"
    serve "$1" "$2" redis-server --port "$2" --bind 127.0.0.1 --save '' --dir "$folder/redis.$2" --enable-debug-command yes \
        "${@:3}"
}

# requests HOW PORT COUNT OPTION...: prints requests per second by redis-benchmark, which never ends after a node of
# its cluster has died, over any stack.
requests() {
    over "$1" timeout 60 redis-benchmark -p "$2" -q -n "${@:3}" 2>"$folder/errors" |
        tr '\r' '\n' | sed -n 's/.*: \([0-9.]*\) requests per second.*/\1/p' | tail -1
    grep -v '^WARNING: Could not fetch server CONFIG' "$folder/errors" >&2
}

# ask_redis HOW PORT COMMAND...: prints one answer.
ask_redis() { over "$1" redis-cli -p "$2" "${@:3}"; }

# redis HOW REQUESTS OPTION...: prints requests per second.
redis() {
    local how=$1 at
    at=$(port)
    redis_server "$how" "$at"
    requests "$how" "$at" "${@:2}"
    equal 'ping' "$(ask_redis "$how" "$at" ping)" PONG
    stop
}

# Sends requests that go to a file, which another server reads afterwards.
redis_file() {
    local how=$1 at before
    at=$(port)
    rm -rf "$folder/redis.$at"
    redis_server "$how" "$at" --appendonly yes
    requests "$how" "$at" 200000 -t set -c 50 -r 100000 -d 100
    before=$(redis_content "$how" "$at")
    stop
    redis_server "$how" "$at" --appendonly yes
    # Redis listens before it has read the file.
    until_is "$before" redis_content "$how" "$at" || equal 'after a restart' "$(redis_content "$how" "$at")" "$before"
    stop
    rm -rf "$folder/redis.$at"
}

# Prints nothing if it does not answer.
redis_content() {
    local keys digest
    keys=$(ask_redis "$1" "$2" dbsize 2>/dev/null) && digest=$(ask_redis "$1" "$2" debug digest 2>/dev/null) && echo "$keys $digest"
}

# until_is TEXT COMMAND...: waits up to half a minute until the command prints TEXT.
until_is() {
    local tries
    for tries in $(seq 150); do
        [ "$("${@:2}" 2>&1)" != "$1" ] || return 0
        sleep 0.2
    done
    return 1
}

# Sends requests while a replica is kept up to date, and checks the replica afterwards.
redis_replica() {
    local how=$1 at
    at=$(port)
    redis_server "$how" "$at" --repl-diskless-sync-delay 0
    ask_redis "$how" "$at" debug populate 100000 key 100 >/dev/null
    redis_server "$how" $((at + 1)) --replicaof 127.0.0.1 "$at"
    until_is $'up\r' redis_link "$how" $((at + 1)) || { failed 'the replica has not met its master' && return; }
    requests "$how" "$at" 200000 -t set -c 50 -r 100000 -d 100
    # WAIT waits for the replica to have this connection's last write, and so all earlier writes.
    [ "$(printf 'set last 1\nwait 1 60000\n' | ask_redis "$how" "$at" | tail -1)" = 1 ] || failed 'the replica has not got all'
    equal 'replica' "$(redis_content "$how" $((at + 1)))" "$(redis_content "$how" "$at")"
    stop
}

redis_link() { ask_redis "$1" "$2" info replication | sed -n 's/^master_link_status://p'; }

redis_cluster() {
    local how=$1 at node nodes=() keys=0
    at=$(port)
    for node in $at $((at + 1)) $((at + 2)); do
        rm -rf "$folder/redis.$node"
        redis_server "$how" "$node" --cluster-enabled yes --cluster-port $((node + 5))
        nodes+=("127.0.0.1:$node")
    done
    over "$how" redis-cli --cluster create "${nodes[@]}" --cluster-yes >"$folder/cluster.log" 2>&1
    for node in $at $((at + 1)) $((at + 2)); do
        until_is $'cluster_state:ok\r' redis_state "$how" "$node" || { failed "no cluster: $(tail -3 "$folder/cluster.log")" && return; }
    done
    requests "$how" "$at" 200000 -t set -c 48 -r 100000 --cluster
    # Keys whose slots are on all three servers, requested from the first.
    seq 100 | sed 's/.*/set one& &/' | over "$how" redis-cli -c -p "$at" >/dev/null
    seq 100 | sed 's/.*/get one&/' | over "$how" redis-cli -c -p "$at" 2>&1 | grep -v '^-> ' >"$folder/got"
    seq 100 >"$folder/published"
    if grep -q '^[^0-9]' "$folder/got"; then
        failed "cluster: $(grep -m 1 '^[^0-9]' "$folder/got")"
    else
        same "$folder/published" "$folder/got"
    fi
    for node in $at $((at + 1)) $((at + 2)); do keys=$((keys + $(ask_redis "$how" "$node" dbsize || echo 0))); done
    [ $keys -gt 50000 ] || failed "$keys keys in the cluster"
    stop
}

redis_state() { ask_redis "$1" "$2" cluster info | grep cluster_state; }

# Prints messages per second from a publisher to a subscriber.
redis_board() {
    local how=$1 at begun tries listener count=20000
    at=$(port)
    redis_server "$how" "$at"
    become "$how" redis-cli -p "$at" subscribe board >"$folder/got" 2>/dev/null &
    listener=$!
    servers+=("$listener")
    until_is 1 redis_listeners "$how" "$at" || { failed 'no client listens' && return; }
    begun=$EPOCHREALTIME
    seq $count | sed 's/^/publish board /' | over "$how" redis-cli -p "$at" >"$folder/told"
    for tries in $(seq 3000); do
        [ "$(tail -1 "$folder/got")" != $count ] || break
        sleep 0.01
    done
    since "$begun" $count
    # Each message arrives as three lines; the first three lines report the subscription.
    seq $count >"$folder/published"
    tail -n +4 "$folder/got" | sed -n 'n;n;p' >"$folder/arrived"
    same "$folder/published" "$folder/arrived"
    [ "$(sort -u "$folder/told")" = 1 ] || failed 'there was not one listener'
    stop
}

redis_listeners() { ask_redis "$1" "$2" pubsub numsub board | tail -1; }

cache() {
    local how=$1 at
    at=$(port)
    serve "$how" "$at" memcached -u "$who" -p "$at" -l 127.0.0.1 -t 1
    over "$how" memcaslap -s "127.0.0.1:$at" -T 1 -c 32 -t 2s --verify=0.1 >"$folder/memcaslap" 2>/dev/null
    sed -n 's/.*TPS: \([0-9]*\).*/\1/p' "$folder/memcaslap" | tail -1
    grep -E '^(verify_(misses|failed)|get_misses): *[1-9]' "$folder/memcaslap" | grep -q verify_failed &&
        wrong "memcached: $(grep verify_failed "$folder/memcaslap")"
    stop
}

if load redis redis-server redis-benchmark; then
    for test in get set; do
        row "Redis ${test^^}, 50 connections, 1/s" redis 300000 -t $test -c 50
        row "Redis ${test^^}, 1 connection, 1/s" redis 100000 -t $test -c 1
        row "Redis ${test^^}, 50 connections, pipelines of 64, 1/s" redis 3000000 -t $test -c 50 -P 64
    done
fi
load redis-file redis-server redis-benchmark && row 'Redis SET, saved to an append-only file, 1/s' redis_file
load redis-replica redis-server redis-benchmark && row 'Redis SET, copied to a replica, 1/s' redis_replica
load redis-cluster redis-server redis-benchmark && row 'Redis SET, cluster of three servers, 1/s' redis_cluster
load redis-board redis-server redis-cli && row 'Redis PUBLISH to one subscriber, 1/s' redis_board
load memcached memcached memcaslap && row 'memcached, 32 connections, 1/s' cache
