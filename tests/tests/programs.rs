//! Unmodified real programs in every pairing. They must do their work, report no errors, and end
//! normally.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sovia_tests::{
    Client, Launch, Pairing, Service, Stack, TempDir, free_port, in_turn, installed, skipped, sovia,
};

fn redis(stack: Stack, folder: &Path, options: &str) -> (Service, u16) {
    let port = free_port();
    let folder = folder.display();
    let line = format!(
        "redis-server --port {port} --bind 127.0.0.1 --dir {folder} --save --appendonly no \
         --daemonize no {options}"
    );
    (Service::start(stack, &line, port), port)
}

/// Sends a hundred thousand commands with `--pipe`: the server reads and writes at once.
#[test]
fn redis_takes_a_mass_insertion() {
    if skipped("redis_takes_a_mass_insertion", &["redis-server", "redis-cli"]) {
        return;
    }
    let folder = TempDir::new();
    let commands = folder.path().join("commands");
    let lines = (0..100_000).map(|i| format!("SET key:{i} value:{}\r\n", i * 7));
    fs::write(&commands, lines.collect::<String>()).expect("a file of commands");
    for pairing in Pairing::others() {
        let (server, port) = redis(pairing.server, folder.path(), "");
        let client = Client::of(pairing);
        let told =
            client.run_with_input(&format!("redis-cli -p {port} --pipe"), Some(commands.clone()));
        assert!(told.contains("errors: 0, replies: 100000"), "{pairing}: {told}");
        let short = client.may_stay_on_tcp();
        assert_eq!(short.run(&format!("redis-cli -p {port} DBSIZE")), "100000\n");
        assert_eq!(short.run(&format!("redis-cli -p {port} GET key:777")), "value:5439\n");
        short.run(&format!("redis-cli -p {port} SHUTDOWN NOSAVE"));
        assert!(server.ended().success(), "{pairing}: the server's exit");
    }
}

#[test]
fn redis_benchmark_runs_every_test() {
    if skipped("redis_benchmark_runs_every_test", &["redis-server", "redis-benchmark"]) {
        return;
    }
    let folder = TempDir::new();
    for pairing in Pairing::others() {
        let (server, port) = redis(pairing.server, folder.path(), "");
        // The kernel carries everything if one end runs without Sovia.
        let requests = if pairing == Pairing::SOVIA { 20_000 } else { 1_000 };
        let line = format!("redis-benchmark -p {port} -n {requests} -q");
        let told = Client::of(pairing).run(&line);
        for test in ["PING_INLINE", "SET", "GET", "LRANGE_600", "MSET (10 keys)"] {
            assert!(told.contains(test), "{pairing}: {test} is missing in {told}");
        }
        let status = server.end(libc::SIGTERM);
        assert!(status.success(), "{pairing}: the server's exit: {status:#?}");
    }
}

/// Redis writes a title over its arguments, where its name was. Rules compare this name.
#[test]
fn a_rule_names_redis() {
    if skipped("a_rule_names_redis", &["redis-server", "redis-benchmark"]) {
        return;
    }
    let folder = TempDir::new();
    let port = free_port();
    let line = format!(
        "env SOVIA_RULES=only:program=redis-server redis-server --port {port} --bind 127.0.0.1 --dir {} --save \
         --daemonize no",
        folder.path().display()
    );
    let server = Service::start(Stack::Sovia, &line, port);
    // Prints if its connections were not accelerated.
    Client::of(Pairing::SOVIA).run(&format!("redis-benchmark -p {port} -n 100000 -t get -q"));
    assert!(server.end(libc::SIGTERM).success(), "the server's exit");
}

/// A forked child of the server fills the replica, by writing to the stream itself. Later writes
/// follow.
#[test]
fn redis_replica_follows() {
    if skipped("redis_replica_follows", &["redis-server", "redis-cli", "redis-benchmark"]) {
        return;
    }
    for pairing in Pairing::others() {
        let (folder, other) = (TempDir::new(), TempDir::new());
        let at_once = "--repl-diskless-sync yes --repl-diskless-sync-delay 0";
        let (server, port) = redis(pairing.server, folder.path(), at_once);
        let client = Client::of(pairing).may_stay_on_tcp();
        let fill = format!("redis-benchmark -p {port} -q -t set -n 20000 -r 1000000 -d 300");
        client.run(&fill);
        let following = format!("--replicaof 127.0.0.1 {port}");
        let (replica, replica_port) = redis(pairing.client, other.path(), &following);
        client.run(&fill);
        let size = |port| client.run(&format!("redis-cli -p {port} DBSIZE"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while size(replica_port) != size(port) && Instant::now() < deadline {
            sleep(Duration::from_millis(100));
        }
        assert_eq!(size(replica_port), size(port), "{pairing}: the replica lags behind");
        assert!(replica.end(libc::SIGTERM).success(), "{pairing}: the replica's exit");
        assert!(server.end(libc::SIGTERM).success(), "{pairing}: the server's exit");
    }
}

/// Runs nginx with two workers, as `user`.
fn nginx(stack: Stack, folder: &Path, user: &str) -> (Service, u16) {
    let port = free_port();
    let at = folder.display();
    let conf = format!(
        "daemon off; worker_processes 2; {user} pid {at}/pid; error_log {at}/error.log;
         events {{ worker_connections 256; }}
         http {{
           access_log off; sendfile on; keepalive_requests 100000;
           client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
           fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
           server {{
             listen 127.0.0.1:{port}; root {at}/www;
             location /hello {{ return 200 'hello'; }}
             location /proxy/ {{ proxy_pass http://127.0.0.1:{port}/; }}
           }}
         }}"
    );
    fs::create_dir_all(folder.join("www")).expect("a folder for the site");
    let large: Vec<u8> =
        (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(folder.join("www/large"), large).expect("a file to serve");
    fs::write(folder.join("nginx.conf"), conf).expect("a file of configuration");
    let line = format!("nginx -p {at} -c {at}/nginx.conf -e {at}/error.log");
    (Service::start(stack, &line, port), port)
}

/// Keeps the workers at our own user; otherwise nginx drops root.
fn own_user() -> &'static str {
    // SAFETY: geteuid cannot fail and touches no memory.
    if unsafe { libc::geteuid() } == 0 { "user root;" } else { "" }
}

#[test]
fn nginx_answers_wrk() {
    if skipped("nginx_answers_wrk", &["nginx", "wrk"]) {
        return;
    }
    for pairing in Pairing::others() {
        let folder = TempDir::new();
        let (server, port) = nginx(pairing.server, folder.path(), own_user());
        let client = Client::of(pairing);
        for what in ["-t1 -c1", "-t2 -c50"] {
            let told = client.run(&format!("wrk {what} -d1s http://127.0.0.1:{port}/hello"));
            assert!(told.contains("Requests/sec"), "{pairing}: {told}");
            assert!(!told.contains("errors") && !told.contains("Non-2xx"), "{pairing}: {told}");
        }
        let told = client.run(&format!("wrk -t2 -c20 -d1s http://127.0.0.1:{port}/large"));
        assert!(!told.contains("errors") && !told.contains("Non-2xx"), "{pairing}: {told}");
        assert!(server.end(libc::SIGQUIT).success(), "{pairing}: the server's exit");
    }
}

/// Its workers run as another user than the clients, as on Debian.
#[test]
fn nginx_workers_of_another_user() {
    if skipped("nginx_workers_of_another_user", &["nginx", "wrk"]) {
        return;
    }
    let folder = TempDir::new();
    let (server, port) = nginx(Stack::Sovia, folder.path(), "");
    let client = Client::of(Pairing::SOVIA).may_stay_on_tcp();
    let told = client.run(&format!("wrk -t2 -c20 -d1s http://127.0.0.1:{port}/hello"));
    assert!(!told.contains("errors") && !told.contains("Non-2xx"), "{told}");
    assert!(server.end(libc::SIGQUIT).success(), "the server's exit");
}

#[test]
fn nginx_serves_files_to_curl() {
    if skipped("nginx_serves_files_to_curl", &["nginx", "curl"]) {
        return;
    }
    for pairing in Pairing::others() {
        let folder = TempDir::new();
        let (server, port) = nginx(pairing.server, folder.path(), own_user());
        let client = Client::of(pairing).may_stay_on_tcp();
        let (at, site) = (folder.path().display(), format!("http://127.0.0.1:{port}"));
        assert_eq!(client.run(&format!("curl -sS {site}/hello")), "hello");
        let again = format!("curl -sS {}", format!("{site}/hello ").repeat(30));
        assert_eq!(client.run(&again), "hello".repeat(30));
        let original = fs::read(folder.path().join("www/large")).expect("the served file");
        for (path, name) in [("large", "direct"), ("proxy/large", "proxied")] {
            client.run(&format!("curl -sSf -o {at}/{name} {site}/{path}"));
            let copy = fs::read(folder.path().join(name)).expect("the fetched file");
            assert!(copy == original, "{pairing}: {path} arrives changed");
        }
        assert!(server.end(libc::SIGQUIT).success(), "{pairing}: the server's exit");
    }
}

#[test]
fn memcached_answers_its_tools() {
    if skipped("memcached_answers_its_tools", &["memcached", "memccp", "memccat", "memcstat"]) {
        return;
    }
    for pairing in Pairing::others() {
        let folder = TempDir::new();
        let port = free_port();
        // SAFETY: geteuid cannot fail and touches no memory.
        let user = if unsafe { libc::geteuid() } == 0 { "-u root" } else { "" };
        let line = format!("memcached -l 127.0.0.1 -p {port} -U 0 -t 4 {user}");
        let server = Service::start(pairing.server, &line, port);
        let client = Client::of(pairing).may_stay_on_tcp();
        let at = format!("--servers=127.0.0.1:{port}");
        let value = folder.path().join("value");
        let text = "some text, ".repeat(50_000);
        fs::write(&value, &text).expect("a value");
        client.run(&format!("memcping {at}"));
        client.run(&format!("memccp {at} {}", value.display()));
        let back = client.run(&format!("memccat {at} value"));
        assert_eq!(back.trim_end_matches('\n'), text, "{pairing}: the value changed");
        assert!(
            client.run(&format!("memcstat {at}")).contains("cmd_set: 1"),
            "{pairing}: statistics"
        );
        if installed("memcslap").is_some() {
            let client = Client::of(pairing);
            client.run(&format!("memcslap {at} --concurrency=10 --execute-number=2000 --test=set"));
            client.run(&format!("memcslap {at} --concurrency=10 --execute-number=2000 --test=get"));
        }
        server.end(libc::SIGINT);
    }
}

#[test]
fn iperf3_measures_every_way() {
    if skipped("iperf3_measures_every_way", &["iperf3"]) {
        return;
    }
    for pairing in Pairing::others() {
        let port = free_port();
        let server = Service::start(pairing.server, &format!("iperf3 -s -p {port}"), port);
        let bytes = if pairing == Pairing::SOVIA { "400M" } else { "20M" };
        for way in in_turn("iperf3", &["", "-R", "-P 4", "--bidir", "-l 100 -N"], 2) {
            let line = format!("iperf3 -c 127.0.0.1 -p {port} -n {bytes} {way}");
            let told = Client::of(pairing).run(&line);
            assert!(told.contains("receiver") && told.contains("iperf Done."), "{pairing}: {told}");
        }
        server.end(libc::SIGTERM);
    }
}

#[test]
fn sockperf_plays_ping_pong() {
    if skipped("sockperf_plays_ping_pong", &["sockperf"]) {
        return;
    }
    for pairing in Pairing::others() {
        let port = free_port();
        let at = format!("--tcp -i 127.0.0.1 -p {port}");
        let server = Service::start(pairing.server, &format!("sockperf server {at}"), port);
        let ways = [
            // The rate is limited, because sockperf ends with an error if it gets more answers than
            // it has room for.
            "ping-pong -m 64 --data-integrity --mps 200000",
            "ping-pong -m 20000",
            "throughput -m 1000",
            "under-load --mps 5000 --reply-every 5",
        ];
        for way in in_turn("sockperf", &ways, 2) {
            // sockperf may reject its results if the machine paused for most of a second.
            let measure = |_| Client::of(pairing).run(&format!("sockperf {way} {at} -t 1"));
            let told = (0..5).map(measure).find(|told| !told.contains("No valid observations"));
            let told = told.unwrap_or_default();
            assert!(told.contains("Summary"), "{pairing}: {way}: {told}");
        }
        server.end(libc::SIGINT);
    }
}

/// A client with its control connection under two stdio streams (`fdopen`).
#[test]
fn ftp_by_a_client_with_stdio_streams() {
    const NAME: &str = "ftp_by_a_client_with_stdio_streams";
    if skipped(NAME, &["tnftp", "/usr/bin/python3"]) {
        return;
    }
    if !Path::new("/usr/lib/python3/dist-packages/pyftpdlib").exists() {
        return println!("SKIPPED: {NAME}: not installed: python3-pyftpdlib");
    }
    let folder = TempDir::new();
    let path = folder.path().display().to_string();
    let numbers: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    fs::write(folder.path().join("numbers"), &numbers).expect("a file");
    for pairing in Pairing::others() {
        let port = free_port();
        let server = format!("/usr/bin/python3 -m pyftpdlib -i 127.0.0.1 -p {port} -d {path}");
        let service = Service::start(pairing.server, &server, port);
        let wanted = folder.path().join("wanted");
        let asked = format!(
            "open 127.0.0.1 {port}\nuser anonymous x@\nget numbers {path}/one\npwd\nls\n\
             get numbers {path}/two\nquit\n"
        );
        fs::write(&wanted, asked).expect("a file of commands");
        let told = Client::of(pairing).run_with_input("tnftp -n -v", Some(wanted));
        assert!(told.contains("221 Goodbye"), "{pairing}: {told}");
        for copy in ["one", "two"] {
            let copy = folder.path().join(copy);
            let came = fs::read_to_string(&copy).expect("the file that was asked for");
            assert!(came == numbers, "{pairing}: {} bytes came\n{told}", came.len());
            fs::remove_file(copy).expect("the file is there");
        }
        let _ = service.end(libc::SIGTERM);
    }
}

/// Each end proves that it may share memory, whichever of the others ask meanwhile.
#[test]
fn a_client_meets_forty_processes_that_take_turns() {
    meets_all("a_client_meets_forty_processes_that_take_turns", &["40"], None);
}

/// The server knows the first of them when it looks for the others, but it has none of their connections. The client
/// asks it during connect.
#[test]
fn a_client_that_meets_at_once_meets_the_children_of_a_server() {
    let test = "a_client_that_meets_at_once_meets_the_children_of_a_server";
    meets_all(test, &["20", "slowly"], Some("0"));
}

/// The record of a connection's processes has room for some 60 names.
#[test]
fn a_hundred_heirs_of_one_connection_meet_with_others() {
    let test = "a_hundred_heirs_of_one_connection_meet_with_others";
    meets_all(test, &["100", "inheriting"], None);
}

fn meets_all(test: &str, arguments: &[&str], meet_after: Option<&str>) {
    if skipped(test, &["/usr/bin/python3"]) {
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/forks.py");
    let command = [&["/usr/bin/python3", program], arguments].concat();
    let mut launch = Launch::new(Stack::Sovia, command).verbose(true);
    if let Some(transfers) = meet_after {
        launch = launch.env("SOVIA_MEET", transfers);
    }
    let outcome = launch.start().finish(Duration::from_secs(120));
    assert_eq!(outcome.stdout, format!("{} on VIs\n", arguments[0]), "{outcome:#?}");
    let unproven = "from a process that may not read this process's memory";
    assert!(!outcome.stderr.contains(unproven), "{outcome:#?}");
}

/// libzmq serves its connections in the order in which they become ready, whatever their paths.
#[test]
fn sockets_of_libzmq_take_turns() {
    const NAME: &str = "sockets_of_libzmq_take_turns";
    if skipped(NAME, &["/usr/bin/python3"]) {
        return;
    }
    if !Path::new("/usr/lib/python3/dist-packages/zmq").exists() {
        return println!("SKIPPED: {NAME}: not installed: python3-zmq");
    }
    let protocol = env::var("SOVIA_PROTOCOL").unwrap_or_default().to_lowercase();
    if ["handler", "notify"].iter().any(|handled| protocol.contains(handled)) {
        return println!("SKIPPED: {NAME}: the thread that handles messages makes the order");
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/turns.py");
    // Ends that meet after a while, and as early as possible.
    for meet in ["", "0"] {
        let mut command = Command::new(sovia());
        command.args(["run", "-v", "--", "/usr/bin/python3", program]);
        if !meet.is_empty() {
            command.env("SOVIA_MEET", meet);
        }
        let output = command.output().expect("sovia is there");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, results) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(said, "in turn\n", "{results}");
        assert!(results.contains("sovia: accelerated: "), "{results}");
    }
}
