//! Runs C programs that use libfabric's interface over this provider, which libfabric loads.

#[path = "../../testing/commands.rs"]
mod commands;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use self::commands::{folder, here, release};

/// The built test programs; `None` if libfabric is not installed.
struct Made {
    /// Tests of libfabric's documented behaviour, and of behaviour found with libfabric's own tests.
    fabric: PathBuf,
    found: PathBuf,
    /// Sends random messages among eight processes.
    soak: PathBuf,
    /// Folder of the provider, under the name that libfabric looks for. The provider is from `SOVIA_FI`, or from `make
    /// build`.
    providers: PathBuf,
}

fn made() -> Option<&'static Made> {
    static MADE: OnceLock<Option<Made>> = OnceLock::new();
    MADE.get_or_init(|| {
        if !Path::new("/usr/include/rdma/fabric.h").exists() {
            println!("SKIPPED: not installed: libfabric-dev");
            return None;
        }
        let providers = env::var_os("SOVIA_FI").map_or_else(|| release().join("fi"), PathBuf::from);
        let library = providers.join("libsovia-fi.so");
        assert!(library.exists(), "{} is missing: build it with `make build`", library.display());
        let program = |name: &str| {
            let program = folder().join(name);
            let source = here().join("tests/c").join(name).with_extension("c");
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
            commands::run(compiler.arg(source).arg("-lfabric"));
            program
        };
        let [fabric, found, soak] = ["fabric", "found", "soak"].map(program);
        Some(Made { fabric, found, soak, providers })
    })
    .as_ref()
}

/// Runs the cases of both programs with these environment variables.
fn run(variables: &[(&str, &str)]) {
    let Some(Made { fabric, .. }) = made() else { return };
    run_program(fabric, 14, variables);
    run_found(variables);
}

fn run_found(variables: &[(&str, &str)]) {
    let Some(Made { found, .. }) = made() else { return };
    run_program(found, 3, variables);
}

fn run_program(program: &Path, cases: usize, variables: &[(&str, &str)]) {
    let Some(Made { providers, .. }) = made() else { return };
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).env("FI_PROVIDER_PATH", providers);
    let output = command.envs(variables.iter().copied()).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert_eq!(out.lines().filter(|line| line.ends_with(": right")).count(), cases, "{out}");
}

#[test]
fn endpoint_keeps_libfabrics_promises() {
    run(&[]);
}

#[test]
fn endpoint_keeps_libfabrics_promises_with_fi_thread_safe() {
    run(&[("FABRIC_SAFE", "1")]);
}

/// Runs with `SOVIA_DIRECT=off`, as on a system that forbids reads of other processes' memory.
#[test]
fn endpoint_keeps_libfabrics_promises_without_direct_reads() {
    run(&[("SOVIA_DIRECT", "off")]);
}

/// Runs over EMP, as between hosts.
#[test]
fn regions_and_last_words_go_by_emp() {
    run_found(&[("FI_SOVIA_SHM", "off"), ("FI_SOVIA_PLACE", "udp:127.0.0.1:0")]);
}

/// Runs rounds of random messages for `minutes` minutes, or one round for 0. A failure prints how to repeat its round.
fn soak(minutes: &str, seed: &str) {
    let Some(Made { soak, providers, .. }) = made() else { return };
    let mut command = Command::new(soak);
    let status = command.args([minutes, seed]).env("FI_PROVIDER_PATH", providers).status();
    assert!(status.expect("the program runs").success());
}

/// Runs two rounds over EMP with lost frames, and four over shared memory. One of the four kills a process.
#[test]
fn random_messages_among_eight_processes() {
    [1, 3, 5, 6, 7, 8].iter().for_each(|seed| soak("0", &seed.to_string()));
}

/// Runs a round over EMP that kills a process.
#[test]
#[ignore = "takes long: the others find it dead after a minute on all processors"]
fn random_messages_by_emp_among_eight_processes_one_of_which_is_killed() {
    soak("0", "2");
}

/// Runs rounds for `MINUTES` minutes (default 60), from the seed `SEED` on.
#[test]
#[ignore = "takes an hour: `make soak-mpi`"]
fn random_messages_for_an_hour() {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let seconds = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs().to_string();
    soak(&said("MINUTES").unwrap_or("60".to_owned()), &said("SEED").unwrap_or(seconds));
}
