//! Programs that change their user, their privileges or their namespaces, and users without a mapped id.
//!
//! Needs root: without it every test here is skipped and says so.

use sovia_tests::{Launch, Outcome, Stack, all_may_read, installed, skipped};
use std::path::{Path, PathBuf};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);

fn left_out(test: &str) -> bool {
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: {test}: only root can change its user");
        return true;
    }
    if !all_may_read(&sovia_tests::sovia()) || !all_may_read(&script()) {
        println!("SKIPPED: {test}: other users may not read the build");
        return true;
    }
    skipped(test, &["python3", "setpriv", "unshare"])
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/users.py")
}

/// Returns the interpreter that other users may run too.
fn python() -> PathBuf {
    let common = PathBuf::from("/usr/bin/python3");
    if common.exists() { common } else { installed("python3").expect("looked for before") }
}

fn run(stack: Stack, case: &str) -> Outcome {
    let command = [python().into_os_string(), script().into_os_string(), case.into()];
    Launch::new(stack, command).verbose(stack == Stack::Sovia).start().finish(WATCHDOG)
}

/// Runs over Sovia; the script itself has the assertions.
fn holds(case: &str) {
    if left_out(case) {
        return;
    }
    let outcome = run(Stack::Sovia, case);
    assert!(outcome.success() && outcome.stdout.ends_with("ok\n"), "{case}: {outcome:#?}");
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        $(
            #[test]
            fn $case() {
                holds(stringify!($case));
            }
        )*
    };
}

cases!(
    setuid,
    setgid,
    seteuid,
    setegid,
    setreuid,
    setregid,
    setresuid,
    setresgid,
    setgroups,
    initgroups,
    setfsuid,
    setfsgid,
    capset,
    no_new_privs,
    securebits,
    bounding_set,
    not_dumpable,
    unshare,
    unshare_user,
    setns,
    setresuid_by_number,
    setgroups_by_number,
    nothing_changes,
    a_change_that_fails,
    blocked_threads,
    worker,
    worker_shares_nothing,
    an_undumpable_process,
);

/// The kernel allows this only to processes with one thread. Handler threads end before.
#[test]
fn threads_that_handle_messages_end_for_a_new_namespace() {
    let test = "threads_that_handle_messages_end_for_a_new_namespace";
    if left_out(test) {
        return;
    }
    for protocol in ["SOVIA_HANDLER", "SOVIA_NOTIFY"] {
        let command = [python().into_os_string(), script().into_os_string(), "unshare_user".into()];
        let launch = Launch::new(Stack::Sovia, command).env("SOVIA_PROTOCOL", protocol);
        let outcome = launch.start().finish(WATCHDOG);
        assert!(outcome.success() && outcome.stdout.ends_with("ok\n"), "{protocol}: {outcome:#?}");
    }
}

/// Runs the two ends of a conversation, each started by a prefix. Returns the output of both.
fn converse(test: &str, prefixes: [&str; 2]) -> Option<[Outcome; 2]> {
    if left_out(test) {
        return None;
    }
    let port = sovia_tests::free_port().to_string();
    let start = |role: &str, prefix: &str| {
        let mut command: Vec<String> = prefix.split_whitespace().map(Into::into).collect();
        command.push(sovia_tests::sovia().display().to_string());
        command.extend(["run", "-vv", "--"].map(Into::into));
        command.push(python().display().to_string());
        command.push(script().display().to_string());
        command.extend([role.into(), port.clone()]);
        Launch::new(Stack::Kernel, command).start()
    };
    let ends = [start("answer", prefixes[0]), start("ask", prefixes[1])];
    let ends = ends.map(|end| end.finish(WATCHDOG));
    for end in &ends {
        assert!(end.success() && end.stdout.ends_with("ok\n"), "{test}: {ends:#?}");
    }
    Some(ends)
}

fn refused(test: &str, prefixes: [&str; 2], reasons: [&str; 2]) {
    let Some(ends) = converse(test, prefixes) else { return };
    for (end, reason) in ends.iter().zip(reasons) {
        assert!(end.stderr.contains("accelerated: 0 ends"), "{test}: {ends:#?}");
        assert!(end.stderr.contains(reason), "{test}: not \"{reason}\": {ends:#?}");
    }
}

const NO_NUMBER: &str = "the ID of this process's user is not mapped in the user namespace";
const NOT_TRACEABLE: &str = "the two processes may not read each other's memory";

/// Each namespace shows the other user as 65534.
#[test]
fn users_without_a_number_are_not_one() {
    let of = |user: &str| {
        format!("setpriv --reuid {user} --regid {user} --clear-groups unshare --user --")
    };
    let prefixes = [of("4001"), of("4002")];
    refused(
        "users_without_a_number_are_not_one",
        [&prefixes[0], &prefixes[1]],
        [NO_NUMBER, NO_NUMBER],
    );
}

/// Root of a container without its capabilities is not root of the host.
#[test]
fn root_with_fewer_capabilities_may_not_trace_root() {
    let prefixes = ["", "setpriv --bounding-set -sys_admin,-sys_ptrace --"];
    let test = "root_with_fewer_capabilities_may_not_trace_root";
    refused(test, prefixes, [NOT_TRACEABLE, NOT_TRACEABLE]);
    refused(test, [prefixes[1], prefixes[0]], [NOT_TRACEABLE, NOT_TRACEABLE]);
}

/// Root of a user namespace is a user of the host.
#[test]
fn root_of_another_user_namespace_is_not_root() {
    let prefixes = ["", "unshare --user --map-root-user --"];
    refused("root_of_another_user_namespace_is_not_root", prefixes, ["0", NOT_TRACEABLE]);
}

#[test]
fn one_user_is_accelerated() {
    let of = "setpriv --reuid 4001 --regid 4001 --clear-groups --";
    let Some(ends) = converse("one_user_is_accelerated", [of, of]) else { return };
    for end in &ends {
        assert!(end.stderr.contains("accelerated: 1 end"), "{ends:#?}");
    }
}

const OTHER_USER: &str = "the other end belongs to another user";

/// Returns a prefix for a process of this user, with rules.
fn of(user: u32, rules: &str) -> String {
    format!("setpriv --reuid {user} --regid {user} --clear-groups env SOVIA_RULES={rules}")
}

fn met(test: &str, prefixes: [&str; 2]) {
    let Some(ends) = converse(test, prefixes) else { return };
    for end in &ends {
        assert!(end.stderr.contains("accelerated: 1 end"), "{test}: {ends:#?}");
    }
}

#[test]
fn two_users_who_trust_each_other_meet() {
    let test = "two_users_who_trust_each_other_meet";
    met(test, [&of(4001, "trust:uid=4002"), &of(4002, "trust:uid=4001")]);
    met(test, [&of(4001, "trust:any"), &of(4002, "trust:program=python3,any")]);
    met(test, [&of(0, "trust:any"), &of(4002, "trust:uid=0")]);
}

/// Each message costs a notification of the other user. There is room for some 270 that the thread has not
/// taken.
#[test]
fn two_users_whose_threads_handle_messages_go_on_ringing() {
    let test = "two_users_whose_threads_handle_messages_go_on_ringing";
    for protocol in ["SOVIA_HANDLER", "SOVIA_NOTIFY"] {
        let ends = [of(4001, "trust:uid=4002"), of(4002, "trust:uid=4001")];
        let ends = ends.map(|end| format!("env SOVIA_PROTOCOL={protocol} {end}"));
        met(test, [&ends[0], &ends[1]]);
    }
}

/// Each client is another process. The server's memory of earlier clients is freed, or about to be.
#[test]
fn clients_of_another_user_all_meet_in_turn() {
    let test = "clients_of_another_user_all_meet_in_turn";
    if left_out(test) {
        return;
    }
    const CLIENTS: usize = 20;
    let port = sovia_tests::free_port().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/neighbours.py");
    let start = |user: u32, words: &[&str]| {
        let prefix = of(user, "trust:any");
        let mut command: Vec<String> = prefix.split_whitespace().map(Into::into).collect();
        command.push(sovia_tests::sovia().display().to_string());
        command.extend(["run", "-v", "--"].map(Into::into));
        command.extend([python().display().to_string(), script.display().to_string()]);
        command.extend(words.iter().map(|&word| word.into()));
        Launch::new(Stack::Kernel, command).start()
    };
    let clients = CLIENTS.to_string();
    let server = start(4001, &["answer", "127.0.0.1", &port, &clients]);
    for _ in 0..CLIENTS {
        let client = start(4002, &["ask", "once", "127.0.0.1", &port]).finish(WATCHDOG);
        assert!(client.success() && client.stdout == "accelerated\nok\n", "{client:#?}");
    }
    let server = server.finish(WATCHDOG);
    assert!(server.success() && server.stdout == "ok\n", "{server:#?}");
    assert!(server.stderr.contains("accelerated: 20 ends"), "{server:#?}");
}

#[test]
fn one_who_trusts_is_not_enough() {
    let test = "one_who_trusts_is_not_enough";
    for (answers, asks) in [
        ("trust:uid=4002", ""),
        ("", "trust:uid=4001"),
        ("trust:uid=4003", "trust:any"),
        ("trust:port=1,any", "trust:any"),
    ] {
        let prefixes = [&of(4001, answers), &of(4002, asks)];
        let Some(ends) = converse(test, prefixes.map(String::as_str)) else { return };
        for end in &ends {
            assert!(end.stderr.contains("accelerated: 0 ends"), "{test}: {ends:#?}");
        }
        // The end that would have to trust reports this; the other end has received no answer.
        assert!(ends.iter().any(|end| end.stderr.contains(OTHER_USER)), "{test}: {ends:#?}");
    }
}

/// Only one message passes between them, however long they run.
#[test]
fn two_users_without_a_rule_stop_asking() {
    let test = "two_users_without_a_rule_stop_asking";
    let Some(ends) = converse(test, [&of(4001, ""), &of(4002, "")]) else { return };
    for end in &ends {
        assert!(end.stderr.contains(OTHER_USER), "{test}: {ends:#?}");
    }
    let [answers, asks] = &ends;
    assert!(!answers.stderr.contains("ignored while"), "{test}: {ends:#?}");
    assert!(
        asks.stderr.contains("ignored while ends looked for each other: 1 message "),
        "{test}: {ends:#?}"
    );
}

/// Root of a container without its capabilities.
#[test]
fn user_may_trust_own_processes_that_cannot_be_traced() {
    let trusts = "env SOVIA_RULES=trust:uid=0";
    let fewer = "setpriv --bounding-set -sys_admin,-sys_ptrace -- env SOVIA_RULES=trust:uid=0";
    let test = "user_may_trust_own_processes_that_cannot_be_traced";
    met(test, [trusts, fewer]);
    met(test, [fewer, trusts]);
}

#[test]
fn processes_of_two_pid_namespaces_meet_like_two_users() {
    let test = "processes_of_two_pid_namespaces_meet_like_two_users";
    let here = "env SOVIA_RULES=trust:uid=0";
    let there = "unshare --pid --fork --kill-child --mount-proc env SOVIA_RULES=trust:uid=0";
    met(test, [here, there]);
    met(test, [there, here]);
    met(test, [there, there]);
}

/// The user namespace shows the other end as user 65534, as it would any user.
#[test]
fn a_user_without_a_number_is_trusted_by_no_rule() {
    let prefixes =
        [&*of(4001, "trust:any"), "unshare --user --map-root-user env SOVIA_RULES=trust:any"];
    let test = "a_user_without_a_number_is_trusted_by_no_rule";
    let Some(ends) = converse(test, prefixes) else { return };
    for end in &ends {
        assert!(end.stderr.contains("accelerated: 0 ends"), "{test}: {ends:#?}");
    }
}
