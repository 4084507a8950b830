//! How `scripts/test` counts (`scripts/count.awk`): a test program that prints no result has failed, whatever others print.

use std::io::Write;
use std::process::{Command, Stdio};

fn counted(log: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/count.awk");
    let mut awk = Command::new("awk");
    awk.args(["-f", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut awk = awk.spawn().expect("awk");
    awk.stdin.take().expect("a pipe").write_all(log.as_bytes()).expect("awk reads");
    String::from_utf8(awk.wait_with_output().expect("it ends").stdout).expect("text")
}

/// `  Running`, a result and cargo's status.
const GOOD: &str = "     Running tests/a.rs (target/a)\n\
    test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n";
const DONE: &str = "scripts/test: status 0\n";
const FAILED: &str = "scripts/test: status 101\n";

#[test]
fn results_are_added_up() {
    let bad = "     Running tests/b.rs (target/b)\n\
        test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n";
    assert_eq!(counted(&[GOOD, DONE, bad, FAILED].concat()), "5 passed, 1 failed, 1 skipped\n");
}

#[test]
fn a_test_that_was_skipped_counts_once() {
    let skipped = "test b ... SKIPPED: b: no NIC\nSKIPPED: b: no NIC either\n";
    assert_eq!(counted(&[skipped, GOOD, DONE].concat()), "2 passed, 0 failed, 2 skipped\n");
}

#[test]
fn a_test_that_passes_alone_counts_as_passed() {
    let bad = "     Running tests/b.rs (target/b)\n\
        test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n";
    assert_eq!(counted(&[bad, FAILED, "flaky b\n"].concat()), "3 passed, 0 failed, 0 skipped\n");
}

#[test]
fn a_program_without_a_result_has_failed() {
    let dead = "     Running tests/b.rs (target/b)\nabort\n";
    for log in [[dead, GOOD, FAILED], [GOOD, dead, FAILED]] {
        assert_eq!(counted(&log.concat()), "3 passed, 1 failed, 1 skipped\n");
    }
    assert_eq!(counted(&[dead, GOOD, dead].concat()), "3 passed, 2 failed, 1 skipped\n");
}

/// Examples of a library may have more results than one, and what runs in a guest may have no line that names it.
#[test]
fn a_result_more_hides_no_program_without_one() {
    let more = "test result: ok. 1 passed; 0 failed; 0 ignored\n";
    let dead = "     Running tests/b.rs (target/b)\nabort\n";
    let log = [GOOD, more, DONE, dead, FAILED].concat();
    assert_eq!(counted(&log), "4 passed, 1 failed, 1 skipped\n");
}

#[test]
fn a_run_that_does_not_compile_or_is_cut_off_has_failed() {
    for status in ["1", "124", "126"] {
        let log = [GOOD, "scripts/test: status ", status, "\n"].concat();
        assert_eq!(counted(&log), "3 passed, 1 failed, 1 skipped\n", "{status}");
    }
}
