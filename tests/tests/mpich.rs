//! MPI programs over MPICH with Sovia's provider. MPICH has its own libfabric, which is newer than Debian's. It comes
//! from PyPI, below `target/mpich` or in `SOVIA_MPICH`, because Debian's MPICH is built without libfabric.

use sovia_tests::{Hosts, TempDir, fi_providers};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASES: usize = 14;

/// Returns the folder of MPICH's programs. Returns `None`, and prints that the test is skipped, if none
/// uses libfabric.
fn mpich(test: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = std::env::var_os("SOVIA_MPICH").map_or_else(
        || {
            let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
            target.unwrap_or_else(|| workspace.join("target")).join("mpich")
        },
        PathBuf::from,
    );
    let programs = folder.join("bin");
    let version = Command::new(programs.join("mpichversion")).output();
    let uses_it = version.is_ok_and(|said| {
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.lines().any(|line| line.starts_with("MPICH Device:") && line.contains("ofi"))
    });
    if !uses_it {
        println!("SKIPPED: {test}: no MPICH with libfabric in {}", folder.display());
        return None;
    }
    Some(programs)
}

/// Runs the checks with words before mpiexec, and with its options.
fn run(programs: &Path, folder: &Path, before: &str, options: &[&str]) -> Output {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-mpi/check.c");
    let program = folder.join("check");
    let mut compiler = Command::new(programs.join("mpicc"));
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().expect("mpicc").success());
    let mut command = Command::new("timeout");
    command.arg("300").args(before.split_whitespace()).arg(programs.join("mpiexec"));
    command.args(options).arg(program).env("FI_PROVIDER_PATH", fi_providers());
    // By default MPICH shares memory between the ranks of a host, and uses UCX.
    command.env("FI_PROVIDER", "sovia").env("MPIR_CVAR_CH4_NETMOD", "ofi");
    command.env("MPIR_CVAR_NOLOCAL", "1").output().expect("mpiexec")
}

fn is_right(output: &Output) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert_eq!(out.lines().filter(|line| line.ends_with(": right")).count(), CASES, "{out}");
}

fn results_are_right(test: &str, ranks: &str) {
    let Some(programs) = mpich(test) else { return };
    let folder = TempDir::new();
    is_right(&run(&programs, folder.path(), "", &["-n", ranks]));
}

#[test]
fn mpich_is_right_for_two_ranks() {
    results_are_right("mpich_is_right_for_two_ranks", "2");
}

/// Usually more ranks than there are processors.
#[test]
fn mpich_is_right_for_five_ranks() {
    results_are_right("mpich_is_right_for_five_ranks", "5");
}

/// Runs two ranks in each of two network namespaces.
#[test]
fn mpich_is_right_between_hosts() {
    let test = "mpich_is_right_between_hosts";
    let Some(programs) = mpich(test) else { return };
    let Some(hosts) = Hosts::new() else {
        println!("SKIPPED: {test}: it may make no network namespaces");
        return;
    };
    let folder = TempDir::new();
    let [here, there] = [Hosts::ADDRESSES[0], Hosts::ADDRESSES[1]];
    let (first, second) = (hosts.prefix(0), hosts.prefix(1));
    // Script by which mpiexec starts a command in another host: it gets the host and the command.
    let shell = folder.path().join("shell");
    let script = format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\ncase $host in\n{there}) exec {second} sh -c \"$*\";;\n*) exec {first} sh -c \"$*\";;\nesac\n"
    );
    std::fs::write(&shell, script).unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shell = shell.to_str().expect("a path of text");
    let list = format!("{here}:2,{there}:2");
    let options = [
        "-launcher",
        "ssh",
        "-launcher-exec",
        shell,
        "-localhost",
        here,
        "-hosts",
        &list,
        "-n",
        "4",
    ];
    is_right(&run(&programs, folder.path(), &first, &options));
}
