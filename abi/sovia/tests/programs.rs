//! Runs C programs that hold both ends. They use every kind of descriptor, every option and every misuse of a buffer.

use crate::common::{program, run, sovia, watched};
use std::process::Command;

fn alone(source: &str) {
    assert_eq!(run(&mut watched(&program(source))), "as it should be\n");
}

#[test]
fn kinds_and_options() {
    alone("tests/c/kinds.c");
}

#[test]
fn buffers() {
    alone("tests/c/loans.c");
}

#[test]
fn buffers_under_sovia_run() {
    let Some(sovia) = sovia("buffers_under_sovia_run") else { return };
    let program = program("tests/c/loans.c");
    // Under `sovia run`, every stream is accelerated, whatever its type.
    let mut under = Command::new("timeout");
    under.args(["--kill-after=5", "60"]).arg(sovia).args(["run", "--"]).arg(program).arg("under");
    assert_eq!(run(&mut under), "as it should be\n");
}
