//! A process of another user abuses a server's notification sockets, in each possible way. Meanwhile and afterwards
//! the server serves other clients, and ends when it gets the signal.
//!
//! Needs root: without it every test here is skipped and says so.

use sovia_tests::{
    Launch, Outcome, Service, Stack, all_may_read, c_program, free_port, skipped, sovia,
};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(120);
/// Number of each client's requests.
const QUESTIONS: usize = 2000;

fn left_out(test: &str) -> bool {
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: {test}: only root can change its user");
        return true;
    }
    if !all_may_read(&sovia()) {
        println!("SKIPPED: {test}: other users may not read the build");
        return true;
    }
    skipped(test, &["redis-server", "redis-cli", "setpriv"])
}

/// Returns the words that start a command as `user`, under Sovia, with trust in every user.
fn under(user: u32, option: &str) -> String {
    let sovia = sovia().display().to_string();
    format!(
        "setpriv --reuid {user} --regid {user} --clear-groups {sovia} run {option} --trust any --"
    )
}

fn pongs(port: u16, user: u32) -> Outcome {
    let line = format!("{} redis-cli -p {port} -r {QUESTIONS} ping", under(user, "-v"));
    let client = Launch::new(Stack::Kernel, line.split_whitespace()).start().finish(WATCHDOG);
    let pongs = client.stdout.lines().filter(|&line| line == "PONG").count();
    assert_eq!(pongs, QUESTIONS, "{client:#?}");
    client
}

fn a_stranger(mode: &str) {
    if left_out(mode) {
        return;
    }
    let port = free_port();
    let line = format!("{} redis-server --port {port} --bind 127.0.0.1 --dir /", under(4002, "-v"));
    let server = Service::start(Stack::Kernel, &line, port);
    // Needs root: the kernel lets no other user stop page faults in system calls.
    let line = under(0, "");
    let mut line = line.split_whitespace();
    let mut abuser = Command::new(line.next().expect("a command"))
        .args(line)
        .arg(c_program("bells"))
        .args([&port.to_string(), mode])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was looked for before");
    let mut said = String::new();
    let output = abuser.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut said).expect("its output can be read");
    let clients = [(mode, pongs(port, 4001)), ("beside it", pongs(port, 4001))];
    // Without -v, this process is the program itself.
    let killed = abuser.kill();
    let ended = abuser.wait();
    let after = pongs(port, 4001);
    let down = format!("redis-cli -p {port} shutdown nosave");
    let down = Launch::new(Stack::Kernel, down.split_whitespace()).start().finish(WATCHDOG);
    let server = server.ended();
    let all = format!("{killed:?} {ended:?} {clients:#?} {after:#?} {server:#?}");
    assert_eq!(said, "begun\n", "{all}");
    assert!(down.success() && server.success(), "{down:#?} {all}");
}

macro_rules! modes {
    ($($mode:ident),+ $(,)?) => {
        $(
            #[test]
            fn $mode() {
                a_stranger(stringify!($mode));
            }
        )+
    };
}

modes!(
    holds_locks,
    sends_what_lingers,
    changes_options,
    lets_go,
    floods,
    floods_out_of_band,
    steals,
    shuts,
);
