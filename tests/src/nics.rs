//! Two NICs in software with a lossy link between them, for tests of connections that they carry.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::workspace::{TempDir, sovia};

/// Faults of frames, in percent: 2 are lost, 1 arrives twice, 2 arrive late, and 1 arrives corrupt.
pub const LOSSY: &[&str] =
    &["--lose", "20000", "--duplicate", "10000", "--delay", "20000", "--corrupt", "10000"];

/// Returns rules by which connecting ends use the first NIC, and accepting ends the second. The NICs also carry a single
/// connection.
pub fn between([a, b]: &[String; 2]) -> String {
    format!("nic:name={a},end=connector,messages=1;nic:name={b},end=acceptor")
}

/// Returns the file with the output of an end's NIC.
fn says(end: &str) -> String {
    format!("{end}.says")
}

/// Cases of the C programs' scenarios that must pass wherever two NICs carry a connection. Each becomes a test, which
/// calls `$run` with the case's name and the scenario.
#[macro_export]
macro_rules! carried_scenarios {
    ($run:path) => {
        $crate::carried_scenarios! {
            $run;
            // Bytes sent before a death arrive, and no others.
            "death": killed_at_any_moment, a_reader_dies_without_reading, one_of_two_dies_waiting;
            "dying": a_child_of_the_half_closed_dies;
            // The end on TCP overtakes the bytes on the VI.
            "shutdown": what_was_sent_before_exit_arrives, last_words_are_seen_before_the_end,
                closing_with_unread_bytes_resets, both_close_half_at_once, shutting_both_halves;
            // Connections fall back to TCP, at one end or at both.
            "taken_back": under_a_thread_that_receives, under_a_thread_that_sends, at_both_ends_at_once,
                by_children_of_both_ends, by_children_of_both_ends_that_are_killed;
            "stream_calls": waitall_waits_for_all, writev_and_sendmsg_gather, dontwait_does_not_wait;
        }
    };
    ($run:path; $($program:literal: $($case:ident),+;)+) => {
        $($(
            #[test]
            fn $case() {
                $run(stringify!($case), $crate::Scenario::c($program, stringify!($case)));
            }
        )+)+
    };
}

/// Two NICs, which end with this value. A failing test prints their output.
#[derive(Debug)]
pub struct Nics {
    names: [String; 2],
    agents: [Child; 2],
    folder: TempDir,
}

impl Nics {
    /// Starts two NICs with these options.
    ///
    /// # Panics
    /// If one of them does not come up.
    pub fn start(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = TempDir::new();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("test-{}-{number}-{end}", std::process::id()));
        let port = |end: &str| folder.path().join(end);
        let log = |end: &str| File::create(folder.path().join(says(end))).expect("a file");
        let agent = |name: &str, own: &str, peer: &str| {
            let mut agent = Command::new(sovia())
                .args(["agent", "--name", name, "--port"])
                .arg(port(own))
                .arg("--peer")
                .arg(port(peer))
                .args(options)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(log(own))
                .spawn()
                .expect("sovia agent starts");
            let mut line = String::new();
            let mut output = BufReader::new(agent.stdout.take().expect("a pipe"));
            output.read_line(&mut line).expect("it says when it is ready");
            assert_eq!(line, format!("the NIC {name} is ready\n"));
            agent
        };
        let agents = [agent(&names[0], "a", "b"), agent(&names[1], "b", "a")];
        Self { names, agents, folder }
    }

    /// Returns rules by which connecting ends use the first NIC, and accepting ends the second.
    pub fn rules(&self) -> String {
        between(&self.names)
    }

    /// Kills the first or the second NIC.
    pub fn kill(&self, which: usize) {
        // SAFETY: kill has no memory effects; the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(self.agents[which].id().cast_signed(), libc::SIGKILL) };
    }

    /// Returns the name of the first NIC.
    pub fn name(&self) -> &str {
        &self.names[0]
    }
}

impl Drop for Nics {
    fn drop(&mut self) {
        for (agent, end) in self.agents.iter_mut().zip(["a", "b"]) {
            let ended = agent.try_wait();
            let _ = agent.kill();
            let _ = agent.wait();
            if std::thread::panicking() {
                let said = fs::read_to_string(self.folder.path().join(says(end)));
                eprintln!("the NIC {end} ({ended:?}) said:\n{}", said.unwrap_or_default());
            }
        }
    }
}
