//! Reports to the user about connections that are not on a VI: one true reason for each.

use sovia_tests::{Launch, Stack, free_port, installed, skipped, sovia};
use std::path::Path;
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);

/// Runs a case of `apps-py/reasons.py`. The report of `sovia run -v` must have `reason`, and no
/// other one.
fn told(case: &str, options: &[&str], reason: &str) {
    all_told(case, options, &[reason]);
}

/// Like [`told`], for a report with several reasons.
fn all_told(case: &str, options: &[&str], reasons: &[&str]) {
    if skipped(case, &["python3"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/reasons.py");
    let python = installed("python3").expect("looked for before");
    let mut command = vec![sovia().display().to_string(), "run".into(), "-v".into()];
    command.extend(options.iter().map(ToString::to_string));
    command.extend(["--".into(), python.display().to_string(), script.display().to_string()]);
    command.extend([case.into(), free_port().to_string()]);
    let launch = Launch::new(Stack::Kernel, command).env("SOVIA_FILTERS", "/nowhere");
    let outcome = launch.start().finish(WATCHDOG);
    assert!(outcome.success() && outcome.stdout == "ok\n", "{case}: {outcome:#?}");
    // A count, and its subject.
    let reason = |line: &str| {
        let (count, text) = line.strip_prefix("sovia: ")?.trim_start().split_once("  ")?;
        count.parse::<u64>().ok().map(|_| text.to_owned())
    };
    let mut said: Vec<String> = outcome.stderr.lines().filter_map(reason).collect();
    said.dedup();
    // The other end falls back too, and reports this if it still runs.
    said.retain(|text| text != "went back to TCP: the peer asked for that");
    assert_eq!(said, reasons, "{case}: {outcome:#?}");
}

#[test]
fn a_connection_that_was_short() {
    told(
        "short",
        &[],
        "closed before the two ends had found each other (too short to gain from a VI)",
    );
}

#[test]
fn a_peer_without_sovia() {
    told("plain", &[], "the other end did not answer (does it run under Sovia?)");
}

#[test]
fn a_rule() {
    told("rule", &["--only", "port=1"], "kept on TCP by a rule");
}

#[test]
fn a_rule_that_respects_filters_without_an_agent() {
    let reason = "a rule respects packet filters, but no `sovia agent --filters` runs here to watch the filters";
    told("rule", &["--respect-filters"], reason);
}

#[test]
fn a_rule_that_names_a_nic_which_no_agent_has() {
    let reason = "no agent here has the name that the rule of --nic gives (`sovia agent --name`)";
    told("rule", &["--nic", "name=nobody"], reason);
}

#[test]
fn a_program_that_replaces_itself() {
    told("execs", &[], "went back to TCP: the program replaced itself with another program (exec)");
}

#[test]
fn a_connection_that_libc_prints_to() {
    told(
        "is_printed_to",
        &[],
        "went back to TCP: the program used a call that Sovia does not support",
    );
}

#[test]
fn a_connection_that_is_sent_to_with_flags_that_do_nothing_stays() {
    all_told("sends_with_idle_flags", &[], &[]);
}

#[test]
fn a_connection_that_is_received_from_with_flags_that_do_nothing_stays() {
    all_told("receives_with_idle_flags", &[], &[]);
}

#[test]
fn a_connection_that_is_sent_to_another_process() {
    told("is_passed", &[], "went back to TCP: the descriptor was sent to another process");
}

#[test]
fn a_program_under_a_filter() {
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        return println!(
            "SKIPPED: is_filtered: only root may have a filter and no_new_privs unset"
        );
    }
    told("is_filtered", &[], "went back to TCP: the program installed a seccomp filter");
}

#[test]
fn a_connection_behind_a_relay() {
    told(
        "is_relayed",
        &[],
        "continued through a relay process: the peer could not take the connection back to TCP",
    );
}

/// The program ends with unread bytes, and more of its own in the relay. The peer gets a reset, as
/// over TCP.
#[test]
fn a_relay_that_loses_bytes_resets_its_connection() {
    told(
        "is_relayed_and_cut",
        &[],
        "continued through a relay process: the peer could not take the connection back to TCP",
    );
}

#[test]
fn a_connection_that_was_refused() {
    told("no_listener", &[], "never connected: the connection was refused, or not answered");
}

/// Runs a program whose two threads exchange a thousand messages before it ends in the given way. Returns the number
/// of messages in the report.
fn counted(way: &str) -> u64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/ends.py");
    let python = installed("python3").expect("looked for before");
    let words = [sovia(), "run".into(), "-v".into(), "--".into(), python, script];
    let mut command: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
    command.extend([way.into(), free_port().to_string()]);
    let outcome = Launch::new(Stack::Kernel, command).start().finish(WATCHDOG);
    let line = outcome.stderr.lines().find_map(|line| line.strip_prefix("sovia: sent "));
    let line = line.unwrap_or_else(|| panic!("{way}: {outcome:#?}"));
    let (sent, received) = line.split_once(" messages, received ").expect("two counts");
    let (bytes, messages) = sent.split_once(" in ").expect("two counts");
    assert_eq!(bytes, received, "{way}: {outcome:#?}");
    messages.parse().expect("a number")
}

#[test]
fn messages_are_counted_whichever_way_the_program_ends() {
    if skipped("messages_are_counted_whichever_way_the_program_ends", &["python3"]) {
        return;
    }
    for way in ["exit", "_exit", "SIGTERM", "SIGINT", "SIGKILL", "child"] {
        let messages = counted(way);
        // The first messages travel over TCP.
        assert!((1900..=2000).contains(&messages), "{way}: {messages}");
    }
}
