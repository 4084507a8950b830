# For scripts that compare programs over kernel TCP and over Sovia. To be sourced, with `sovia` and `rounds`
# set; with OLD, another build's `sovia`, that one is a third column. Each load is a function that is given
# `tcp`, `sovia` or `old` first and prints one number, the more the better.

stacks=(tcp sovia)
[ -z "${OLD:-}" ] || stacks+=(old)

folder=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# over HOW COMMAND...: `tcp` runs it as it is; as another user, if AS names one.
over() { (become "$@"); }

become() {
    local how=$1 command=()
    shift
    [ -z "${AS:-}" ] || command=(setpriv "--reuid=$AS" "--regid=$AS" --clear-groups)
    case $how in
    sovia) command+=("$sovia" run --) ;;
    old) command+=("$OLD" run --) ;;
    esac
    exec "${command[@]}" "$@"
}

# serve HOW PORT COMMAND...: starts a server; returns when somebody listens.
serve() {
    local how=$1 port=$2 tries
    shift 2
    become "$how" "$@" >"$folder/server.log" 2>&1 &
    server=$!
    for tries in $(seq 100); do
        grep -qE ":$(printf %04X "$port") 0+:0000 0A" /proc/net/tcp /proc/net/tcp6 && return
        sleep 0.1
    done
    echo "$(basename "$0"): $1 does not listen:" >&2
    tail -5 "$folder/server.log" >&2
}

stop() {
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    server=
}

port() { echo $((20000 + RANDOM % 10000)); }

# compare NAME COMMAND ARGUMENT...: the first argument, HOW, is put in. Prints for each stack the median over
# the rounds, with least and most, and the median of the rounds' quotients of Sovia and each other stack.
compare() {
    local name=$1 command=$2 how round
    shift 2
    : >"$folder/figures"
    for round in $(seq "$rounds"); do
        for how in "${stacks[@]}"; do
            "$command" "$how" "$@" | sed "s/^/$round $how /" >>"$folder/figures"
        done
    done
    awk -v name="$name" -v stacks="${stacks[*]}" '
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
            line = sprintf("%-32s", name)
            for (s = 1; s <= count; s++) {
                n = 0
                for (r = 1; r <= rounds; r++) if ((stack[s], r) in figure) a[++n] = figure[stack[s], r]
                sort(a, n)
                text = n ? short(a[int((n + 1) / 2)]) " (" short(a[1]) " to " short(a[n]) ")" : "no figure"
                line = line sprintf(" %30s", text)
            }
            for (s = 1; s <= count; s++) {
                if (stack[s] == "sovia") continue
                n = 0
                for (r = 1; r <= rounds; r++)
                    if (figure["sovia", r] > 0 && figure[stack[s], r] > 0)
                        a[++n] = figure["sovia", r] / figure[stack[s], r]
                sort(a, n)
                if (n) line = line sprintf("   %s x %s (%s to %s)", quotient(a[int((n + 1) / 2)]), stack[s], quotient(a[1]), quotient(a[n]))
            }
            print line
        }
        function quotient(q) { return sprintf(q < 10 ? "%.2f" : "%.1f", q) }' "$folder/figures"
}

heading() {
    printf '%-32s' load
    printf ' %30s' "${stacks[@]}"
    printf '   Sovia as a multiple\n'
}

has() {
    local program
    for program; do
        command -v "$program" >/dev/null || { echo "left out: $program is not installed" >&2; return 1; }
    done
}
