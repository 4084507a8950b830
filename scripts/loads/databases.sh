# Databases: PostgreSQL, MariaDB.
# shellcheck shell=bash disable=SC2034,SC2154
subject Databases
packages+=(postgresql mariadb-server mariadb-client sysbench)

# postgres_at HOW PORT: starts a server as its own user, because it refuses to run as root. AS makes its clients that
# user too.
postgres_at() {
    if [ ! -d "$folder/postgres" ]; then
        mkdir "$folder/postgres"
        [ -z "$AS" ] || chown postgres "$folder/postgres"
        over tcp initdb -A trust -D "$folder/postgres" >"$folder/initdb.log" 2>&1
    fi
    chmod 777 "$folder"
    serve "$1" "$2" postgres -D "$folder/postgres" -p "$2" -h 127.0.0.1 -k "$folder" -c fsync=off
    sql=(-h 127.0.0.1 -p "$2" -d postgres)
    # postgres listens before it can answer.
    for tries in $(seq 100); do
        ! over tcp pg_isready -q "${sql[@]}" || return 0
        sleep 0.1
    done
    failed 'postgres does not answer'
}

unprivileged() { [ "$(id -u)" != 0 ] || echo postgres; }

# postgres HOW OPTION...: prints transactions per second by pgbench.
postgres() {
    local how=$1 at AS sql=() tries
    at=$(port)
    AS=$(unprivileged)
    postgres_at "$how" "$at"
    over "$how" pgbench -q -i -s 5 "${sql[@]::4}" postgres >"$folder/pgbench.log" 2>&1 ||
        failed "pgbench: $(tail -2 "$folder/pgbench.log")"
    over "$how" pgbench -c 4 -T 3 "${@:2}" "${sql[@]::4}" postgres 2>&1 |
        sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p'
    # Each transaction adds the same amount to an account, a branch, a teller and the history.
    equal 'sums' "$(over "$how" psql -At "${sql[@]}" -c "select count(*), sum(abalance) = (select sum(bbalance) from pgbench_branches),
        sum(abalance) = coalesce((select sum(delta) from pgbench_history), 0) from pgbench_accounts")" '500000|t|t'
    stop INT
}

# Copies a million rows into a table, or out of one; prints megabytes per second.
postgres_copy() {
    local how=$1 at AS sql=() tries begun size
    at=$(port)
    AS=$(unprivileged)
    postgres_at "$how" "$at"
    [ -e "$folder/rows" ] || seq 1000000 | sed 's/.*/&\trow & of a table/' >"$folder/rows"
    size=$(($(stat -c %s "$folder/rows") >> 20))
    over "$how" psql -q "${sql[@]}" -c 'drop table if exists copied; create unlogged table copied (n int, t text)' 2>/dev/null
    begun=$EPOCHREALTIME
    over "$how" psql -q "${sql[@]}" -c '\copy copied from pstdin' <"$folder/rows"
    [ "$2" = out ] || since "$begun" "$size"
    begun=$EPOCHREALTIME
    over "$how" psql "${sql[@]}" -c 'copy copied to stdout' >"$folder/copy"
    [ "$2" = in ] || since "$begun" "$size"
    same "$folder/rows" "$folder/copy"
    rm -f "$folder/copy"
    stop INT
}

# maria HOW SCRIPT THREADS: prints queries per second by sysbench.
maria() {
    local how=$1 at options
    at=$(port)
    if [ ! -d "$folder/maria" ]; then
        mariadb-install-db --no-defaults "--user=$who" --datadir="$folder/maria" \
            --auth-root-authentication-method=normal >"$folder/maria.log" 2>&1
    fi
    serve "$how" "$at" mariadbd --no-defaults "--user=$who" --datadir="$folder/maria" --socket="$folder/maria.sock" \
        --port="$at" --bind-address=127.0.0.1 --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=256M
    mariadb -u root -S "$folder/maria.sock" -e "CREATE DATABASE IF NOT EXISTS sbtest;
        CREATE USER IF NOT EXISTS s@'127.0.0.1'; GRANT ALL ON sbtest.* TO s@'127.0.0.1'"
    options=(--db-driver=mysql --mysql-host=127.0.0.1 "--mysql-port=$at" --mysql-user=s --mysql-ssl=off --tables=1
        --table-size=10000)
    [ -e "$folder/maria.ready" ] || over tcp sysbench "${options[@]}" "$2" prepare >/dev/null
    touch "$folder/maria.ready"
    over "$how" sysbench "${options[@]}" --threads="$3" --time=3 "$2" run >"$folder/sysbench.log" 2>&1
    ! grep -q FATAL "$folder/sysbench.log" || failed "$(grep FATAL "$folder/sysbench.log" | head -3)"
    sed -n 's/.*queries: .*(\([0-9.]*\) per sec.*/\1/p' "$folder/sysbench.log"
    # The rows that the server itself prints must be those that a client gets.
    over "$how" mariadb --no-defaults -N -u s -h 127.0.0.1 -P "$at" --skip-ssl sbtest \
        -e 'select id, k, c, pad from sbtest1 order by id' >"$folder/there" 2>>"$folder/errors"
    mariadb -N -u root -S "$folder/maria.sock" sbtest -e 'select id, k, c, pad from sbtest1 order by id' \
        >"$folder/here" && same "$folder/here" "$folder/there"
    stop
}

if load postgresql postgres pgbench initdb psql; then
    row 'postgresql, pgbench -S (only selects), 1/s' postgres -S -M prepared
    row 'postgresql, pgbench, 1/s' postgres
    row 'postgresql, COPY from the client into a table, MB/s' postgres_copy in
    row 'postgresql, COPY of a table to the client, MB/s' postgres_copy out
fi
if load mariadb mariadbd sysbench mariadb; then
    row 'mariadb, point selects by sysbench, 1/s' maria oltp_point_select 4
    row 'mariadb, queries in transactions by sysbench, 1/s' maria oltp_read_write 8
fi
