//! Programs of libfabric's interface over the provider, as libfabric loads it.

#[path = "../../testing/commands.rs"]
mod commands;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use self::commands::{folder, here, release};

/// What is there to test with; `None` if libfabric is not installed.
struct Made {
    /// What libfabric promises, and what its own tests have found.
    fabric: PathBuf,
    found: PathBuf,
    /// Random messages among eight processes.
    soak: PathBuf,
    /// The folder with the provider, under the name that libfabric looks for: that of `SOVIA_FI`, or of `make build`.
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

/// Runs the cases of both programs with these variables in the environment.
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
fn an_endpoint_does_what_libfabric_promises() {
    run(&[]);
}

#[test]
fn it_does_so_under_a_lock() {
    run(&[("FABRIC_SAFE", "1")]);
}

/// Runs as on a system that lets no process read another one's memory.
#[test]
fn it_does_so_where_all_bytes_have_to_be_sent() {
    run(&[("SOVIA_DIRECT", "off")]);
}

/// Runs as between hosts.
#[test]
fn regions_and_last_words_go_by_emp() {
    run_found(&[("FI_SOVIA_SHM", "off"), ("FI_SOVIA_PLACE", "udp:127.0.0.1:0")]);
}

/// Runs rounds of random messages for so many minutes, or one round; a failure says how to have its round again.
fn soak(minutes: &str, seed: &str) {
    let Some(Made { soak, providers, .. }) = made() else { return };
    let mut command = Command::new(soak);
    let status = command.args([minutes, seed]).env("FI_PROVIDER_PATH", providers).status();
    assert!(status.expect("the program runs").success());
}

/// Runs two rounds by EMP, over a way that loses frames, and four by shared memory. In one of these a process is killed.
#[test]
fn random_messages_among_eight_processes() {
    [1, 3, 5, 6, 7, 8].iter().for_each(|seed| soak("0", &seed.to_string()));
}

/// Runs a round by EMP in which a process is killed.
#[test]
#[ignore = "takes long: the others find it dead after a minute on all processors"]
fn random_messages_by_emp_among_eight_processes_one_of_which_is_killed() {
    soak("0", "2");
}

/// `MINUTES` of them, 60 if that is not said, from `SEED` on.
#[test]
#[ignore = "takes an hour: `make soak-mpi`"]
fn random_messages_for_an_hour() {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let seconds = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs().to_string();
    soak(&said("MINUTES").unwrap_or("60".to_owned()), &said("SEED").unwrap_or(seconds));
}
