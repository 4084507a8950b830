//! Stands between a program and the process that started it, as if it were the program.

use std::os::fd::AsFd;

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, raise, signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

use super::collector::Collector;

/// Signals that are passed on to the program when they are sent to this process.
const FORWARDED: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// How the program ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Exited(i32),
    Killed(Signal),
}

impl End {
    /// Ends in the same way: returns the exit status to give, or dies of the same signal.
    pub(super) fn follow(self) -> i32 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => {
                die_of(signal);
                128 + signal as i32
            }
        }
    }
}

/// Runs `program` in a child, in the same process group, until it ends. `program` becomes the
/// program, or returns the exit status that says why not.
pub(super) fn supervise(
    program: impl FnOnce() -> i32,
    collector: Option<&mut Collector>,
) -> anyhow::Result<End> {
    let mut handled = SigSet::from_iter(FORWARDED);
    handled.add(Signal::SIGCHLD);
    let mut before = SigSet::empty();
    // Blocked, they wait for the descriptor below, even those that are ignored.
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&handled), Some(&mut before))?;
    // SAFETY: the default action runs no code of ours. Where SIGCHLD was inherited as ignored,
    // the kernel would throw the program's exit status away.
    let children = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl)? };
    let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;

    let supervisor = getpid();
    // SAFETY: this process has one thread, so the child may do whatever the parent may.
    match unsafe { fork() }.context("cannot make a process for the program")? {
        ForkResult::Child => {
            // SAFETY: puts back what was found; it was no function, since exec leaves none.
            let restored = unsafe { signal(Signal::SIGCHLD, children) };
            let unblocked = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
            // SIGKILL cannot be passed on.
            let bound = set_pdeathsig(Signal::SIGKILL);
            let status = match restored.and(unblocked).and(bound) {
                Ok(()) if getppid() == supervisor => program(),
                _ => super::EXIT_OURSELVES,
            };
            // SAFETY: always sound; without atexit handlers, which are the parent's to run.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => watch(child, &signals, collector),
    }
}

fn watch(
    child: Pid,
    signals: &SignalFd,
    mut collector: Option<&mut Collector>,
) -> anyhow::Result<End> {
    loop {
        let sources =
            [Some(signals.as_fd()), collector.as_ref().map(|collector| collector.as_fd())];
        let mut ready: Vec<PollFd<'_>> =
            sources.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for signals"),
        }
        if let Some(collector) = &mut collector {
            collector.receive();
        }
        while let Some(info) = signals.read_signal().context("cannot read signals")? {
            if info.ssi_signo as i32 != Signal::SIGCHLD as i32 {
                forward(child, &info);
            } else if let Some(end) = reap(child)? {
                return Ok(end);
            }
        }
    }
}

/// Passes a signal on, unless the program has it already: what the terminal sends goes to the
/// whole process group, and what the program sends to its group comes back to us. (Another
/// process's signal to the group cannot be told from one to us alone, so the program gets it twice.)
fn forward(child: Pid, info: &siginfo) {
    let from_kernel = info.ssi_code > 0;
    let from_program = info.ssi_pid == child.as_raw() as u32;
    if from_kernel || from_program {
        return;
    }
    if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
        // Fails only if the program has just ended, which SIGCHLD tells next.
        let _ = kill(child, signal);
    }
}

/// The end of the program if it has ended. If it was stopped, so are we, until continued.
fn reap(child: Pid) -> anyhow::Result<Option<End>> {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, status)) => return Ok(Some(End::Exited(status))),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(End::Killed(signal))),
            // Stopped by name, and continued by name by the process that did it: not a matter of the job.
            Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => {}
            Ok(WaitStatus::Stopped(..)) => {
                // The process that waits for us, such as a shell, must see the job stop. The signal that
                // continues us is one of those that go on to the program, or goes to all of
                // the group.
                kill(getpid(), Signal::SIGSTOP)
                    .context("the program is stopped, but sovia cannot stop")?;
            }
            Ok(_) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the program"),
        }
    }
}

fn die_of(signal_: Signal) {
    // One core dump, the program's, is enough. If any of this fails, the exit status says it.
    let _ = nix::sys::prctl::set_dumpable(false);
    if !matches!(signal_, Signal::SIGKILL | Signal::SIGSTOP) {
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { signal(signal_, SigHandler::SigDfl) };
    }
    let _ = SigSet::from(signal_).thread_unblock();
    let _ = raise(signal_);
}
