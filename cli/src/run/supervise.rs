//! Runs between a program and its parent process, and behaves towards the parent like the program.

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

/// Signals that this process forwards to the program.
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
    /// Ends like the program: returns the exit status, or dies of the same signal.
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

/// Forks a child that runs `program`, in the same process group, and waits until the child ends. `program` executes the
/// program, or returns the exit status of its failure.
pub(super) fn supervise(
    program: impl FnOnce() -> i32,
    collector: Option<&mut Collector>,
) -> anyhow::Result<End> {
    let mut handled = SigSet::from_iter(FORWARDED);
    handled.add(Signal::SIGCHLD);
    let mut before = SigSet::empty();
    // Blocked signals wait for the signalfd below, even if their action is to ignore them.
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&handled), Some(&mut before))?;
    // SAFETY: the default action runs no code of this process. If SIGCHLD stayed ignored, the kernel would discard the
    // program's exit status.
    let children = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl)? };
    let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;

    let supervisor = getpid();
    // SAFETY: this process has only one thread, so no lock is held elsewhere and the child may run any code.
    match unsafe { fork() }.context("cannot make a process for the program")? {
        ForkResult::Child => {
            // SAFETY: restores the inherited action, which is not a function, because exec resets handlers.
            let restored = unsafe { signal(Signal::SIGCHLD, children) };
            let unblocked = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
            // SIGKILL cannot be forwarded, so the program must die with this process.
            let bound = set_pdeathsig(Signal::SIGKILL);
            let status = match restored.and(unblocked).and(bound) {
                Ok(()) if getppid() == supervisor => program(),
                _ => super::EXIT_OURSELVES,
            };
            // SAFETY: _exit has no preconditions. Unlike exit, it does not run the atexit handlers, which belong to the
            // parent.
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

/// Forwards a signal, unless the program has got it already. The kernel sends a terminal's signal to the whole process
/// group. A signal that the program sends to its group also comes here.
///
/// A signal that another process sends to the group looks like a signal to this process alone. So the program gets it
/// twice.
fn forward(child: Pid, info: &siginfo) {
    let from_kernel = info.ssi_code > 0;
    let from_program = info.ssi_pid == child.as_raw() as u32;
    if from_kernel || from_program {
        return;
    }
    if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
        // The call fails only if the program has just ended, which SIGCHLD will report.
        let _ = kill(child, signal);
    }
}

/// Returns the end of the program if it has ended. If the program was stopped, stops this process too until it is
/// continued.
fn reap(child: Pid) -> anyhow::Result<Option<End>> {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, status)) => return Ok(Some(End::Exited(status))),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(End::Killed(signal))),
            // Another process has stopped only the program, and will continue it. The job is not affected.
            Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => {}
            Ok(WaitStatus::Stopped(..)) => {
                // The parent, such as a shell, must see the job stop. The signal that continues this process is
                // forwarded to the program, or goes to the whole group.
                kill(getpid(), Signal::SIGSTOP)
                    .context("cannot stop `sovia run` together with the program")?;
            }
            Ok(_) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the program"),
        }
    }
}

fn die_of(signal_: Signal) {
    // The program's core dump is enough, so this process makes none. If a call here fails, the exit status still
    // reports the signal.
    let _ = nix::sys::prctl::set_dumpable(false);
    if !matches!(signal_, Signal::SIGKILL | Signal::SIGSTOP) {
        // SAFETY: the default action runs no code of this process.
        let _ = unsafe { signal(signal_, SigHandler::SigDfl) };
    }
    let _ = SigSet::from(signal_).thread_unblock();
    let _ = raise(signal_);
}
