//! One process of a measurement, for its parent.

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

/// Removes from a command's environment what this program may run under: the library, the rules and the page of
/// counters.
pub(super) fn without_library(command: &mut Command) {
    for name in ["LD_PRELOAD", names::RULES, names::STATS] {
        command.env_remove(name);
    }
}

/// Makes a program run with the library, which counts on `board`.
pub(super) fn with_library(
    command: &mut Command,
    library: &Path,
    board: &Board,
) -> anyhow::Result<()> {
    command.env("LD_PRELOAD", library::preload_value(library, None)?);
    command.env(names::STATS, board.path());
    Ok(())
}

/// Makes the kernel kill a program when the thread that starts it ends.
pub(super) fn ends_with_its_starter(command: &mut Command) {
    let ask = || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: the closure only makes a system call, which is async-signal-safe.
    unsafe { command.pre_exec(ask) };
}

/// A process of a measurement, which is killed when this value is dropped.
pub(super) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process without input, whose output this process reads. It ends with the calling thread.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        ends_with_its_starter(command);
        let mut child = command.spawn().context("cannot start a process for the measurement")?;
        let out = child.stdout.take().context("cannot read the output of the measuring process")?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    /// Reads a line of its output.
    pub(super) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.out.read_line(&mut line)? > 0, "the measuring process ended early");
        Ok(line.trim_end().to_owned())
    }

    /// Reads the rest of its output, until the process closes it.
    pub(super) fn rest(&mut self) -> anyhow::Result<String> {
        let mut text = String::new();
        self.out.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Waits for the process's end. Fails if its exit status is not 0.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

/// Time, in seconds, that a process may outlive its measurement. This watchdog ends a process that a fault of the
/// library blocks for ever.
pub(super) const WATCHDOG_SECONDS: u32 = 600;

/// Binds the two ends of a measurement to each other: if one fails, the other is killed. Otherwise it might wait for
/// the first in shared memory for ever.
pub(super) fn bind(one: &Process, other: &Process) -> anyhow::Result<()> {
    for (watched, bound) in [(one, other), (other, one)] {
        let id = Id::Pid(Pid::from_raw(watched.child.id() as i32));
        let bound = pidfd(&bound.child).context("cannot watch the measuring process")?;
        std::thread::spawn(move || {
            // The process stays waitable. If the parent has waited for it already, the watch ends.
            match waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::Exited(_, 0)) | Err(_) => {}
                Ok(_) => kill(&bound),
            }
        });
    }
    Ok(())
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: the system call takes numbers only. No other code owns the returned descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn kill(process: &OwnedFd) {
    // SAFETY: the system call takes numbers and a null pointer. It fails if the process has ended.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, 0, 0) };
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
