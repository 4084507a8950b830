//! Checks the exit statuses and messages for errors in the command line.

use std::process::{Command, Stdio};

use crate::common::{Said, skipped};

fn sovia(words: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia-tools"));
    command.args(words.split_whitespace()).stdin(Stdio::null());
    Said::from(command.output().expect("sovia starts"))
}

#[test]
fn wrong_command_line_ends_in_status_2() {
    let key = "agent --name n --key /nowhere --listen";
    for (words, message) in [
        ("agent --name n", "--name needs --listen and --key"),
        (&format!("{key} 0.0.0.0:0"), "expected an address of this host"),
        ("agent --name n --port /nowhere/a", "--port needs one --peer"),
        ("lane up --address 10.0.0.1/24 --nic shm:a --peer 10.0.0.2=shm:b --mtu 1", "MTU"),
        ("bench latency --nic nowhere", "is not a place for a NIC"),
        ("bench latency --layers nic", "needs `--nic PLACE`"),
        ("bench idle --open 2 --busy 2", "--busy 2 must be less than --open 2"),
        ("enable --only prt=1 --dry-run some-unit", "did you mean `port`?"),
        ("ps --state nowhere", "possible values"),
        ("ps --state vja", "a similar value exists: 'via'"),
        ("pss", "a similar subcommand exists: 'ps'"),
        ("stta", "a similar subcommand exists: 'stat'"),
        ("ps --pid abc", "expected a process ID"),
        ("ps --port 65536", "expected a port from 1 to 65535"),
        ("explain abc", "expected a process ID or a port"),
        ("explain --port 0", "expected a port from 1 to 65535"),
    ] {
        let said = sovia(words);
        assert_eq!(said.code(), 2, "{words}: {said:?}");
        assert!(said.err.contains(message), "{words}: {said:?}");
    }
}

#[test]
fn command_that_fails_ends_in_status_1() {
    for words in [
        "bench compare /nowhere/a /nowhere/b",
        "explain 2147483647",
        "explain --pid 2147483647",
        "ps --pid 2147483647",
        "ps --user nobody-here",
        "stat 2147483647",
    ] {
        let said = sovia(words);
        assert_eq!(said.code(), 1, "{words}: {said:?}");
        assert!(said.err.starts_with("sovia: "), "{words}: {said:?}");
    }
}

#[test]
fn switch_of_a_user_who_never_logged_in_says_what_to_do() {
    let test = "switch_of_a_user_who_never_logged_in_says_what_to_do";
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid", "54321", "--clear-groups", env!("CARGO_BIN_EXE_sovia-tools"), "off"]);
    let said = match setpriv.stdin(Stdio::null()).output() {
        Ok(output) => Said::from(output),
        Err(_) => return skipped(test, "setpriv is not installed"),
    };
    if said.err.starts_with("setpriv: ") {
        return skipped(test, "needs root, and a build folder that other users can read");
    }
    assert_eq!(said.code(), 1, "{said:?}");
    assert!(said.err.contains("run `sudo sovia off` for all users"), "{said:?}");
}
