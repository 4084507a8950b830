//! Other processes, signal masks and fences of this process.

use crate::call::{RawFd, Result, Sysno};
use crate::fd::Fd;

/// Opens a pidfd of the process `pid`. The pidfd is readable after the process has ended, even if the process's
/// children still have its descriptors.
///
/// # Errors
/// `ESRCH` if there is no such process.
pub fn open(pid: i32) -> Result<Fd> {
    // SAFETY: the call takes only numbers.
    unsafe { syscalls::syscall!(Sysno::pidfd_open, pid, 0usize) }.map(|fd| Fd::adopt(fd as RawFd))
}

/// The signals 32 and 33, which libc uses for itself. When the process changes its user, libc sends signal 33 to
/// every thread, and waits for each.
const LIBCS_OWN: u64 = 1 << 31 | 1 << 32;

/// Runs `f` while the program's signals are blocked in this thread. So a thread that `f` spawns receives none of
/// them.
pub fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    let all = !LIBCS_OWN;
    let mut before = 0u64;
    let set = |how: i32, new: &u64, old: *mut u64| {
        let new = core::ptr::from_ref(new);
        // SAFETY: `new` points to a live set, `old` is null or points to one, and the kernel's sets have 8 bytes.
        unsafe { syscalls::syscall!(Sysno::rt_sigprocmask, how, new, old, 8usize) }
    };
    let blocked = set(libc::SIG_SETMASK, &all, &raw mut before).is_ok();
    let result = f();
    if blocked {
        let _ = set(libc::SIG_SETMASK, &before, core::ptr::null_mut());
    }
    result
}

const MEMBARRIER_GLOBAL_EXPEDITED: usize = 2;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: usize = 4;
const MEMBARRIER_PRIVATE_EXPEDITED: usize = 8;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 16;

fn membarrier(command: usize) -> Result<()> {
    // SAFETY: the call takes only numbers.
    unsafe { syscalls::syscall!(Sysno::membarrier, command, 0usize, 0usize) }.map(drop)
}

/// Registers this process for [`barrier`]. Returns true if the kernel accepts.
pub fn enable_barrier() -> bool {
    membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED).is_ok()
}

/// Makes every running thread of this process execute a full memory fence, in place of fences in those threads.
/// Takes a few microseconds.
///
/// # Errors
/// `EPERM` before [`enable_barrier`].
pub fn barrier() -> Result<()> {
    membarrier(MEMBARRIER_PRIVATE_EXPEDITED)
}

/// Registers this process for [`barrier_of_all`]. Returns true if the kernel accepts.
pub fn enable_barrier_of_all() -> bool {
    membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED).is_ok()
}

/// Like [`barrier`], for the running threads of all processes that have called [`enable_barrier_of_all`].
///
/// # Errors
/// `ENOSYS` or `EINVAL` if the kernel does not know the call.
pub fn barrier_of_all() -> Result<()> {
    membarrier(MEMBARRIER_GLOBAL_EXPEDITED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll;

    #[test]
    fn a_barrier_can_be_had() {
        // Linux has the barrier since 4.14, but a filter may forbid it.
        if enable_barrier() {
            barrier().unwrap();
        }
    }

    /// If a thread blocked libc's own signal, libc would wait for this thread for ever when the program changes
    /// its user.
    #[test]
    fn a_thread_without_signals_takes_libcs_own() {
        let status = without_signals(|| {
            let read = || std::fs::read_to_string("/proc/thread-self/status");
            std::thread::spawn(read).join().unwrap().unwrap()
        });
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(line.trim(), 16).unwrap();
        // The kernel never blocks its own two signals.
        let of_the_kernel = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        assert_eq!(blocked, !(LIBCS_OWN | of_the_kernel));
    }

    #[test]
    fn a_process_is_seen_to_end() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let handle = open(child.id() as i32).unwrap();
        assert_eq!(poll::probe(handle.raw(), libc::POLLIN), 0);
        drop(child.stdin.take());
        let mut fds = [poll::PollFd { fd: handle.raw(), events: libc::POLLIN, revents: 0 }];
        assert_eq!(poll::ppoll(&mut fds, Some(5_000_000_000), None), Ok(1));
        child.wait().unwrap();
    }
}
