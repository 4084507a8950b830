//! One process of a measurement, as the one that started it sees it.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use sovia_cli::{Board, library};
use sovia_control::env as names;

/// Keeps a program from what this one may run under: it gets no library, no rules and no page of counters.
pub(super) fn without_library(command: &mut Command) {
    for name in ["LD_PRELOAD", names::RULES, names::STATS] {
        command.env_remove(name);
    }
}

/// Has a program run with the library, which counts on a page of its own.
pub(super) fn with_library(
    command: &mut Command,
    library: &Path,
    board: &Board,
) -> anyhow::Result<()> {
    command.env("LD_PRELOAD", library::preload_value(library, None)?);
    command.env(names::STATS, board.path());
    Ok(())
}

/// Has a program be killed when the thread that starts it ends.
pub(super) fn ends_with_its_starter(command: &mut Command) {
    let ask = || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: the closure makes a system call, and nothing else.
    unsafe { command.pre_exec(ask) };
}

/// A process of a measurement; does not outlive it.
pub(super) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it, with its output for us and no input. It ends with the thread that calls this.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        ends_with_its_starter(command);
        let mut child = command.spawn().context("cannot start a process for the measurement")?;
        let out = child.stdout.take().context("cannot read the output of the measuring process")?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    /// A line of its output.
    pub(super) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.out.read_line(&mut line)? > 0, "the measuring process ended early");
        Ok(line.trim_end().to_owned())
    }

    /// The rest of its output, once it has closed it.
    pub(super) fn rest(&mut self) -> anyhow::Result<String> {
        let mut text = String::new();
        self.out.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Waits for its end, which is to be a good one.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

/// How long a process of a measurement may live beyond it, in seconds: a watchdog, for one that a fault of
/// the library keeps for ever.
pub(super) const WATCHDOG_SECONDS: u32 = 600;

/// The two ends of a measurement: from here on, if one ends badly, the other is killed. It might wait for
/// the first in shared memory for ever.
pub(super) fn bind(one: &Process, other: &Process) -> anyhow::Result<()> {
    for (watched, bound) in [(one, other), (other, one)] {
        let id = Id::Pid(Pid::from_raw(watched.child.id() as i32));
        let bound = pidfd(&bound.child).context("cannot watch the measuring process")?;
        std::thread::spawn(move || {
            // It stays to be waited for. One that has been waited for already is not watched any more.
            match waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::Exited(_, 0)) | Err(_) => {}
                Ok(_) => kill(&bound),
            }
        });
    }
    Ok(())
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: a system call on numbers; a descriptor that it gives is owned by nothing else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn kill(process: &OwnedFd) {
    // SAFETY: a system call on numbers and no memory. It fails where the process has ended.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, 0, 0) };
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
