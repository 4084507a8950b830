# Programs that measure networks, message passing between the processes of a computation, and programs that cannot
# load a library. The last ones stay on TCP with their peers.
# shellcheck shell=bash disable=SC2034,SC2154
subject Network
packages+=(iperf3 sockperf netpipe-tcp openmpi-bin libopenmpi-dev gcc)

# iperf HOW OPTION...: prints gigabits per second.
iperf() {
    local how=$1 at
    shift
    at=$(port)
    serve "$how" "$at" iperf3 -s -1 -p "$at" -B 127.0.0.1
    over "$how" iperf3 -c 127.0.0.1 -p "$at" -t 2 -f g "$@" 2>/dev/null |
        sed -n 's/.* \([0-9.]*\) Gbits.*receiver.*/\1/p' | tail -1
    stop
}

# Prints round trips per second, computed from the latency. The rate is limited, because sockperf fails if there are
# more than 600,000 messages a second.
ping_pong() {
    local how=$1 at
    at=$(port)
    serve "$how" "$at" sockperf server --tcp -i 127.0.0.1 -p "$at"
    over "$how" sockperf ping-pong --tcp -i 127.0.0.1 -p "$at" -t 2 -m 64 --mps=500000 --data-integrity >"$folder/sockperf.log" 2>&1
    ! grep -q 'data integrity.*fail' "$folder/sockperf.log" || wrong "$(grep -i integrity "$folder/sockperf.log")"
    grep -q 'Summary: Latency' "$folder/sockperf.log" || failed "$(tail -2 "$folder/sockperf.log")"
    sed -n 's/.*Summary: Latency is \([0-9.]*\) usec.*/\1/p' "$folder/sockperf.log" | awk '{ print 5e5 / $1 }'
    stop
}

# Prints megabits per second of messages of 64 KB.
netpipe() {
    local how=$1 what=(-l 65536 -u 65537 -p 0 -n 3000)
    serve "$how" 5002 NPtcp "${what[@]}"
    over "$how" NPtcp -h 127.0.0.1 "${what[@]}" -o "$folder/np.out" >/dev/null 2>&1 || stop
    finish
    awk 'NF > 1 { figure = $2 } END { if (figure) print figure }' "$folder/np.out"
    rm -f "$folder/np.out"
}

# mpi HOW SIZE ROUNDS: runs two processes over Open MPI's TCP. Prints round trips per second; fails if a message has
# changed.
mpi() {
    local how=$1
    compiled mpi mpicc -O2 "$programs/mpi.c" || return
    over "$how" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe \
        --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -np 2 \
        "$folder/mpi" "$2" "$3" 2>"$folder/mpi.log"
    ! grep -q differs "$folder/mpi.log" || wrong "$(grep differs "$folder/mpi.log")"
}

# static HOW: runs a statically linked server, and a dynamically linked client. Prints round trips
# per second.
static() {
    local how=$1 at
    at=$(port)
    compiled echo-static cc -O2 -static "$programs/echo.c" || return
    compiled echo cc -O2 "$programs/echo.c" || return
    serve "$how" "$at" "$folder/echo-static" serve "$at"
    over "$how" "$folder/echo" ask "$at" 1000 50000 2>"$folder/echo.log"
    ! grep -q differs "$folder/echo.log" || wrong "$(grep differs "$folder/echo.log")"
    stop
}

if load iperf3 iperf3; then
    row 'iperf3, Gb/s' iperf
    row 'iperf3 -R (the server sends), Gb/s' iperf -R
    row 'iperf3 -P 4 (four streams), Gb/s' iperf -P 4
fi
load sockperf sockperf && row 'sockperf, ping-pong of 64 B, 1/s' ping_pong
load netpipe NPtcp && row 'NetPIPE, ping-pong of 64 KB, Mb/s' netpipe
if load mpi mpirun mpicc; then
    row 'Open MPI over TCP, 8 B, 1/s' mpi 8 20000
    row 'Open MPI over TCP, 1 MB, 1/s' mpi 1048576 2000
fi
load static cc && row 'statically linked server (stays on TCP), 1/s' static
