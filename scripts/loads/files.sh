# Programs that copy files: rsync, git, scp, socat, netcat.
# shellcheck shell=bash disable=SC2034,SC2154
subject Files
packages+=(rsync git openssh-server openssh-client socat netcat-openbsd)

# Runs rsync as an unprivileged user, because connections of a process that drops privileges stay on
# TCP.
rsync_file() {
    local how=$1 at begun AS=
    at=$(port)
    [ "$(id -u)" != 0 ] || AS=daemon
    chmod 777 "$folder"
    file 256 >/dev/null
    printf 'use chroot = no\n[files]\npath = %s\n' "$folder" >"$folder/rsyncd.conf"
    serve "$how" "$at" rsync --daemon --no-detach --address 127.0.0.1 --port "$at" --config "$folder/rsyncd.conf"
    begun=$EPOCHREALTIME
    over "$how" rsync -W "rsync://127.0.0.1:$at/files/file256" "$folder/copy"
    rate 256 "$folder/file256" "$folder/copy" "$begun"
    stop
}

git_clone() {
    local how=$1 at begun
    at=$(port)
    if [ ! -d "$folder/git/one" ]; then
        git init -q "$folder/git/one"
        file 64 >/dev/null
        cp "$folder/file64" "$folder/git/one"
        git -C "$folder/git/one" -c core.bigFileThreshold=1m add file64
        git -C "$folder/git/one" -c user.name=n -c user.email=e commit -qm one
    fi
    serve "$how" "$at" git daemon --reuseaddr --export-all --listen=127.0.0.1 --port="$at" --base-path="$folder/git" "$folder/git"
    begun=$EPOCHREALTIME
    over "$how" git clone -q "git://127.0.0.1:$at/one" "$folder/clone"
    rate 64 "$folder/file64" "$folder/clone/file64" "$begun"
    rm -rf "$folder/clone"
    stop
}

# Copies files by `scp`, from a server that accepts a key of this load.
ssh_copy() {
    local how=$1 at begun
    at=$(port)
    file 256 >/dev/null
    mkdir -p /run/sshd
    [ -e "$folder/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
    cp "$folder/key.pub" "$folder/keys"
    chmod 600 "$folder/keys"
    cat >"$folder/sshd_config" <<CONFIG
ListenAddress 127.0.0.1:$at
HostKey $folder/key
AuthorizedKeysFile $folder/keys
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile none
Subsystem sftp internal-sftp
CONFIG
    serve "$how" "$at" "$(command -v sshd)" -D -f "$folder/sshd_config"
    begun=$EPOCHREALTIME
    over "$how" scp -q -P "$at" -i "$folder/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        -o LogLevel=ERROR "$who@127.0.0.1:$folder/file256" "$folder/copy"
    rate 256 "$folder/file256" "$folder/copy" "$begun"
    stop
}

socat_file() {
    local how=$1 at begun
    at=$(port)
    file 256 >/dev/null
    serve "$how" "$at" socat -u "TCP-LISTEN:$at,bind=127.0.0.1" "CREATE:$folder/copy"
    begun=$EPOCHREALTIME
    over "$how" socat -u "FILE:$folder/file256" "TCP:127.0.0.1:$at" || stop
    finish
    rate 256 "$folder/file256" "$folder/copy" "$begun"
}

# nc writes received bytes to its output, which is the server's log.
nc_file() {
    local how=$1 at begun
    at=$(port)
    file 256 >/dev/null
    serve "$how" "$at" nc -l 127.0.0.1 "$at"
    begun=$EPOCHREALTIME
    over "$how" nc -N 127.0.0.1 "$at" <"$folder/file256" || stop
    finish
    mv "$folder/server.log" "$folder/copy"
    rate 256 "$folder/file256" "$folder/copy" "$begun"
}

load rsync rsync && row 'rsync, one file, MB/s' rsync_file
load git git && row 'git daemon, one clone, MB/s' git_clone
load ssh sshd scp ssh-keygen && row 'scp, one file, MB/s' ssh_copy
load socat socat && row 'socat, one file, MB/s' socat_file
load netcat nc && row 'netcat, one file, MB/s' nc_file
