//! The end of `sovia top`.

use sovia_tests::{TempDir, Terminal, skipped, sovia, until};
use std::path::PathBuf;

/// Heading that is shown first.
const SHOWN: &str = "PROGRAM ";

/// Returns a terminal in which `command` has started `sovia top`, once it shows something.
fn showing(folder: &TempDir, command: &str) -> Terminal {
    let terminal = Terminal::start(folder, 80, command);
    until("nothing is shown", || terminal.screen().contains(SHOWN));
    terminal
}

fn process(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/exe"))
}

/// `sovia top` ends when its terminal closes, even if SIGHUP is ignored (nohup).
#[test]
fn top_ends_with_its_terminal() {
    let test = "top_ends_with_its_terminal";
    if skipped(test, &["tmux"]) {
        return;
    }
    let folder = TempDir::new();
    for before in ["", "trap '' HUP; "] {
        let terminal = showing(&folder, &format!("{before}exec {} top", sovia().display()));
        let pid = terminal.pid();
        assert!(process(pid).read_link().is_ok_and(|it| it.ends_with("sovia-tools")));
        drop(terminal);
        until("it goes on without a terminal", || process(pid).read_link().is_err());
    }
}

/// SIGTERM ends `sovia top`, which restores the terminal.
#[test]
fn signal_ends_top_like_a_key() {
    let test = "signal_ends_top_like_a_key";
    if skipped(test, &["tmux"]) {
        return;
    }
    let folder = TempDir::new();
    let command = format!(
        "echo before it; sh -c 'echo $$ >{pid}; exec {top} top'; echo it has ended; sleep 1000",
        pid = folder.path().join("pid").display(),
        top = sovia().display()
    );
    let terminal = showing(&folder, &command);
    let pid = std::fs::read_to_string(folder.path().join("pid")).expect("its id");
    let pid: i32 = pid.trim().parse().expect("a number");
    // SAFETY: a signal to a process that this test has started and that its shell has not reaped.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let back = |screen: &str| screen.starts_with("before it\nit has ended");
    until("the terminal is not put back", || back(&terminal.screen()));
}
