//! Checks that `sovia doctor` reports what keeps programs on TCP, by its lines and its exit status.

use std::process::Command;

use crate::common::Said;

/// Stand-in for the library, which no check loads.
const LIBRARY: &str = "/bin/sh";

/// Runs the checks under a limit. Returns the exit status, and the verdicts by subject.
fn findings(limit: &str, arguments: &str) -> (i32, Vec<(String, String)>) {
    findings_with(LIBRARY, limit, arguments)
}

fn findings_with(library: &str, limit: &str, arguments: &str) -> (i32, Vec<(String, String)>) {
    let line = format!("{limit} exec {} doctor --json {arguments}", env!("CARGO_BIN_EXE_sovia"));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &line]).env("SOVIA_PRELOAD", library).env("SOVIA_AGENT", "/nowhere");
    let said = Said::from(shell.output().unwrap());
    let lines = said.out.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        assert!(value["verdict"] == "good" || value["advice"].is_string(), "{line}: no advice");
        (text("what"), text("verdict"))
    });
    (said.code(), lines.collect())
}

fn verdict<'a>(findings: &'a [(String, String)], what: &str) -> &'a str {
    let found = findings.iter().find(|(name, _)| name == what);
    found.map_or_else(|| panic!("{what} is missing of {findings:?}"), |(_, verdict)| verdict)
}

#[test]
fn limits_that_leave_no_room_are_found_and_end_in_status_1() {
    for (limit, what) in
        [("ulimit -n 512;", "descriptors"), ("ulimit -S -v 10000000;", "address space")]
    {
        let (status, found) = findings(limit, "--no-trial");
        assert_eq!((status, verdict(&found, what)), (1, "bad"), "{limit} {found:?}");
    }
    let (_, found) = findings("ulimit -n 2000;", "--no-trial");
    assert_eq!(verdict(&found, "descriptors"), "note");
    assert_eq!(verdict(&found, "agent"), "note");
    assert_eq!(verdict(&found, "shared memory"), "good");
    assert_eq!(verdict(&found, "UDP"), "good");
}

#[test]
fn a_library_that_cannot_be_loaded_is_found() {
    assert_eq!(verdict(&findings("", "--no-trial").1, "library"), "good");
    let (status, found) = findings_with("/etc/passwd", "", "--no-trial");
    assert_eq!((status, verdict(&found, "library")), (1, "bad"), "{found:?}");
}

#[test]
fn a_trial_that_stays_on_tcp_is_found() {
    // The stand-in for the library accelerates no connection.
    let (status, found) = findings("", "");
    assert_eq!((status, verdict(&found, "trial")), (1, "bad"), "{found:?}");
}

#[test]
fn a_wrong_command_line_ends_in_status_2() {
    let mut sovia = Command::new(env!("CARGO_BIN_EXE_sovia"));
    let said = Said::from(sovia.args(["doctor", "--bogus"]).output().unwrap());
    assert_eq!(said.code(), 2, "{said:?}");
}

#[test]
fn findings_have_no_numbers_of_errors() {
    let line = format!("exec {} doctor --no-trial", env!("CARGO_BIN_EXE_sovia"));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &line]).env("SOVIA_PRELOAD", LIBRARY).env("SOVIA_AGENT", "/nowhere");
    let said = Said::from(shell.output().unwrap());
    assert!(!said.out.contains("os error"), "{said:?}");
    assert!(said.out.contains("no agent at /nowhere"), "{said:?}");
}

#[test]
fn loopback_that_is_down_is_found_and_no_trial_runs() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", env!("CARGO_BIN_EXE_sovia"), "doctor"]);
    let said = Said::from(unshare.env("SOVIA_PRELOAD", LIBRARY).output().unwrap());
    if said.out.is_empty() {
        return println!("SKIPPED: loopback_that_is_down: no namespaces: {said:?}");
    }
    assert_eq!(said.code(), 1, "{said:?}");
    for text in ["cannot reach 127.0.0.1", "did not run: 127.0.0.1 is not reachable"] {
        assert!(said.out.contains(text), "{text}: {said:?}");
    }
}
