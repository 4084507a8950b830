//! Other processes, and this one's signals.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;

/// A handle on the process with that id: readable once it has ended, however many children hold
/// its descriptors.
///
/// # Errors
/// `ESRCH` where there is none.
pub fn open(pid: i32) -> Result<Fd> {
    // SAFETY: takes plain numbers.
    unsafe { syscalls::syscall!(Sysno::pidfd_open, pid, 0usize) }.map(|fd| Fd::adopt(fd as RawFd))
}

/// The signals that libc keeps for itself, 32 and 33. By the second it has every thread take part when the process
/// changes its user, and waits for each.
const LIBCS_OWN: u64 = 1 << 31 | 1 << 32;

/// A descriptor of another process's, as one of this process's.
///
/// # Errors
/// `ESRCH` and `EBADF` where there is none, `EPERM` where this process must not trace that one, or a filter would kill it
/// for the question, `ENOSYS` before Linux 5.6.
pub fn descriptor_of(pid: i32, fd: RawFd) -> Result<Fd> {
    let handle = open(pid)?;
    if !may_take_descriptors() {
        return Err(call::Errno::EPERM);
    }
    // SAFETY: takes plain numbers.
    unsafe { syscalls::syscall!(Sysno::pidfd_getfd, handle.raw(), fd, 0usize) }
        .map(|fd| Fd::keep(fd as RawFd))
}

/// Whether this process may ask for descriptors of other ones at all.
pub fn may_take_descriptors() -> bool {
    !has_filter() || survives_pidfd_getfd()
}

/// Whether a seccomp filter decides on this process's system calls. systemd's @system-service kills for those that it does not
/// name.
fn has_filter() -> bool {
    const FILTERED: usize = 2;
    // SAFETY: takes plain numbers.
    let mode = unsafe { syscalls::syscall!(Sysno::prctl, libc::PR_GET_SECCOMP as usize) };
    mode == Ok(FILTERED)
}

/// Whether a process with this one's filters may call `pidfd_getfd`: a child tries.
fn survives_pidfd_getfd() -> bool {
    without_signals(|| {
        // SAFETY: the child makes nothing but system calls, the last of which ends it.
        match unsafe { copy() } {
            Ok(0) => {
                // SAFETY: takes plain numbers. A child that is killed leaves no core.
                let _ = unsafe {
                    syscalls::syscall!(Sysno::prctl, libc::PR_SET_DUMPABLE as usize, 0usize)
                };
                // SAFETY: takes plain numbers, which are no descriptors.
                let _ = unsafe {
                    syscalls::syscall!(Sysno::pidfd_getfd, usize::MAX, usize::MAX, 0usize)
                };
                call::exit_now()
            }
            Ok(child) => call::reap(child),
            Err(_) => false,
        }
    })
}

/// Lets every process of this one's user trace it, and so take its descriptors, where the system lets only parents.
pub fn be_traceable() {
    const PR_SET_PTRACER: usize = 0x5961_6d61;
    // SAFETY: takes plain numbers. A system without that rule does not know the option.
    let _ = unsafe { syscalls::syscall!(Sysno::prctl, PR_SET_PTRACER, usize::MAX) };
}

/// Leaves the group of processes and the terminal that it has from its parent: what is sent to all of that group is not
/// for this process.
pub fn leave_group() {
    // SAFETY: takes nothing.
    let _ = unsafe { syscalls::syscall!(Sysno::setsid) };
}

/// Which PID namespace this process is in; `None` if /proc cannot say.
pub fn pid_namespace() -> Option<u64> {
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let file = call::open(c"/proc/self/ns/pid", flags, 0).map(Fd::keep).ok()?;
    call::file_id(file.raw()).ok().map(|(_, inode)| inode)
}

/// Makes a child with a copy of this process's memory; its id, and 0 in the child. It raises no signal when it ends.
///
/// # Errors
/// Those of `clone`.
///
/// # Safety
/// libc knows nothing of the child, and a lock may be held in it by a thread that is not there. It must make nothing
/// but system calls, and end by one.
pub unsafe fn copy() -> Result<i32> {
    // SAFETY: no memory is shared, so the stack is the child's own; the rest is the caller's to see to.
    unsafe { syscalls::syscall!(Sysno::clone, 0usize, 0usize, 0usize, 0usize, 0usize) }
        .map(|pid| pid as i32)
}

/// Runs `f` with every signal of the program's blocked in this thread: a thread that it spawns then takes none of
/// them.
pub fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    let all = !LIBCS_OWN;
    let mut before = 0u64;
    let set = |how: i32, new: &u64, old: *mut u64| {
        let new = core::ptr::from_ref(new);
        // SAFETY: `new` is a live set and `old` null or one; 8 is the kernel's sigset size.
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
    // SAFETY: takes plain numbers.
    unsafe { syscalls::syscall!(Sysno::membarrier, command, 0usize, 0usize) }.map(drop)
}

/// Makes [`barrier`] possible in this process; whether it is.
pub fn enable_barrier() -> bool {
    membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED).is_ok()
}

/// Has every running thread of this process pass a full memory fence, so that the others need
/// none of their own; a few microseconds.
///
/// # Errors
/// `EPERM` before [`enable_barrier`].
pub fn barrier() -> Result<()> {
    membarrier(MEMBARRIER_PRIVATE_EXPEDITED)
}

/// Puts this process among those that [`barrier_of_all`] is for; whether it is.
pub fn enable_barrier_of_all() -> bool {
    membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED).is_ok()
}

/// Like [`barrier`], for the running threads of all processes that have called [`enable_barrier_of_all`].
///
/// # Errors
/// `ENOSYS`, `EINVAL` where the kernel does not know it.
pub fn barrier_of_all() -> Result<()> {
    membarrier(MEMBARRIER_GLOBAL_EXPEDITED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll;

    #[test]
    fn a_barrier_can_be_had() {
        // Linux has it since 4.14; where it is forbidden, there is none.
        if enable_barrier() {
            barrier().unwrap();
        }
    }

    /// libc would wait for the thread for ever when the program changes its user.
    #[test]
    fn a_thread_without_signals_takes_libcs_own() {
        let status = without_signals(|| {
            let read = || std::fs::read_to_string("/proc/thread-self/status");
            std::thread::spawn(read).join().unwrap().unwrap()
        });
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(line.trim(), 16).unwrap();
        // Nor can the kernel's two be blocked.
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
