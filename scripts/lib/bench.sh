# Functions for scripts that compare programs over kernel TCP and over Sovia. Source it with `sovia` and `rounds`
# set. With OLD, another build's `sovia`, there is a third column; STACKS overrides the columns. Each load is a
# function whose first argument is `tcp`, `sovia` or `old`. It prints one number; more is better.
# shellcheck shell=bash disable=SC2034,SC2119,SC2120,SC2128,SC2154,SC2178

read -ra stacks <<<"${STACKS:-tcp sovia}"
[ -z "${OLD:-}" ] || stacks+=(old)

folder=$(mktemp -d) || exit
servers=()
cleanup() {
    local server
    for server in "${servers[@]}"; do signal TERM "$server"; done
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# wrong WHAT: reports a result that no stack may give, such as other bytes than were sent.
#
# failed WHAT: reports a missing or partial result, such as after the death of a process. After either call, the row
# has no figure, and the script fails.
wrong() { complain WRONG "$*"; }
failed() { complain FAILED "$*"; }
complain() {
    echo "$1: $name, $how: $2" >&2
    echo "$1" >>"$folder/complaints"
}

# over HOW COMMAND...: runs a client for at most two minutes.
over() {
    local status begun_at=$SECONDS
    (limit=120 become "$@")
    status=$?
    # Exit statuses of timeout for the first signal and for the second. A client that another signal killed has the
    # latter too.
    case $status in 124 | 137) [ $((SECONDS - begun_at)) -lt 120 ] || failed "$2 does not end" ;; esac
    return $status
}

# become HOW COMMAND...: runs the command unchanged for `tcp`, as another user if AS names one, and for at most
# `limit` seconds if set.
become() {
    local how=$1 command=()
    shift
    [ -z "${limit:-}" ] || command=(timeout --foreground -k 10 "$limit")
    [ -z "${AS:-}" ] || command+=(setpriv "--reuid=$AS" "--regid=$AS" --clear-groups)
    case $how in
    sovia) command+=("$sovia" run --) ;;
    old) command+=("$OLD" run --) ;;
    esac
    exec "${command[@]}" "$@"
}

# open PORT: returns true if a server listens on the port.
open() { grep -qE ":$(printf %04X "$1") 0+:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# listening PORT WHAT [PROCESS]: waits up to half a minute for a server to listen on the port, or for the process to
# end.
listening() {
    local tries
    for tries in $(seq 600); do
        open "$1" && return
        [ -z "${3:-}" ] || runs "$3" || break
        sleep 0.05
    done
    failed "$2 does not listen: $(tail -3 "$folder/server.log" | cut -c 1-300)"
    return 1
}

# start HOW COMMAND...: starts a server, and sets `server` to its process.
start() {
    become "$@" >"$folder/server.log" 2>&1 </dev/null &
    server=$!
    servers+=("$server")
}

# serve HOW PORT COMMAND...: starts a server, and returns when it listens.
serve() {
    local how=$1 port=$2
    shift 2
    start "$how" "$@"
    listening "$port" "$1" "$server"
}

# job PROCESS: prints this shell's job number of a running server, or nothing if it has ended. Signals go to the job,
# because the number of an ended process may belong to another one.
job() { jobs -lr | sed -nE "s/^\[([0-9]+)\][-+ ] *$1 .*/\1/p"; }

runs() { [ -n "$(job "$1")" ]; }

# signal NAME PROCESS: sends a signal to a server, unless it has ended.
signal() {
    local number
    number=$(job "$2")
    [ -z "$number" ] || kill "-$1" "%$number" 2>/dev/null
}

# ended PROCESS: waits up to a minute for a server to end by itself.
ended() {
    local tries
    for tries in $(seq 1200); do
        runs "$1" || break
        sleep 0.05
    done
    if runs "$1"; then
        failed "a server does not end"
        signal KILL "$1"
    fi
    wait "$1" 2>/dev/null
}

# stop [SIGNAL]: ends all servers, the last one first.
stop() {
    local at
    for ((at = ${#servers[@]} - 1; at >= 0; at--)); do
        signal "${1:-TERM}" "${servers[at]}"
        ended "${servers[at]}"
    done
    servers=()
}

# finish: waits for the only server, which ends when its client has ended.
finish() {
    [ ${#servers[@]} = 0 ] || ended "$server"
    servers=()
}

# Prints a port on which no server listens, nor on the nine ports after it.
port() {
    local at
    while at=$((20000 + RANDOM % 10000)); do
        for ((i = 0; i < 10; i++)); do open $((at + i)) && continue 2; done
        echo $at
        return
    done
}

# compare NAME COMMAND ARGUMENT...: runs COMMAND with the stack's name (HOW) as its first argument. Prints for each
# stack the median, least and greatest result over the rounds. Prints the median of the rounds' ratios of Sovia to
# each other stack. Writes the same to `$folder/table`, with tabs. Fails if there was a complaint, or no figure.
compare() {
    local name=$1 command=$2 how round
    shift 2
    : >"$folder/figures"
    : >"$folder/complaints"
    for round in $(seq "$rounds"); do
        for how in "${stacks[@]}"; do
            # Not in a pipe, because a pipe runs the command in a subshell, and this shell must know
            # the servers that it starts.
            "$command" "$how" "$@" >"$folder/figure"
            [ -s "$folder/figure" ] || [ -s "$folder/complaints" ] || failed 'no figure'
            sed "s/^/$round $how /" "$folder/figure" >>"$folder/figures"
            [ ${#servers[@]} = 0 ] || stop
        done
    done
    awk -v name="$name" -v stacks="${stacks[*]}" -v table="$folder/table" \
        -v complaint="$(sort -r "$folder/complaints" | head -1)" '
        function short(v) {
            if (v >= 1e6) return sprintf("%.2f M", v / 1e6)
            if (v >= 1e3) return sprintf("%.1f k", v / 1e3)
            return sprintf("%.1f", v)
        }
        # Sorts a[1..n].
        function sort(a, n,   i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && a[j - 1] > a[j]; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
        }
        NF == 3 { figure[$2, $1] = $3; if ($1 > rounds) rounds = $1 }
        END {
            count = split(stacks, stack, " ")
            line = sprintf("%-54s", name)
            row = name
            for (s = 1; s <= count; s++) {
                n = 0
                for (r = 1; r <= rounds; r++) if ((stack[s], r) in figure) a[++n] = figure[stack[s], r]
                sort(a, n)
                text = complaint ? complaint : n ? short(a[int((n + 1) / 2)]) " (" short(a[1]) " to " short(a[n]) ")" : "no figure"
                line = line sprintf(" %30s", text)
                row = row "\t" text
            }
            for (s = 1; s <= count && !complaint; s++) {
                if (stack[s] == "sovia") continue
                n = 0
                for (r = 1; r <= rounds; r++)
                    if (figure["sovia", r] > 0 && figure[stack[s], r] > 0)
                        a[++n] = figure["sovia", r] / figure[stack[s], r]
                sort(a, n)
                if (!n) continue
                text = quotient(a[int((n + 1) / 2)]) " (" quotient(a[1]) " to " quotient(a[n]) ")"
                line = line sprintf("   %s x %s", text, stack[s])
                row = row "\t" text
            }
            print line
            print row >>table
        }
        function quotient(q) { return sprintf(q < 10 ? "%.2f" : "%.1f", q) }' "$folder/figures"
    [ ! -s "$folder/complaints" ]
}

heading() {
    printf '%-54s' load
    printf ' %30s' "${stacks[@]}"
    printf '   Sovia as a multiple\n'
}

has() {
    local program
    for program; do
        command -v "$program" >/dev/null || { echo "left out: $program is not installed" >&2; return 1; }
    done
}
