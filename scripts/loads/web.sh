# Web servers, and proxies before them: nginx in several ways, haproxy, apache, lighttpd, stunnel.
# shellcheck shell=bash disable=SC2034,SC2154
subject Web
packages+=(nginx-light wrk curl haproxy apache2 apache2-utils lighttpd stunnel4 openssl)

# nginx_config PORT LOCATIONS [WORKERS]: prints a configuration, with TLS if `secure` is set; in the
# background if `daemon` is `on`.
nginx_config() {
    local user='' tls=''
    [ "$(id -u)" != 0 ] || user="user $who;"
    [ -z "${secure:-}" ] || tls="ssl_certificate $folder/cert.pem; ssl_certificate_key $folder/key.pem;"
    cat <<CONFIG
$user daemon ${daemon:-off}; worker_processes ${3:-1}; pid $folder/pid; error_log $folder/error;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path $folder; proxy_temp_path $folder;
  fastcgi_temp_path $folder; uwsgi_temp_path $folder; scgi_temp_path $folder; sendfile on; $tls
  server { listen 127.0.0.1:$1${secure:+ ssl}; keepalive_requests 100000000; $2 } }
CONFIG
}

hello='location / { return 200 "hello"; }'

# nginx_at HOW PORT CONFIG...: starts nginx with a configuration.
nginx_at() {
    nginx_config "${@:2}" >"$folder/nginx.conf"
    serve "$1" "$2" nginx -c "$folder/nginx.conf"
}

# ask HOW PORT WORD OPTION...: prints requests per second by wrk for a page that contains WORD.
ask() {
    local how=$1 word=$3 page="http${secure:+s}://127.0.0.1:$2/"
    equal "$page" "$(over "$how" curl -sk "$page" | grep -o "$word")" "$word"
    over "$how" wrk --timeout 60 -t1 -d2 "${@:4}" "$page" >"$folder/wrk.log"
    no_errors "$folder/wrk.log"
    sed -n 's/^Requests.sec: *//p' "$folder/wrk.log"
}

no_errors() {
    ! grep -q 'Non-2xx\|Socket errors' "$1" || failed "$(grep 'Non-2xx\|Socket errors' "$1")"
}

# web HOW OPTION...: measures pages of nginx by wrk.
web() {
    local how=$1 at
    at=$(port)
    nginx_at "$how" "$at" "$hello"
    ask "$how" "$at" hello "${@:2}"
    stop
}

web_workers() {
    local how=$1 at
    at=$(port)
    nginx_at "$how" "$at" "$hello" 4
    ask "$how" "$at" hello -t2 -c50
    stop
}

certificate() {
    [ -e "$folder/cert.pem" ] || openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
        -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
}

web_tls() {
    local how=$1 secure=yes
    certificate
    web "$@"
}

# web_file HOW: downloads a file by curl, with TLS if `secure` is set.
web_file() {
    local how=$1 at begun
    at=$(port)
    nginx_at "$how" "$at" "location / { root $folder; }"
    file 256 >/dev/null
    begun=$EPOCHREALTIME
    over "$how" curl -sk -o "$folder/copy" "http${secure:+s}://127.0.0.1:$at/file256"
    rate 256 "$folder/file256" "$folder/copy" "$begun"
    stop
}

web_file_tls() {
    local secure=yes
    certificate
    web_file "$1"
}

# Uploads a file.
web_put() {
    local how=$1 at begun
    at=$(port)
    file 64 >/dev/null
    mkdir -p "$folder/put"
    nginx_at "$how" "$at" "location / { root $folder/put; client_max_body_size 0; dav_methods PUT; }"
    begun=$EPOCHREALTIME
    over "$how" curl -s -T "$folder/file64" "http://127.0.0.1:$at/copy"
    rate 64 "$folder/file64" "$folder/put/copy" "$begun"
    stop
}

# web_signals HOW SIGNALS: requests pages while the server gets signals; no request may fail. Over any stack, the next
# request of an idle kept connection fails if its worker has ended. So requests that must succeed use new connections,
# one after the other. Kept connections run beside them, and must only get no wrong pages.
web_signals() {
    local how=$1 at kept alone tries daemon=on
    at=$(port)
    nginx_config "$at" "$hello" 2 >"$folder/nginx.conf"
    # Only a daemon whose parent has ended starts a new binary, and it does not search the path for
    # the binary.
    over "$how" "$(command -v nginx)" -c "$folder/nginx.conf"
    listening "$at" nginx || return
    over "$how" wrk --timeout 60 -t1 -c8 -d4 "http://127.0.0.1:$at/" >"$folder/kept.log" &
    kept=$!
    over "$how" wrk --timeout 60 -t1 -c8 -d3 -H 'Connection: close' "http://127.0.0.1:$at/" >"$folder/wrk.log" &
    alone=$!
    sleep 0.3
    "$2"
    wait $alone $kept
    no_errors "$folder/wrk.log"
    ! grep -q Non-2xx "$folder/kept.log" || failed "$(grep Non-2xx "$folder/kept.log")"
    # Count both servers, because one of them may have the processors for itself.
    cat "$folder/wrk.log" "$folder/kept.log" | awk '/^Requests.sec/ { sum += $2 } END { print sum }'
    equal 'page' "$(over "$how" curl -s "http://127.0.0.1:$at/")" hello
    kill -QUIT "$(cat "$folder/pid")"
    gone "$folder/pid" || failed 'nginx does not end'
}

# gone FILE: waits up to half a minute until the file no longer exists.
gone() {
    local tries
    for tries in $(seq 600); do
        [ -e "$1" ] || return 0
        sleep 0.05
    done
    return 1
}

reloads() {
    local count
    for count in 1 2 3 4; do
        kill -HUP "$(cat "$folder/pid")"
        sleep 0.4
    done
}

# Replaces the old program by a new one, twice.
upgrades() {
    local count old tries
    for count in 1 2; do
        old=$(cat "$folder/pid")
        kill -USR2 "$old"
        for tries in $(seq 100); do
            [ ! -s "$folder/pid.oldbin" ] || [ ! -s "$folder/pid" ] || break
            sleep 0.05
        done
        { [ -s "$folder/pid.oldbin" ] && [ -s "$folder/pid" ]; } || { failed 'no new nginx' && return; }
        sleep 0.2
        kill -WINCH "$old"
        sleep 0.3
        kill -QUIT "$old"
        gone "$folder/pid.oldbin" || failed 'the old nginx does not end'
    done
}

# before_web HOW PROXY: measures requests through a proxy to nginx.
before_web() {
    local how=$1 at behind secure=
    at=$(port)
    behind=$((at + 1))
    nginx_at "$how" $behind "$hello"
    "before_by_$2" "$how" "$at" $behind
    [ "$2" != stunnel ] || secure=yes
    ask "$how" "$at" hello -c32
    stop
}

before_by_nginx() {
    nginx_config "$2" "location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ''; }" |
        sed "s/^http {/http { upstream up { server 127.0.0.1:$3; keepalive 64; }/; s|$folder/pid|$folder/pid2|" \
            >"$folder/proxy.conf"
    serve "$1" "$2" nginx -c "$folder/proxy.conf"
}

before_by_haproxy() {
    cat >"$folder/haproxy.cfg" <<CONFIG
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  http-reuse always
listen web
  bind 127.0.0.1:$2
  server one 127.0.0.1:$3
CONFIG
    serve "$1" "$2" haproxy -q -db -f "$folder/haproxy.cfg"
}

before_by_stunnel() {
    certificate
    cat >"$folder/stunnel.conf" <<CONFIG
foreground = yes
pid =
[web]
accept = 127.0.0.1:$2
connect = 127.0.0.1:$3
cert = $folder/cert.pem
key = $folder/key.pem
CONFIG
    serve "$1" "$2" stunnel4 "$folder/stunnel.conf"
}

# apache HOW: measures Apache by ab.
apache() {
    local how=$1 at
    at=$(port)
    echo hello >"$folder/index.html"
    cat >"$folder/apache.conf" <<CONFIG
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$at
PidFile $folder/apache.pid
ErrorLog $folder/apache.log
DefaultRuntimeDir $folder
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
DocumentRoot $folder
MaxKeepAliveRequests 0
StartServers 1
CONFIG
    # `-X`: one process, which stays root if it is root.
    serve "$how" "$at" apache2 -X -f "$folder/apache.conf"
    over "$how" ab -q -k -c 16 -n 30000 "http://127.0.0.1:$at/index.html" >"$folder/ab.log" 2>&1
    grep -q '^Failed requests: *0$' "$folder/ab.log" || failed "ab: $(grep '^Failed' "$folder/ab.log")"
    sed -n 's/^Requests per second: *\([0-9.]*\).*/\1/p' "$folder/ab.log"
    stop
}

light() {
    local how=$1 at
    at=$(port)
    echo hello >"$folder/index.html"
    cat >"$folder/lighttpd.conf" <<CONFIG
server.document-root = "$folder"
server.port = $at
server.bind = "127.0.0.1"
server.max-keep-alive-requests = 1000000
index-file.names = ("index.html")
CONFIG
    serve "$how" "$at" lighttpd -D -f "$folder/lighttpd.conf"
    ask "$how" "$at" hello -c32
    stop
}

if load nginx nginx wrk curl; then
    row 'nginx, 50 connections of wrk, 1/s' web -c50
    row 'nginx, one request per connection, 1/s' web -c16 -H 'Connection: close'
    row 'nginx, four worker processes, 1/s' web_workers
    row 'nginx, download by curl, MB/s' web_file
    row 'nginx, upload by curl, MB/s' web_put
fi
if load nginx-tls nginx wrk curl openssl; then
    row 'nginx, TLS, 50 connections of wrk, 1/s' web_tls -c50
    row 'nginx, TLS, download by curl, MB/s' web_file_tls
fi
load nginx-reload nginx wrk curl && row 'nginx, four reloads under load, 1/s' web_signals reloads
load nginx-upgrade nginx wrk curl && row 'nginx, two upgrades under load, 1/s' web_signals upgrades
load nginx-proxy nginx wrk curl && row 'nginx as a proxy for nginx, 1/s' before_web nginx
load haproxy nginx wrk curl haproxy && row 'haproxy as a proxy for nginx, 1/s' before_web haproxy
load stunnel nginx wrk curl stunnel4 openssl && row 'stunnel as a proxy for nginx, 1/s' before_web stunnel
load apache apache2 ab && row 'apache, 16 keep-alive connections of ab, 1/s' apache
load lighttpd lighttpd wrk curl && row 'lighttpd, 32 connections of wrk, 1/s' light
