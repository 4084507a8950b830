//! Redis in sandboxes of container engines and systemd units, with a client of another user outside.
//!
//! Redis works in each sandbox; docs/howto/users-and-sandboxes.md lists those in which it is accelerated. Needs root:
//! without it every test here is skipped and says so.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sovia_tests::{
    Agent, Launch, Outcome, Service, Stack, TempDir, all_may_read, free_port, installed, skipped,
    sovia,
};

/// Users as which the server and the client run.
const SERVER: u32 = 4002;
const CLIENT: u32 = 4001;
/// Number of the client's requests.
const QUESTIONS: u32 = 2000;
/// Settings of Debian's redis-server.service that do not decide whether it is accelerated.
const OF_DEBIANS_UNIT: &str =
    "read-only hidden-proc no-capabilities no-write-execute no-new-privileges system-service";

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/sandbox.py")
}

/// Returns the interpreter that other users may run too.
const PYTHON: &str = "/usr/bin/python3";

/// Returns a prefix that starts a command in a sandbox.
fn sandbox(words: &str) -> String {
    format!("{PYTHON} -B {} {words} --", script().display())
}

fn left_out(test: &str) -> bool {
    if !std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0) {
        println!("SKIPPED: {test}: only root can change its user");
        return true;
    }
    if !all_may_read(&sovia()) || !all_may_read(&script()) {
        println!("SKIPPED: {test}: other users may not read the build");
        return true;
    }
    if skipped(test, &["redis-server", "redis-cli", "setpriv", "unshare"]) {
        return true;
    }
    // Some kernels and containers lack user namespaces or seccomp, and libseccomp may be missing.
    let words = format!("{OF_DEBIANS_UNIT} no-netlink container private-users user={SERVER}");
    let probe = format!("{} /bin/true", sandbox(&words));
    let mut line = probe.split_whitespace();
    let mut command = Command::new(line.next().expect("an interpreter"));
    let told = command.args(line).output();
    let can = told.as_ref().is_ok_and(|told| told.status.success());
    if !can {
        println!("SKIPPED: {test}: sandboxes cannot be made here: {told:?}");
    }
    !can
}

/// Runs a server and a client, each behind a prefix. Returns the output of both.
fn ask(test: &str, server: &str, client: &str) -> Option<[Outcome; 2]> {
    if left_out(test) {
        return None;
    }
    let redis_cli = installed("redis-cli").expect("looked for before").display().to_string();
    let questions = |port| format!("{redis_cli} -p {port} -r {QUESTIONS} ping");
    let ends = ask_by(test, server, client, questions);
    let pongs = ends[1].stdout.lines().filter(|&line| line == "PONG").count();
    assert_eq!(pongs, QUESTIONS as usize, "{test}: {ends:#?}");
    Some(ends)
}

/// Like `ask`, with a client started by `command`.
fn ask_by(test: &str, server: &str, client: &str, command: impl Fn(u16) -> String) -> [Outcome; 2] {
    let port = free_port();
    let sovia = sovia().display().to_string();
    let path = |program: &str| installed(program).expect("looked for before").display().to_string();
    let under = format!("{sovia} run -v --trust any --");
    let redis = path("redis-server");
    let options = format!("--port {port} --bind 127.0.0.1 --dir /");
    let line = format!("env {server} {under} {redis} {options}");
    let service = Service::start(Stack::Kernel, &line, port);

    let line = format!("env {client} {under} {}", command(port));
    let client = Launch::new(Stack::Kernel, line.split_whitespace()).start();
    let client = client.finish(Duration::from_secs(120));

    // Ends it by its own command, because the first process of a namespace may take no signal.
    let port = port.to_string();
    let end = Launch::new(Stack::Kernel, ["redis-cli", "-p", &port, "shutdown", "nosave"]);
    assert!(end.start().finish(Duration::from_secs(20)).success(), "{test}: {client:#?}");
    let ends = [service.ended(), client];
    assert!(ends.iter().all(Outcome::success), "{test}: {ends:#?}");
    ends
}

fn accelerated(test: &str, server: &str, client: &str) {
    let Some(ends) = ask(test, server, client) else { return };
    for end in &ends {
        assert!(end.stderr.contains("accelerated: 1 end"), "{test}: {ends:#?}");
    }
}

/// Checks that the connection works over TCP, and that the server reports the reason.
fn on_tcp(test: &str, server: &str, client: &str, reason: &str) {
    let Some([server, client]) = ask(test, server, client) else { return };
    for end in [&server, &client] {
        assert!(end.stderr.contains("accelerated: 0 ends"), "{test}: {server:#?} {client:#?}");
    }
    assert!(server.stderr.contains(reason), "{test}: not \"{reason}\": {server:#?}");
}

fn user(user: u32) -> String {
    format!("setpriv --reuid {user} --regid {user} --clear-groups --")
}

/// Debian's redis-server.service with these additional directives.
fn unit(words: &str) -> String {
    sandbox(&format!("{OF_DEBIANS_UNIT} user={SERVER} {words}"))
}

#[test]
fn unchanged_debian_unit_works_over_tcp() {
    let test = "unchanged_debian_unit_works_over_tcp";
    let reason = "the kernel does not report to this process which user owns the other end";
    on_tcp(test, &unit("private-users no-netlink"), &user(CLIENT), reason);
}

#[test]
fn debians_unit_with_netlink_and_everyones_numbers_is_accelerated() {
    let test = "debians_unit_with_netlink_and_everyones_numbers_is_accelerated";
    accelerated(test, &unit(""), &user(CLIENT));
}

/// Its user namespace maps only its own user and root.
#[test]
fn private_users_meet_their_own_user_and_root() {
    let test = "private_users_meet_their_own_user_and_root";
    accelerated(test, &unit("private-users"), &user(SERVER));
    accelerated(test, &unit("private-users"), "");
}

#[test]
fn private_users_meet_no_other_user() {
    let test = "private_users_meet_no_other_user";
    let reason = "1 to users whose IDs are not mapped in this user namespace";
    on_tcp(test, &unit("private-users"), &user(CLIENT), reason);
}

/// Runs two containers in one network namespace.
fn container(user: u32) -> String {
    let words = "read-only no-capabilities no-new-privileges container";
    let namespaces = "unshare --mount --pid --ipc --uts --fork --kill-child --mount-proc --";
    format!("{namespaces} {}", sandbox(&format!("{words} user={user}")))
}

#[test]
fn containers_of_one_pod_are_accelerated() {
    accelerated("containers_of_one_pod_are_accelerated", &container(SERVER), &container(CLIENT));
}

/// The unit may not ask the kernel, and knows no other user by a number. The agent identifies both ends.
#[test]
fn unchanged_debian_unit_is_accelerated_by_the_agent() {
    let test = "unchanged_debian_unit_is_accelerated_by_the_agent";
    if left_out(test) {
        return;
    }
    let folder = TempDir::new();
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), all).expect("the folder is this process's");
    let _agent = match Agent::start(&folder) {
        Ok(agent) => agent,
        Err(said) => {
            println!("SKIPPED: {test}: {}", said.trim());
            return;
        }
    };
    let by = format!("SOVIA_AGENT={}", Agent::path(&folder).display());
    let with = |prefix: String| format!("{by} {prefix}");
    // Sends as many requests as the agent needs, which has its own pace.
    let asks = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/neighbours.py");
    let command = |port| format!("{PYTHON} -B {} ask redis 127.0.0.1 {port}", asks.display());
    for words in ["private-users no-netlink", "no-netlink", "private-users"] {
        let ends = ask_by(test, &with(unit(words)), &with(user(CLIENT)), command);
        for end in &ends {
            assert!(end.stderr.contains("accelerated: 1 end"), "{test}: {ends:#?}");
        }
    }
}
