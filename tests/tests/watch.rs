//! `sovia ps`, which shows running programs under Sovia to others, with real Redis at one end.

use std::env;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sovia_tests::{
    Launch, Running, Service, Stack, TempDir, Terminal, free_port, installed, skipped, sovia, until,
};

fn redis(folder: &Path) -> (Service, u16) {
    let port = free_port();
    let folder = folder.display();
    let line = format!(
        "redis-server --port {port} --bind 127.0.0.1 --dir {folder} --save --appendonly no \
         --daemonize no --maxclients 2000"
    );
    (Service::start(Stack::Sovia, &line, port), port)
}

fn python() -> String {
    let path = installed("python3").expect("looked for before");
    path.to_str().expect("a path is text").to_owned()
}

fn watched(stack: Stack, port: u16, case: &str) -> Running {
    watched_by(stack, port, case, "")
}

fn watched_by(stack: Stack, port: u16, case: &str, rules: &str) -> Running {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/watched.py");
    let script = script.to_str().expect("a path is text").to_owned();
    let words = [python(), script, port.to_string(), case.into()];
    let running = Launch::new(stack, words).env("SOVIA_RULES", rules).start();
    until(&format!("{case} is not ready"), || numbers(&running).is_some());
    running
}

/// The numbers behind "ready", once the line is whole: a program may write it in pieces.
fn numbers(running: &Running) -> Option<Vec<u64>> {
    let text = running.stdout_so_far();
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let line = lines.find_map(|line| line.strip_prefix("ready"))?;
    Some(line.split_whitespace().map(|word| word.parse().expect("a number")).collect())
}

fn said(running: &Running) -> Vec<u64> {
    numbers(running).expect("it is ready")
}

fn run(arguments: &[&str]) -> Output {
    Command::new(sovia()).args(arguments).output().expect("sovia runs")
}

fn ps(filters: &[&str]) -> Vec<Value> {
    let output = run(&[&["ps", "--json"], filters].concat());
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

/// Ends with that port, of processes of that program.
fn ends(port: u16, program: &str) -> Vec<Value> {
    ps(&["--port", &port.to_string(), "--program", program])
}

fn pids(processes: &Value) -> Vec<u64> {
    let list = processes.as_array().expect("a list of processes");
    list.iter().map(|process| process["pid"].as_u64().expect("an id")).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn left_out(test: &str) -> bool {
    skipped(test, &["redis-server", "python3"])
}

#[test]
fn both_ends_of_an_accelerated_connection_show() {
    if left_out("both_ends_of_an_accelerated_connection_show") {
        return;
    }
    let folder = TempDir::new();
    let (server, port) = redis(folder.path());
    let client = watched(Stack::Sovia, port, "plain");
    let (theirs, ours) = (ends(port, "redis-server"), ends(port, "python3"));
    assert_eq!((theirs.len(), ours.len()), (1, 1), "{theirs:?} {ours:?}");
    let (server_end, client_end) = (&theirs[0], &ours[0]);
    assert_eq!(server_end["protocol"], client_end["protocol"]);
    for end in [server_end, client_end] {
        assert_eq!((&end["state"], &end["carrier"]), (&"via".into(), &"shm".into()), "{end}");
        if env::var_os("SOVIA_PROTOCOL").is_none() {
            assert_eq!(end["protocol"], "single,auto,w=32,t=16", "{end}");
        }
    }
    assert_eq!(client_end["connector"], true);
    assert_eq!(client_end["local"], server_end["peer"]);
    assert_eq!(client_end["peer"], format!("127.0.0.1:{port}"));
    assert_eq!(pids(&server_end["processes"]), [u64::from(server.id())]);
    assert_eq!(pids(&client_end["processes"]), [u64::from(client.id())]);
    assert_eq!(pids(&client_end["other_end"]), [u64::from(server.id())]);
    // All 300 questions of 6 bytes and answers of 7, over one path or the other.
    let sum = |end: &Value, what: &str| {
        number(&end[format!("bytes_{what}")]) + number(&end[format!("tcp_bytes_{what}")])
    };
    assert_eq!((sum(client_end, "sent"), sum(client_end, "received")), (1800, 2100));
    assert_eq!((sum(server_end, "sent"), sum(server_end, "received")), (2100, 1800));
    let messages = number(&client_end["messages_sent"]);
    assert!((200..=300).contains(&messages), "{client_end}");
    assert_eq!(client_end["messages_sent"], server_end["messages_received"]);

    let lines = run(&["ps", "--port", &port.to_string()]);
    let text = String::from_utf8(lines.stdout).expect("text");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains(&format!("python3,{}", client.id())), "{text}");

    // Killed, it is gone; its peer's end goes with it.
    client.signal(libc::SIGKILL);
    until("the killed client is shown", || ends(port, "python3").is_empty());
    until("its connection is shown", || ends(port, "redis-server").is_empty());
    let id = server.id().to_string();
    server.end(libc::SIGKILL);
    until("the killed server is shown", || !run(&["ps", "--pid", &id]).status.success());
    let refused = String::from_utf8(run(&["ps", "--pid", &id]).stderr).expect("text");
    assert!(refused.contains(&format!("there is no process {id}")), "{refused}");
}

/// How the linker's number of the library begins, as `readelf` says it.
fn number_of_the_build() -> Option<String> {
    let library = sovia().with_file_name("libsovia_preload.so");
    let output = Command::new("readelf").arg("-n").arg(library).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let number = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "))?;
    Some(number[..8].to_owned())
}

/// Two builds of one version are not the same, and one of them may be the older.
#[test]
fn which_build_a_process_has_shows() {
    if left_out("which_build_a_process_has_shows") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let _client = watched(Stack::Sovia, port, "plain");
    let Some(number) = number_of_the_build() else {
        return println!("SKIPPED: which_build_a_process_has_shows: no readelf");
    };
    let ends = ends(port, "redis-server");
    let library = ends[0]["processes"][0]["library"].as_str().expect("text");
    let build = library.split_once('+').map(|(_, build)| build);
    assert_eq!(build, Some(&*number), "{library}");
}

/// Filters leave out what they say.
#[test]
fn filters_choose() {
    if left_out("filters_choose") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let client = watched(Stack::Sovia, port, "plain");
    let (port, pid) = (port.to_string(), client.id().to_string());
    let shown = |more: &[&str]| ps(&[&["--port", &port], more].concat()).len();
    assert_eq!(shown(&[]), 2);
    for (filter, value, count) in [
        ("--pid", pid.as_str(), 1),
        ("--program", "redis-server", 1),
        ("--program", "no-such", 0),
        ("--state", "via", 2),
        ("--state", "tcp", 0),
        ("--carrier", "shm", 2),
        ("--carrier", "tcp", 0),
    ] {
        assert_eq!(shown(&[filter, value]), count, "{filter} {value}");
    }
    let refused = run(&["ps", "--state", "fast"]);
    assert!(!refused.status.success());
}

#[test]
fn a_connection_on_tcp_says_why() {
    if left_out("a_connection_on_tcp_says_why") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let client = watched_by(Stack::Sovia, port, "plain", "except:port=1-65535");
    let ends = ends(port, "python3");
    assert_eq!((&ends[0]["state"], &ends[0]["carrier"]), (&"tcp".into(), &"tcp".into()));
    assert_eq!(ends[0]["why"], "kept on TCP by a rule");
    let text = explained(&client.id().to_string());
    assert!(text.contains("why: kept on TCP by a rule"), "{text}");
    assert!(text.contains("the rules are: except:port=1-65535"), "{text}");
}

/// The other end has no library in it: explained is how to start it.
#[test]
fn a_peer_without_sovia_is_explained() {
    if left_out("a_peer_without_sovia_is_explained") {
        return;
    }
    let folder = TempDir::new();
    let (server, port) = redis(folder.path());
    let client = watched(Stack::Kernel, port, "plain");
    let text = explained(&server.id().to_string());
    assert!(
        text.contains("why: the other end did not answer (does it run under Sovia?)"),
        "{text}"
    );
    assert!(text.contains(&format!("other end: python3,{} of ", client.id())), "{text}");
    let script = format!("watched.py {port} plain");
    let advice =
        text.lines().find(|line| line.contains("start the other end with:  sovia run -- "));
    assert!(advice.is_some_and(|line| line.ends_with(&script)), "{text}");
    // Asked of itself, and of its port.
    let text = explained(&client.id().to_string());
    assert!(text.contains("not under Sovia") && text.contains("sovia run -- "), "{text}");
    assert!(explained(&port.to_string()).contains("redis-server"));
    let client = watched(Stack::Sovia, port, "plain");
    let text = explained(&client.id().to_string());
    assert!(text.contains("accelerated: by memory that both processes share"), "{text}");
    assert!(text.contains(&format!("other end: redis-server,{}", server.id())), "{text}");
    assert!(!run(&["explain", "--pid", "2000000000"]).status.success());
}

fn explained(what: &str) -> String {
    let output = run(&["explain", what]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// More connections than the family's first file holds.
#[test]
fn many_connections_show() {
    if left_out("many_connections_show") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let _client = watched(Stack::Sovia, port, "many");
    for program in ["redis-server", "python3"] {
        assert_eq!(ends(port, program).len(), 700, "{program}");
    }
}

#[test]
fn a_forked_child_shares_its_parents_connection() {
    if left_out("a_forked_child_shares_its_parents_connection") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let parent = watched(Stack::Sovia, port, "fork");
    let child = said(&parent)[0];
    let mut both = [u64::from(parent.id()), child];
    both.sort_unstable();
    let shown = || {
        let ends = ends(port, "python3");
        assert_eq!(ends.len(), 1, "{ends:?}");
        let mut pids = pids(&ends[0]["processes"]);
        pids.sort_unstable();
        pids
    };
    assert_eq!(shown(), both);
    // SAFETY: the child of this test's program, which lives until it is killed here.
    unsafe { libc::kill(child as i32, libc::SIGKILL) };
    until("the dead child is shown", || shown() == [u64::from(parent.id())]);
}

/// Each process has its own records after a fork.
#[test]
fn parent_and_child_have_connections_of_their_own() {
    if left_out("parent_and_child_have_connections_of_their_own") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let parent = watched(Stack::Sovia, port, "fork_then_more");
    until("the child is not ready", || parent.stdout_so_far().contains("child"));
    let child = said(&parent)[0];
    let ends = ends(port, "python3");
    let of = |wanted: &[u64]| {
        let is_theirs = |end: &&Value| {
            let mut pids = pids(&end["processes"]);
            pids.sort_unstable();
            pids == wanted
        };
        ends.iter().filter(is_theirs).count()
    };
    let parent = u64::from(parent.id());
    assert_eq!((of(&[parent]), of(&[child])), (600, 600));
    assert_eq!(of(&[parent.min(child), parent.max(child)]), 10);
}

/// The program that a process has become has what it has inherited, and nothing of the old one's is shown.
#[test]
fn a_program_that_has_become_another_shows_as_that() {
    if left_out("a_program_that_has_become_another_shows_as_that") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let program = watched(Stack::Sovia, port, "become_another");
    let pid = program.id().to_string();
    let name = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    until("it has not become another", || name() == "sleep\n");
    let ends = ps(&["--pid", &pid]);
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0]["processes"][0]["program"], "sleep", "{ends:?}");
    assert_eq!(ends[0]["carrier"], "shm", "{ends:?}");
}

#[test]
fn a_process_that_has_changed_its_user_still_shows_to_root() {
    let test = "a_process_that_has_changed_its_user_still_shows_to_root";
    if left_out(test) {
        return;
    }
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: {test}: only root can change its user");
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let worker = watched(Stack::Sovia, port, "change_user");
    let local = said(&worker)[0];
    let shown = || {
        let ends = ends(port, "python3");
        ends.into_iter().find(|end| end["local"] == format!("127.0.0.1:{local}"))
    };
    let end = shown().expect("the connection that is newer than the change");
    assert_eq!(end["processes"][0]["uid"], 65534, "{end}");
    assert_eq!(end["carrier"], "tcp", "{end}");
    assert_eq!(number(&end["tcp_bytes_sent"]), 1800, "{end}");
    let text = explained(&worker.id().to_string());
    assert!(text.contains("--trust user=nobody") && text.contains("--trust user=root"), "{text}");
    // The user itself does not see what the kernel does not let it trace; nor does it see root's.
    if installed("setpriv").is_some() && sovia_tests::all_may_read(&sovia()) {
        let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let output =
            Command::new("setpriv").args(as_nobody).arg(sovia()).args(["ps", "--json"]).output();
        let output = output.expect("setpriv runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    }
}

#[test]
fn programs_in_a_pid_namespace_show_by_their_ids_here() {
    let test = "programs_in_a_pid_namespace_show_by_their_ids_here";
    if left_out(test) || skipped(test, &["unshare"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/watched.py");
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let script = script.to_str().expect("a path is text");
    let words = [&python(), script, &port.to_string(), "plain"].map(str::to_owned);
    // SAFETY: reads nothing but this process's user id.
    let is_root = unsafe { libc::geteuid() } == 0;
    let options: &[&str] = if is_root {
        &["unshare", "-p", "-f", "--kill-child"]
    } else {
        &["unshare", "-U", "-r", "-p", "-f", "--kill-child"]
    };
    let client = Launch::new(Stack::Sovia, words).by(options).start();
    until("it is not ready", || client.stdout_so_far().contains("ready"));
    let ends = ends(port, "python3");
    assert_eq!(ends.len(), 1, "{ends:?}");
    let pid = pids(&ends[0]["processes"])[0];
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let ids = status.lines().find(|line| line.starts_with("NSpid:")).expect("its ids");
    assert_eq!(ids.split_whitespace().count(), 3, "{ids}");
}

#[test]
fn a_programs_name_moves_no_cursor() {
    if left_out("a_programs_name_moves_no_cursor") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let client = watched(Stack::Sovia, port, "name");
    let output = run(&["ps", "--pid", &client.id().to_string()]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\\u{1b}[31m\\u{202e}x\\u{a}"), "{text}");
    assert!(!text.contains('\x1b') && text.lines().count() == 2, "{text}");
}

#[test]
fn what_others_may_read_they_cannot_write() {
    if left_out("what_others_may_read_they_cannot_write") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let client = watched(Stack::Sovia, port, "write");
    assert_eq!(said(&client), [2]);
}

/// Files that say anything: the reader ends, and shows the others.
#[test]
fn hostile_files_fool_no_reader() {
    if left_out("hostile_files_fool_no_reader") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let _client = watched(Stack::Sovia, port, "plain");
    let hostile = watched(Stack::Kernel, port, "hostile");
    let children = said(&hostile);
    assert!(children.len() > 10);
    for _ in 0..20 {
        let output = run(&["ps"]);
        assert!(output.status.success(), "{output:?}");
        let complaints = String::from_utf8(output.stderr).expect("text");
        assert!(complaints.contains("another version of Sovia"), "{complaints}");
        assert!(complaints.contains("corrupt"), "{complaints}");
        assert_eq!(ends(port, "redis-server").len(), 1);
    }
    // Those that a process has made up are its own: no other process is said to have them.
    for child in children {
        for end in ps(&["--pid", &child.to_string()]) {
            assert_eq!(pids(&end["processes"]), [child], "{end}");
        }
    }
}

/// A client that asks and asks.
fn busy(port: u16) -> Running {
    let program = installed("redis-benchmark").expect("it comes with Redis");
    let port_text = port.to_string();
    let words = ["-p", &port_text, "-c", "8", "-n", "1000000000", "-t", "get", "-q"];
    let program = program.to_str().expect("a path is text").to_owned();
    let words = std::iter::once(program).chain(words.map(str::to_owned));
    let client = Launch::new(Stack::Sovia, words).start();
    until("no connection is accelerated", || {
        ends(port, "redis-benchmark").iter().filter(|end| end["state"] == "via").count() == 8
    });
    client
}

#[test]
fn rates_and_totals_show() {
    if left_out("rates_and_totals_show") {
        return;
    }
    let folder = TempDir::new();
    let (server, port) = redis(folder.path());
    let _client = busy(port);
    let id = server.id().to_string();
    let output = run(&["stat", &id, "-i", "0.3", "-n", "2"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0].len(), 8, "{text}");
    for line in &lines[1..] {
        assert_eq!((line[0], line[7]), ("8", format!("redis-server,{id}").as_str()), "{text}");
        assert!(line[2..6].iter().all(|rate| *rate != "0"), "{text}");
    }
    let output = run(&["stat", &id, "--totals"]);
    let text = String::from_utf8(output.stdout).expect("text");
    for what in ["8  connections now", "8  moved to a VI", "bytes sent on VIs"] {
        assert!(text.contains(what), "{what}: {text}");
    }
}

#[test]
fn counters_for_prometheus_grow() {
    if left_out("counters_for_prometheus_grow") {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let _client = busy(port);
    let file = folder.path().join("sovia.prom");
    let words = ["agent", "--metrics-interval", "1", "--metrics"].map(Into::into);
    let words = std::iter::once(sovia().into_os_string()).chain(words);
    let _agent = Launch::new(Stack::Kernel, words.chain([file.clone().into_os_string()])).start();
    let sent = || -> u64 {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let name = "sovia_bytes_sent_total{program=\"redis-benchmark\",";
        let lines = text.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        values.sum()
    };
    until("nothing is counted", || sent() > 0);
    let before = sent();
    until("the counter does not grow", || sent() > before);
    let text = std::fs::read_to_string(&file).expect("the counters");
    assert!(text.contains("carrier=\"shm\",state=\"via\"} "), "{text}");
}

/// In a terminal, narrow and wide; it is left as it was.
#[test]
fn a_terminal_shows_pairs_of_programs() {
    let test = "a_terminal_shows_pairs_of_programs";
    if left_out(test) || skipped(test, &["tmux"]) {
        return;
    }
    let folder = TempDir::new();
    let (_server, port) = redis(folder.path());
    let _client = busy(port);
    for (width, all) in [(80, false), (200, true)] {
        let command = format!("{} top -i 0.3; echo it has ended; sleep 1000", sovia().display());
        let terminal = Terminal::start(&folder, width, &command);
        let mut shown = String::new();
        until("the two programs and their connections", || {
            shown = terminal.screen();
            let pair = |line: &str| {
                line.contains("redis-benchmark > redis-server")
                    && line.contains(&format!(" {port} "))
            };
            shown.lines().any(pair) && shown.contains(" answers/s: ") && shown.contains("%")
        });
        assert_eq!(shown.contains("SLEEP/s"), all, "{shown}");
        assert!(shown.contains("SAVED/s"), "{shown}");
        terminal.press("o");
        until("another order", || terminal.screen().contains("order: messages"));
        terminal.press("q");
        until("its end", || terminal.screen().starts_with("it has ended"));
    }
    let piped = run(&["top"]);
    assert!(!piped.status.success() && piped.stdout.is_empty(), "{piped:?}");
}
