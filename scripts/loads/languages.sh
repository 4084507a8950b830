# Servers and message libraries of programming languages.
# shellcheck shell=bash disable=SC2034,SC2154
subject Languages
packages+=(python3 python3-uvicorn python3-distributed nodejs default-jdk-headless libnetty-java erlang-base erlang-inets
    ruby ruby-webrick php-cli php-fpm golang-go wrk curl)

# page HOW COMMAND...: requests small pages from a server whose last argument is its port. Servers that send head and
# body in two pieces use TCP_NODELAY. Without it, TCP's figure would be the time of delayed acknowledgements.
page() {
    local how=$1 at
    at=$(port)
    serve "$how" "$at" "${@:2}" "$at"
    ask "$how" "$at" hello -c16
    stop
}

uvicorn() { page "$1" "$python" -m uvicorn --app-dir "$programs" --log-level warning asgi:application --port; }

# java_by HOW FUNCTION PROGRAM ARGUMENT...: runs a Java program, compiled once, by `page` or `pair`.
java_by() {
    local program=$3
    if [ ! -e "$folder/java/$program.class" ]; then
        javac -cp "$netty" -d "$folder/java" "$programs/$program.java" >&2 || { failed "$program.java does not compile" && return; }
    fi
    "$2" "$1" java -Dsun.net.httpserver.nodelay=true -cp "$folder/java:$netty" "$program" "${@:4}"
}
netty=$(echo /usr/share/java/netty-{buffer,codec,codec-http,common,handler,resolver,transport,transport-native-unix-common}.jar | tr ' ' :)

dask() {
    local how=$1 at
    at=$(port)
    serve "$how" "$at" "$python" -m distributed.cli.dask_scheduler --host 127.0.0.1 --port "$at" --no-dashboard
    for number in 1 2; do
        start "$how" "$python" -m distributed.cli.dask_worker "tcp://127.0.0.1:$at" --nthreads 1 --no-nanny --no-dashboard \
            --local-directory "$folder/dask$number"
    done
    client "$how" "$python" "$programs/tasks.py" "$at"
    stop
}

# Two Erlang nodes, without the daemon that assigns ports. Each message goes to the other node and back.
erlang_nodes() {
    local how=$1 at node
    at=$(port)
    node=(-noshell -setcookie matrix -start_epmd false -erl_epmd_port "$at" -pa "$folder")
    erlang_program || return
    serve "$how" "$at" env HOME="$folder" erl "${node[@]}" -name one@127.0.0.1 -s node serve
    client "$how" env HOME="$folder" erl "${node[@]}" -dist_listen false -name two@127.0.0.1 -s node ask
    stop
}

erlang_page() {
    erlang_program || return
    page "$1" env HOME="$folder" ERL_CRASH_DUMP=/dev/null erl -noshell -kernel inet_default_listen_options '[{nodelay,true}]' \
        -pa "$folder" -s node page -extra
}

erlang_program() {
    [ -e "$folder/node.beam" ] || erlc -o "$folder" "$programs/node.erl" >&2 || failed 'node.erl does not compile'
    [ -e "$folder/node.beam" ]
}

# PHP's own server takes its port as part of an address.
php_page() {
    local how=$1 at
    at=$(port)
    mkdir -p "$folder/php"
    # Send a length, because otherwise the end of the connection would end the page.
    echo '<?php header("Content-Length: 5"); echo "hello";' >"$folder/php/index.php"
    serve "$how" "$at" php -S "127.0.0.1:$at" -t "$folder/php"
    ask "$how" "$at" hello -c16
    stop
}

# PHP behind nginx, which speaks FastCGI to it over TCP.
php_behind_nginx() {
    local how=$1 at
    at=$(port)
    mkdir -p "$folder/php"
    echo '<?php echo "hello";' >"$folder/php/index.php"
    cat >"$folder/fpm.conf" <<CONFIG
[global]
error_log = $folder/fpm.log
daemonize = no
[www]
user = $who
group = $(id -gn)
listen = 127.0.0.1:$((at + 1))
pm = static
pm.max_children = 4
CONFIG
    serve "$how" $((at + 1)) "$fpm" -n -R -y "$folder/fpm.conf"
    nginx_config "$at" "location / { fastcgi_pass up; fastcgi_keep_conn on; fastcgi_param REQUEST_METHOD GET;
        fastcgi_param SCRIPT_FILENAME $folder/php/index.php; }" |
        sed "s/^http {/http { upstream up { server 127.0.0.1:$((at + 1)); keepalive 4; }/" >"$folder/nginx.conf"
    serve "$how" "$at" nginx -c "$folder/nginx.conf"
    ask "$how" "$at" hello -c4
    stop
}
fpm=$(echo /usr/sbin/php-fpm*)

# Go makes its own system calls, so it stays on TCP.
go_page() {
    if [ ! -e "$folder/goweb" ]; then
        HOME="$folder" GOCACHE="$folder/gocache" GO111MODULE=off go build -o "$folder/goweb" "$programs/web.go" >&2
    fi
    page "$1" "$folder/goweb"
}

if load python "$python" wrk curl; then
    row 'Python asyncio, 1/s' page "$python" "$programs/web.py"
    ! has_python uvicorn || row 'Python uvicorn, 1/s' uvicorn
fi
load python-objects "$python" && row 'Python multiprocessing, objects, 1/s' pair "$python" "$programs/objects.py"
load dask "$python" && has_python distributed && row 'Dask, tasks, 1/s' dask
load node node wrk curl && row 'Node.js http, 1/s' page node "$programs/web.js"
if load java java javac; then
    row 'Java http server, 1/s' java_by page Web
    row 'Java, one thread per connection, 1/s' java_by pair Echo blocking
    row 'Java, one selector for all connections, 1/s' java_by pair Echo selector
    [ ! -e "${netty%%:*}" ] || row 'Netty, 1/s' java_by page Netty
fi
if load erlang erl erlc wrk curl; then
    row 'Erlang inets, 1/s' erlang_page
    row 'Erlang, messages between nodes, 1/s' erlang_nodes
fi
load ruby ruby wrk curl && row 'Ruby webrick, 1/s' page ruby "$programs/web.rb"
load php php wrk curl && row 'PHP, one request per connection, 1/s' php_page
load php-fpm "$fpm" nginx wrk curl && row 'PHP behind nginx, 1/s' php_behind_nginx
load go go wrk curl && row 'Go net/http (stays on TCP), 1/s' go_page
