//! Signals that a process takes as messages, when it comes to them.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;

/// Bytes of what the kernel tells of one signal (`signalfd_siginfo`), which begins with the signal's number.
const INFO: usize = 128;
/// Bytes of the kernel's sets of signals.
const SET: usize = 8;

/// Signals that interrupt nothing, and wait until they are taken.
#[derive(Debug)]
pub struct Signals(Fd);

impl Signals {
    /// From now on neither the calling thread nor those that it starts are interrupted by these signals. To be called while there is
    /// one thread. A signal that the process ignores stays ignored.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(signals: &[i32]) -> Result<Signals> {
        let heeded = signals.iter().filter(|&&signal| !is_ignored(signal));
        let set = heeded.fold(0u64, |set, signal| set | 1 << (signal - 1));
        let (how, old) = (libc::SIG_BLOCK, core::ptr::null_mut::<u64>());
        // SAFETY: `set` is a live set, and no old one is asked for.
        unsafe { syscalls::syscall!(Sysno::rt_sigprocmask, how, &raw const set, old, SET) }?;
        let (none, flags) = (-1i32, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        // SAFETY: `set` is a live set; the rest are plain numbers.
        let fd = unsafe { syscalls::syscall!(Sysno::signalfd4, none, &raw const set, SET, flags) }?;
        Ok(Signals(Fd::adopt(fd as RawFd)))
    }

    /// The descriptor, which is readable while a signal waits.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Takes the next one; `None` if none waits.
    pub fn next(&self) -> Option<i32> {
        let mut info = [0; INFO];
        let len = call::read(self.raw(), &mut info).ok()?;
        let number = info.first_chunk().filter(|_| len == INFO)?;
        i32::try_from(u32::from_ne_bytes(*number)).ok()
    }
}

fn is_ignored(signal: i32) -> bool {
    // The handler comes first, whatever else the kernel's structure has.
    let mut action = [0usize; 8];
    let (new, old) = (core::ptr::null::<usize>(), action.as_mut_ptr());
    // SAFETY: nothing is changed, and `action` has more room than the kernel's structure has on any processor.
    let told = unsafe { syscalls::syscall!(Sysno::rt_sigaction, signal, new, old, SET) };
    told.is_ok() && action[0] == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll;

    #[test]
    fn signal_waits_until_it_is_taken_and_comes_once() {
        // In a thread of its own: it is the thread that is spared, and one that ends has no more signals.
        let taken = std::thread::spawn(|| {
            let signals = Signals::take(&[libc::SIGUSR2]).unwrap();
            assert_eq!((signals.next(), poll::probe(signals.raw(), libc::POLLIN)), (None, 0));
            // SAFETY: raises a signal that this thread has blocked.
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
