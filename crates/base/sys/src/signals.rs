//! Signals that a process takes as messages at a time of its choice.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;

/// Number of bytes that the kernel reports about a signal (`signalfd_siginfo`). The signal's number comes first.
const INFO: usize = 128;
/// Number of bytes in the kernel's signal sets.
const SET: usize = 8;

/// Signals that interrupt nothing, and wait until the process takes them.
#[derive(Debug)]
pub struct Signals(Fd);

impl Signals {
    /// Blocks these signals in the calling thread and in threads that it starts later. Call this while the
    /// process has one thread. A signal that the process ignores stays ignored.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn take(signals: &[i32]) -> Result<Signals> {
        let heeded = signals.iter().filter(|&&signal| !is_ignored(signal));
        let set = heeded.fold(0u64, |set, signal| set | 1 << (signal - 1));
        let (how, old) = (libc::SIG_BLOCK, core::ptr::null_mut::<u64>());
        // SAFETY: `set` is a live set, and the pointer for the old set is null.
        unsafe { syscalls::syscall!(Sysno::rt_sigprocmask, how, &raw const set, old, SET) }?;
        let (none, flags) = (-1i32, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        // SAFETY: `set` is a live set, and the other arguments are numbers.
        let fd = unsafe { syscalls::syscall!(Sysno::signalfd4, none, &raw const set, SET, flags) }?;
        Ok(Signals(Fd::adopt(fd as RawFd)))
    }

    /// Returns the descriptor, which is readable while a signal waits.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Takes the next signal; `None` if none waits.
    pub fn next(&self) -> Option<i32> {
        let mut info = [0; INFO];
        let len = call::read(self.raw(), &mut info).ok()?;
        let number = info.first_chunk().filter(|_| len == INFO)?;
        i32::try_from(u32::from_ne_bytes(*number)).ok()
    }
}

fn is_ignored(signal: i32) -> bool {
    // The kernel's structure begins with the handler.
    let mut action = [0usize; 8];
    let (new, old) = (core::ptr::null::<usize>(), action.as_mut_ptr());
    // SAFETY: the new action is null, so the call changes nothing. `action` is larger than the kernel's structure
    // on every processor.
    let told = unsafe { syscalls::syscall!(Sysno::rt_sigaction, signal, new, old, SET) };
    told.is_ok() && action[0] == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll;

    #[test]
    fn signal_stays_pending_until_taken_and_is_taken_once() {
        // Use a separate thread, because the signals stay blocked in the thread and the thread's pending signals
        // end with it.
        let taken = std::thread::spawn(|| {
            let signals = Signals::take(&[libc::SIGUSR2]).unwrap();
            assert_eq!((signals.next(), poll::probe(signals.raw(), libc::POLLIN)), (None, 0));
            // SAFETY: this thread has blocked the signal, so no handler runs.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
            assert_eq!(poll::probe(signals.raw(), libc::POLLIN), libc::POLLIN);
            [signals.next(), signals.next()]
        });
        assert_eq!(taken.join().unwrap(), [Some(libc::SIGUSR2), None]);
    }

    #[test]
    fn ignored_signal_stays_ignored() {
        assert!(is_ignored(libc::SIGPIPE), "Rust's programs ignore it");
        assert!(!is_ignored(libc::SIGUSR2));
    }
}
