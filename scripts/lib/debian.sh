# Makes a Debian for tests. To be sourced.

# Makes a Debian with systemd and Redis in the folder $1 by debootstrap, unless it exists. On failure, prints the
# reason and returns 1.
debian() {
    [ ! -x "$1/usr/bin/redis-server" ] || return 0
    command -v debootstrap >/dev/null || {
        echo "debootstrap is not installed"
        return 1
    }
    mkdir -p "$1"
    debootstrap --variant=minbase --include=redis-server,redis-tools,systemd,systemd-sysv bookworm "$1" >"$1.log" || {
        echo "debootstrap failed: $(tail -1 "$1.log")"
        return 1
    }
}
