//! Running one part of a test in another process: the test binary, started again.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::env;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for every test on a busy machine; then it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Starts this test binary again, to run the test `role` alone, with `variables` set.
pub(crate) fn start(role: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([role, "--exact", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a process to end well; what it says where it does not.
pub(crate) fn finish(mut child: Child) -> Result<(), String> {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("hangs\n{}", said(&mut child)));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    if status.success() { Ok(()) } else { Err(format!("{status}\n{}", said(&mut child))) }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stdout) = &mut child.stdout {
        let _ = stdout.read_to_string(&mut text);
    }
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.read_to_string(&mut text);
    }
    text
}
