//! MPI programs over Debian's Open MPI with Sovia's provider. Ranks are in two network namespaces, like two hosts on
//! a cable.

use sovia_tests::{Hosts, TempDir, fi_providers, skipped};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Cases that Debian's Open MPI supports between hosts. Its one-sided windows need a transport below
/// `mtl/ofi`.
const CASES: [&str; 13] = [
    "lengths",
    "large",
    "crowd",
    "flood",
    "wildcards",
    "probes",
    "cancels",
    "synchronous",
    "oneself",
    "layouts",
    "types",
    "collectives",
    "truncation",
];
/// One-sided windows over `btl/ofi`, which is such a transport.
const WINDOWS: &[&str] = &["--mca", "osc", "rdma", "--mca", "btl", "ofi,self"];

/// Two hosts, and a program.
struct Job {
    hosts: Hosts,
    folder: TempDir,
    program: PathBuf,
}

impl Job {
    /// Returns `None`, and prints that the test is skipped, if there can be none.
    fn new(test: &str, source: &str) -> Option<Job> {
        if skipped(test, &["mpirun", "mpicc"]) {
            return None;
        }
        let Some(hosts) = Hosts::new() else {
            eprintln!("{test}: skipped, since it may make no network namespaces");
            return None;
        };
        let folder = TempDir::new();
        let program = folder.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-mpi").join(source);
        let mut compiler = Command::new("mpicc");
        compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
        assert!(compiler.status().expect("mpicc").success());
        Some(Job { hosts, folder, program })
    }

    /// Runs the program with this number of ranks in each host.
    fn run(
        &self,
        ranks: u32,
        options: &[&str],
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Output {
        let [here, there] = [Hosts::ADDRESSES[0], Hosts::ADDRESSES[1]];
        // Script by which mpirun starts a command in another host.
        let shell = self.folder.path().join("shell");
        let (first, second) = (self.hosts.prefix(0), self.hosts.prefix(1));
        let script = format!(
            "#!/bin/sh\nhost=$1\nshift\ncase $host in\n{there}) exec {second} sh -c \"$*\";;\n*) exec {first} sh -c \"$*\";;\nesac\n"
        );
        std::fs::write(&shell, script).unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut words = first.split_whitespace();
        let mut command = Command::new("timeout");
        command.arg("300").arg(words.next().expect("a program")).args(words);
        command.args(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        command.args(["-n", &(2 * ranks).to_string()]);
        command.args(["--host", &format!("{here}:{ranks},{there}:{ranks}")]);
        command.args(["--mca", "plm_rsh_agent"]).arg(shell);
        command.args(["--mca", "oob_tcp_if_include", "10.91.7.0/24"]);
        command.args(["--mca", "pml", "cm", "--mca", "mtl", "ofi"]);
        command.args(["--mca", "mtl_ofi_provider_include", "sovia"]);
        command.args(["--mca", "btl_ofi_provider_include", "sovia"]);
        command.args(["-x", "FI_PROVIDER_PATH"]).args(options);
        for (name, value) in variables {
            command.arg("-x").arg(format!("{name}={value}"));
        }
        command.env("FI_PROVIDER_PATH", fi_providers());
        command.arg(&self.program).args(arguments).output().expect("mpirun")
    }
}

fn results_are_right(
    test: &str,
    ranks: u32,
    options: &[&str],
    cases: &[&str],
    variables: &[(&str, &str)],
) {
    let Some(job) = Job::new(test, "check.c") else { return };
    let output = job.run(ranks, options, cases, variables);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    let right = out.lines().filter(|line| line.ends_with(": right")).count();
    assert_eq!(right, cases.len(), "{out}");
}

#[test]
fn results_are_right_between_hosts() {
    results_are_right("results_are_right_between_hosts", 1, &[], &CASES, &[]);
}

/// Uses shared memory to ranks of the same host, and EMP to the others.
#[test]
fn results_are_right_with_neighbours() {
    results_are_right("results_are_right_with_neighbours", 2, &[], &CASES, &[]);
}

/// Usually more ranks than there are processors.
#[test]
fn results_are_right_for_eight_ranks_in_two_hosts() {
    results_are_right("results_are_right_for_eight_ranks_in_two_hosts", 4, &[], &CASES, &[]);
}

/// One frame in 100 is lost, duplicated, reordered, delayed or corrupt.
#[test]
fn results_are_right_where_frames_are_lost() {
    let faults = [("FI_SOVIA_FAULTS", "2000:1")];
    results_are_right("results_are_right_where_frames_are_lost", 2, &[], &CASES, &faults);
}

#[test]
fn results_are_right_with_a_thread_for_the_nic() {
    let thread = [("FI_SOVIA_PROGRESS", "thread")];
    results_are_right("results_are_right_with_a_thread_for_the_nic", 1, &[], &CASES, &thread);
}

#[test]
fn windows_are_right_between_hosts() {
    results_are_right("windows_are_right_between_hosts", 1, WINDOWS, &["windows"], &[]);
}

/// The job ends, and no rank waits for the dead one.
#[test]
fn a_rank_of_another_host_that_is_killed_ends_the_job() {
    let test = "a_rank_of_another_host_that_is_killed_ends_the_job";
    let Some(job) = Job::new(test, "killed.c") else { return };
    let status = job.run(2, &[], &[], &[]).status.code();
    assert!(status.is_some_and(|status| status != 0 && status != 124), "{status:?}");
}
