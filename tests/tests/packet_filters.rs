//! Programs that respect packet filters. For root, in a network namespace of the test's own.

use sovia_tests::{Launch, Stack, TempDir, skipped, sovia};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);

fn run(case: &str) {
    if skipped(case, &["unshare", "ip", "tc", "nft"]) {
        return;
    }
    let namespace = Command::new("unshare").args(["-n", "nft", "list", "ruleset"]).output();
    if !namespace.as_ref().is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: {case}: no network namespace with nftables: {namespace:?}");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/packet_filters.py");
    let folder = TempDir::new();
    let words = ["unshare", "-n", "/usr/bin/python3", "-B"].map(str::to_owned);
    let paths = [sovia(), folder.path().to_owned()].map(|path| path.display().to_string());
    let mut command = Vec::from(words);
    command.extend([script.display().to_string(), "drive".into(), case.into()]);
    command.extend(paths);
    let end = Launch::new(Stack::Kernel, command).start().finish(WATCHDOG);
    assert!(end.success() && end.stdout.ends_with("ok\n"), "{end:#?}");
    end.stdout
        .lines()
        .filter(|line| line.starts_with("SKIPPED"))
        .for_each(|line| println!("{line}"));
}

#[test]
fn connections_follow_changes_of_filters() {
    run("changes");
}

#[test]
fn the_rule_of_one_end_is_enough() {
    run("one_end");
}

#[test]
fn a_program_of_the_control_group_keeps_connections_on_tcp() {
    run("control_group");
}
