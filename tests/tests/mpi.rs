//! MPI programs over Debian's Open MPI and libfabric, with Sovia's provider.

use sovia_tests::{TempDir, fi_providers, skipped};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An MPI program, built in `folder`.
fn built(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-mpi").join(name);
    let program = folder.join(name).with_extension("");
    let mut compiler = Command::new("mpicc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().expect("mpicc").success());
    program
}

/// Runs a program with this number of ranks over the provider, with these variables in their
/// environment.
fn run(ranks: u32, program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["300", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]);
    command.arg(ranks.to_string()).args(["-x", "FI_PROVIDER_PATH"]);
    command.args(["--mca", "pml", "cm", "--mca", "mtl", "ofi"]);
    command.args(["--mca", "mtl_ofi_provider_include", "sovia"]);
    for (name, value) in variables {
        command.arg("-x").arg(format!("{name}={value}"));
    }
    command.env("FI_PROVIDER_PATH", fi_providers());
    command.arg(program).args(arguments).output().expect("mpirun")
}

const CASES: usize = 14;

fn results_are_right(test: &str, ranks: u32, variables: &[(&str, &str)]) {
    if skipped(test, &["mpirun", "mpicc"]) {
        return;
    }
    let folder = TempDir::new();
    let output = run(ranks, &built(folder.path(), "check.c"), &[], variables);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert_eq!(out.lines().filter(|line| line.ends_with(": right")).count(), CASES, "{out}");
}

#[test]
fn results_are_right_for_one_rank() {
    results_are_right("results_are_right_for_one_rank", 1, &[]);
}

#[test]
fn results_are_right_for_two_ranks() {
    results_are_right("results_are_right_for_two_ranks", 2, &[]);
}

/// Usually more ranks than there are processors.
#[test]
fn results_are_right_for_eight_ranks() {
    results_are_right("results_are_right_for_eight_ranks", 8, &[]);
}

/// Runs as on a system that forbids reads of other processes' memory.
#[test]
fn results_are_right_where_all_bytes_are_sent() {
    results_are_right("results_are_right_where_all_bytes_are_sent", 3, &[("SOVIA_DIRECT", "off")]);
}

/// The job ends, and no rank waits for the dead one.
#[test]
fn a_rank_that_is_killed_ends_the_job() {
    if skipped("a_rank_that_is_killed_ends_the_job", &["mpirun", "mpicc"]) {
        return;
    }
    let folder = TempDir::new();
    let output = run(3, &built(folder.path(), "killed.c"), &[], &[]);
    let status = output.status.code();
    assert!(status.is_some_and(|status| status != 0 && status != 124), "{output:?}");
}
