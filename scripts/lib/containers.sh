# Runs containers in namespaces of the script's own, and checks recipes. Source it in scripts/try-containers, with
# `work`, `root` and `target` set, as process 1 of its PID namespace.

passed=0 failed=0 skipped=0
# Options that run a Containerfile's steps without raising limits, and ask no registry for a local name.
build=(--isolation chroot --pull-never --quiet)

# Prepares podman with its files below `work`, and with a /run and a network of its own.
prepare() {
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    mkdir -p /run/lock "$work/root" "$work/user"
    ip link set lo up
    mount -t sysfs sysfs /sys
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    # A control group with groups below it may not hold a process itself.
    mkdir /sys/fs/cgroup/init
    echo $$ >/sys/fs/cgroup/init/cgroup.procs
    settings /run/settings "$work/root"
    export CONTAINERS_CONF=/run/settings/containers.conf CONTAINERS_STORAGE_CONF=/run/settings/storage.conf
    # A user of the machine, with ids for the users in its containers.
    mkdir -p /run/etc
    cp /etc/passwd /etc/group /run/etc/
    echo 'sovia-try:x:4100:4100::/run/home:/bin/sh' >>/run/etc/passwd
    echo 'sovia-try:x:4100:' >>/run/etc/group
    echo 'sovia-try:300000:65536' | tee /run/etc/subuid >/run/etc/subgid
    for file in passwd group subuid subgid; do
        [ ! -e /etc/$file ] || mount --bind /run/etc/$file /etc/$file
    done
    mkdir -p /run/home /run/user/4100
    chown 4100:4100 /run/home /run/user/4100 "$work/user"
    chmod 755 "$work"
    settings /run/home/settings "$work/user"
}

# settings FOLDER STORE: writes podman's configuration files.
settings() {
    mkdir -p "$1"
    # Keep this process's limits, because raising them needs a right that machines in containers lack.
    cat >"$1/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[network]
network_backend = "netavark"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[engine.runtimes]
crun = ["$1/crun"]
CONF
    cat >"$1/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$2/graph"
runroot = "$1/store"
CONF
    # Control groups limit resources, and do not affect which programs reach each other. Leave them out, because a
    # machine may lack them.
    printf '#!/bin/sh\nexec %s --cgroup-manager=disabled "$@"\n' "$(command -v crun)" >"$1/crun"
    chmod 755 "$1/crun"
    chmod -R a+rX "$1"
}

# built: runs the commands of docs/howto/containers.md, with local packages and without a registry.
built() (
    set -e
    make() { :; }
    podman() { command podman "$1" "${build[@]}" --build-arg BASE=localhost/debian "${@:2}"; }
    eval "$(commands docs/howto/containers.md scripts/try-containers | sed "s|target/packages|$target/packages|")"
)

# Makes the images that the recipes start from, by the project's own Containerfile and by the recipe
# for other images.
images() {
    {
        tar -C "$root" -c . | podman import -q - localhost/debian && built
    } >"$work/images" 2>&1 || {
        cat "$work/images" >&2
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    }
    podman run --rm --network none localhost/sovia true 2>"$work/images" || skip "no container starts here: $(tail -1 "$work/images")"
}

# try NAME COMMAND…: runs and counts a test. Its output goes to `log`, and is shown on failure. Status 3 means that it
# cannot run here.
try() {
    local name=$1 status=0
    shift
    [ ${#wanted[@]} = 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || return 0
    log=$work/log
    # Not as a condition, because errexit has no effect inside a condition.
    set +e
    (
        set -e
        "$@"
    ) >"$log" 2>&1
    status=$?
    set -e
    case $status in
    0)
        passed=$((passed + 1))
        echo "test $name ... ok"
        echo "    $(grep -aoE 'sovia: accelerated: .*|[0-9.]+ requests per second' "$log" | sed 's/^sovia: //' | tail -3 | paste -sd ' ' | sed 's/  */ /g')"
        ;;
    3)
        skipped=$((skipped + 1))
        echo "test $name ... ignored, $(tail -1 "$log")"
        ;;
    *)
        failed=$((failed + 1))
        tr '\r' '\n' <"$log" | sed 's/^/    /'
        echo "test $name ... FAILED"
        ;;
    esac
    podman pod rm -fa -t 0 >/dev/null 2>&1
    podman rm -fa -t 0 >/dev/null 2>&1
}

# Repeats a command until it succeeds; the watchdog limits the time.
soon() {
    local tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || {
            echo "this condition never became true: $*"
            return 1
        }
        sleep 0.2
    done
}

skip_one() {
    echo "$1"
    exit 3
}

needs() {
    command -v "$1" >/dev/null || skip_one "$1 is not installed"
}

# Skips the test unless containers can have a network: podman's helper for that calls iptables, or nftables if it
# is newer.
needs_bridges() {
    podman run --rm --network podman localhost/redis-sovia true 2>"$work/why" ||
        skip_one "no container gets a network here: $(tail -1 "$work/why")"
}

# Skips the test unless pods can start: podman puts each in a control group, whose controllers the
# kernel must delegate.
needs_pods() {
    if ! podman pod create --name probe --network none >/dev/null 2>"$work/why" || ! podman pod start probe >/dev/null 2>>"$work/why"; then
        skip_one "no pod starts here: $(tail -1 "$work/why")"
    fi
    podman pod rm -f -t 0 probe
}

# are_accelerated COUNT: checks that COUNT reports of `sovia run -v` list connections on VIs.
are_accelerated() {
    local reports
    reports=$(grep -acE 'sovia: accelerated: [1-9][0-9]* end' "$log") || true
    [ "$reports" = "$1" ] || {
        echo "$reports programs reported connections on VIs; expected $1"
        return 1
    }
}

leaves_nothing() {
    local left
    left=$(podman ps -aq)
    [ -z "$left" ] || {
        echo "containers are left: $left"
        return 1
    }
}

# follow CONTAINER: prints the container's output until it ends.
follow() {
    timeout 300 podman wait "$1"
    podman logs "$1"
}

# with_agent COMMAND…: runs COMMAND while the host's agent runs.
with_agent() {
    "$target/release/sovia" agent &
    local agent=$! status=0
    soon test -S /run/sovia/agent
    "$@" || status=$?
    kill $agent
    wait $agent || true
    rm -rf /run/sovia
    return $status
}

# with_docker_api COMMAND…: runs COMMAND while podman serves Docker's API.
with_docker_api() {
    podman system service -t 0 unix:///run/docker-api &
    local service=$! status=0
    soon test -S /run/docker-api
    DOCKER_HOST=unix:///run/docker-api "$@" || status=$?
    kill $service
    wait $service || true
    rm -f /run/docker-api
    return $status
}

as_user() {
    setpriv --reuid 4100 --regid 4100 --clear-groups \
        env -u DOCKER_HOST HOME=/run/home XDG_RUNTIME_DIR=/run/user/4100 PATH="$PATH" \
        CONTAINERS_CONF=/run/home/settings/containers.conf CONTAINERS_STORAGE_CONF=/run/home/settings/storage.conf "$@"
}

# Returns true if `sovia ps` shows connections of these two programs on VIs.
ends_on_vis() {
    "$target/release/sovia" ps --json | python3 -c '
import json, sys
ends = [end for end in [json.loads(line) for line in sys.stdin] if end["state"] == "via"]
names = lambda processes: {process["program"] for process in processes}
sys.exit(not any(names(end["processes"]) == {sys.argv[1]} and names(end["other_end"]) == {sys.argv[2]} for end in ends))
' "$@"
}

process_of() {
    podman inspect "$1" --format '{{.State.Pid}}'
}

# Returns true if a container runs and its network namespace has an established connection.
is_talking() {
    grep -q ' 01 ' "/proc/$(process_of "$1")/net/tcp"
}

# Checks that the container's first process has the library's code, and nothing that the library
# would create.
is_left_alone() {
    local process
    process=/proc/$(process_of "$1")
    grep -q libsovia_preload "$process/maps" || { echo "$1 has no library"; return 2; }
    ! grep -q 'memfd:sovia' "$process/maps" || { echo "$1 has memory of Sovia"; return 1; }
    ! "$target/release/sovia" ps --json | grep -q "\"pid\":${process#/proc/}," || { echo "$1 shows connections"; return 1; }
}
