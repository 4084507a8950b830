# Brokers and libraries for messages: Mosquitto, RabbitMQ, beanstalkd, ZeroMQ, gRPC.
# shellcheck shell=bash disable=SC2034,SC2154
subject Messages
packages+=(mosquitto mosquitto-clients rabbitmq-server python3-pika beanstalkd python3-zmq python3-grpcio
    libgrpc++-dev g++ pkg-config)

# Prints messages per second from a publisher to a subscriber.
mosquitto_messages() {
    local how=$1 at begun listener figure
    at=$(port)
    printf 'listener %s 127.0.0.1\nallow_anonymous true\nuser %s\nmax_queued_messages 0\n' "$at" "$who" >"$folder/mosquitto.conf"
    serve "$how" "$at" mosquitto -c "$folder/mosquitto.conf"
    over "$how" mosquitto_sub -p "$at" -t matrix -q 1 -C 20000 -W 60 >"$folder/got" &
    listener=$!
    sleep 0.5
    seq 20000 >"$folder/published"
    begun=$EPOCHREALTIME
    # mosquitto_pub never stops looking for a broker that has died, over any stack.
    over "$how" timeout 60 mosquitto_pub -p "$at" -t matrix -q 1 -l <"$folder/published"
    wait $listener
    figure=$(since "$begun" 20000)
    same "$folder/published" "$folder/got" && echo "$figure"
    stop
}

# pair HOW PROGRAM ARGUMENT...: runs PROGRAM as server and as client. The client prints the figure, and on standard
# error "differs" for each message that has changed on its way.
pair() {
    local how=$1 at
    at=$(port)
    serve "$how" "$at" "$2" "${@:3}" serve "$at"
    client "$how" "$2" "${@:3}" ask "$at"
    stop
}

# client HOW COMMAND...: prints its figure, unless it reports wrong data.
client() {
    over "$@" 2>"$folder/client.log" || failed "$(tail -3 "$folder/client.log")"
    ! grep -q differs "$folder/client.log" || wrong "$(grep differs "$folder/client.log" | head -3)"
}

rabbit() {
    local how=$1 at tries
    at=$(port)
    cat >"$folder/rabbit.conf" <<CONFIG
listeners.tcp.1 = 127.0.0.1:$at
distribution.listener.interface = 127.0.0.1
distribution.listener.port_range.min = $((at + 1))
distribution.listener.port_range.max = $((at + 1))
log.console = true
CONFIG
    # Bypass Debian's script, which becomes another user. All files and names belong to this load.
    serve "$how" "$at" env HOME="$folder" ERL_EPMD_PORT=$((at + 2)) ERL_EPMD_ADDRESS=127.0.0.1 LC_ALL=C.UTF-8 \
        RABBITMQ_NODENAME="matrix@localhost" RABBITMQ_CONFIG_FILE="$folder/rabbit.conf" \
        RABBITMQ_MNESIA_BASE="$folder/rabbit" RABBITMQ_LOG_BASE="$folder/rabbit" RABBITMQ_ENABLED_PLUGINS_FILE="$folder/plugins" \
        RABBITMQ_PID_FILE="$folder/rabbit.pid" /usr/lib/rabbitmq/bin/rabbitmq-server
    client "$how" "$python" "$programs/rabbit.py" ask "$at"
    stop
    ERL_EPMD_PORT=$((at + 2)) epmd -kill >/dev/null
}

beans() {
    local how=$1 at
    at=$(port)
    serve "$how" "$at" beanstalkd -l 127.0.0.1 -p "$at"
    client "$how" "$python" "$programs/beans.py" ask "$at"
    stop
}

grpc_cc() {
    if [ ! -e "$folder/grpc" ]; then
        read -ra flags <<<"$(pkg-config --cflags --libs grpc++)"
        g++ -O2 -o "$folder/grpc" "$programs/grpc.cc" "${flags[@]}" -lpthread >&2 || { failed 'grpc.cc does not compile' && return; }
    fi
    pair "$1" "$folder/grpc"
}

load mosquitto mosquitto mosquitto_pub && row 'mosquitto, messages with QoS 1, 1/s' mosquitto_messages
load rabbitmq rabbitmqctl epmd && has_python pika && row 'RabbitMQ, messages by pika, 1/s' rabbit
load beanstalkd beanstalkd "$python" && row 'beanstalkd, jobs, 1/s' beans
if load zeromq "$python" && has_python zmq; then
    row 'ZeroMQ, requests, 1/s' pair "$python" "$programs/zero.py" request
    row 'ZeroMQ, one-way messages of 100 B, 1/s' pair "$python" "$programs/zero.py" push
fi
load grpc-python "$python" && has_python grpc && row 'gRPC in Python, calls, 1/s' pair "$python" "$programs/grpc_calls.py"
load grpc g++ pkg-config && pkg-config --exists grpc++ && row 'gRPC in C++, calls, 1/s' grpc_cc
