//! Connections that packet filters or `sovia off` keep on TCP for a while. Needs root, and uses namespaces of its
//! own.

use sovia_tests::{Launch, Stack, TempDir, skipped, sovia};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);

/// Makes namespaces with a /run of the test's own, in which connections of other programs do not
/// count.
const OWN: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

fn run_with_filters(case: &str) {
    if skipped(case, &["tc", "nft"]) {
        return;
    }
    let namespace = Command::new("unshare").args(["-n", "nft", "list", "ruleset"]).output();
    if !namespace.as_ref().is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: {case}: no network namespace with nftables: {namespace:?}");
    }
    run(case, &[]);
}

/// `more` lists further namespaces, in the words of `unshare`.
fn run(case: &str, more: &[&str]) {
    if skipped(case, &["unshare", "ip"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/kept.py");
    let folder = TempDir::new();
    let words = [&["unshare", "-n"], more, &["/usr/bin/python3", "-B"]].concat();
    let paths = [sovia(), folder.path().to_owned()].map(|path| path.display().to_string());
    let mut command: Vec<String> = words.into_iter().map(str::to_owned).collect();
    command.extend([script.display().to_string(), "drive".into(), case.into()]);
    command.extend(paths);
    Launch::new(Stack::Kernel, command).start().finish(WATCHDOG).expect_ok();
}

#[test]
fn connections_follow_changes_of_filters() {
    run_with_filters("changes");
}

#[test]
fn the_rule_of_one_end_is_enough() {
    run_with_filters("one_end");
}

#[test]
fn a_program_of_the_control_group_keeps_connections_on_tcp() {
    run_with_filters("control_group");
}

#[test]
fn connections_go_back_while_sovia_is_off() {
    run("off", &OWN);
}

#[test]
fn sovia_off_of_one_user_leaves_others_alone() {
    run("off_for_one", &OWN);
}
