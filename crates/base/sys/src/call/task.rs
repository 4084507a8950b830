//! Threads and processes: this one, and whether others live.

use super::file::stat;
use super::proc_fs::{put, put_number, threads_of};
use super::{Errno, RawFd, Result, Sysno, close, read};

/// A new pidfd-free identity: this process's id, fresh from the kernel.
pub fn getpid() -> i32 {
    sys!(getpid).map_or(0, |n| n as i32)
}

/// This thread's id.
pub fn gettid() -> i32 {
    sys!(gettid).map_or(0, |n| n as i32)
}

/// The effective user id.
pub fn geteuid() -> u32 {
    sys!(geteuid).map_or(u32::MAX, |n| n as u32)
}

/// The user that the calling thread was started as, or has become for good.
pub fn getuid() -> u32 {
    sys!(getuid).map_or(u32::MAX, |n| n as u32)
}

/// The group as which the calling thread acts.
pub fn getegid() -> u32 {
    sys!(getegid).map_or(u32::MAX, |n| n as u32)
}

/// How often the calling thread has touched memory that was not there; `None` if the kernel does not say.
pub fn faults_of_thread() -> Option<i64> {
    // SAFETY: a plain struct of numbers, for which zeros are values.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    sys!(getrusage, libc::RUSAGE_THREAD, &raw mut usage).ok()?;
    Some(usage.ru_minflt + usage.ru_majflt)
}

/// A descriptor of this process, which becomes readable when the process has ended.
pub fn pidfd_of_self() -> Result<RawFd> {
    sys!(pidfd_open, getpid(), 0usize).map(|n| n as RawFd)
}

/// Address and length of the calling thread's list of robust mutexes, as libc has registered it.
pub fn robust_list() -> Option<(usize, usize)> {
    let (mut head, mut len) = (0usize, 0usize);
    sys!(get_robust_list, 0usize, &raw mut head, &raw mut len).ok()?;
    (head != 0).then_some((head, len))
}

/// Tells the kernel of another one.
///
/// # Safety
/// The list must be one that the kernel may follow, and write to, at the calling thread's end.
pub unsafe fn set_robust_list(head: usize, len: usize) {
    let _ = sys!(set_robust_list, head, len);
}

/// Whether a thread of this process has that id.
pub fn is_own_thread(id: i32) -> bool {
    id > 0 && sys!(tgkill, getpid(), id, 0).is_ok()
}

/// Whether a process has a thread of that id, dead ones that nothing has noticed yet included.
pub fn is_thread_of(process: i32, id: i32) -> bool {
    sys!(tgkill, process, id, 0usize) != Err(Errno::ESRCH)
}

/// Whether a thread or process with that id still runs. One that has died and waits for its parent
/// to notice does not.
///
/// Asked without a descriptor wherever that is possible: threads of ours ask at any time, and must
/// not take the number that the program's next descriptor gets.
pub fn task_exists(id: i32) -> bool {
    if id <= 0 || sys!(tkill, id, 0) == Err(Errno::ESRCH) {
        return false;
    }
    match memory_of(id) {
        // A thread that has died has no memory any more.
        Err(Errno::ESRCH) => false,
        Err(Errno::EFAULT) => true,
        // We may not look, which is decided after it has been found; or no process may ask at all.
        // (Of this thread: the process's first one may have ended.)
        _ => memory_of(gettid()) == Err(Errno::EFAULT) || is_no_zombie(id),
    }
}

/// Whether a process with that id still runs: that of its first thread, which may have ended before the others.
pub fn process_exists(id: i32) -> bool {
    task_exists(id) || is_without_first_thread(id)
}

/// Whether a process goes on of which the first thread has ended. What /proc has of a process is what it has of that thread, so of
/// such a process it has no descriptors and no memory.
pub fn is_without_first_thread(id: i32) -> bool {
    /// Links of a folder, and of the first thread.
    const OF_ONE: libc::nlink_t = 3;
    if id <= 0 || memory_of(id) != Err(Errno::ESRCH) {
        return false;
    }
    let path = threads_of(id);
    let path = core::ffi::CStr::from_bytes_until_nul(&path);
    // Each thread counts as a link, until its end has been noticed.
    path.is_ok_and(|path| stat(path).is_ok_and(|st| st.st_nlink > OF_ONE))
}

/// Fails, with EFAULT where there is memory that we may read.
fn memory_of(id: i32) -> Result<usize> {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 1 };
    sys!(process_vm_readv, id, &raw const local, 1usize, &raw const remote, 1usize, 0usize)
}

/// Whether a task is stopped, by a signal or by a debugger. False where that cannot be told.
pub fn is_stopped(id: i32) -> bool {
    matches!(state_of(id), Some(b'T' | b't'))
}

/// Whether a thread waits for something in the kernel, or is stopped. True where that cannot be told.
pub fn is_asleep(id: i32) -> bool {
    !matches!(state_of(id), Some(b'R' | b'Z' | b'X'))
}

/// Without /proc a zombie looks alive.
#[cold]
fn is_no_zombie(id: i32) -> bool {
    !matches!(state_of(id), Some(b'Z' | b'X'))
}

/// Whether a thread is past its last instruction and not yet gone. False where that cannot be told.
pub fn is_exiting(id: i32) -> bool {
    /// PF_EXITING of include/linux/sched.h.
    const EXITING: u32 = 4;
    let flags = with_stat(id, |words| words.nth(6)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

/// The state that /proc gives.
fn state_of(id: i32) -> Option<u8> {
    with_stat(id, |words| words.next()?.bytes().next())
}

/// Returns what `take` reads of the words behind a task's name in its `stat` of /proc (proc_pid_stat(5)): the state is the first, the
/// flags are the seventh.
fn with_stat<T>(
    id: i32,
    take: impl FnOnce(&mut core::str::SplitAsciiWhitespace<'_>) -> Option<T>,
) -> Option<T> {
    let mut path = [0u8; 32];
    let mut at = 0;
    put(&mut path, &mut at, b"/proc/");
    put_number(&mut path, &mut at, id.unsigned_abs());
    put(&mut path, &mut at, b"/stat");
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let fd = sys!(openat, libc::AT_FDCWD, path.as_ptr(), flags).ok()?;
    let mut stat = [0u8; 128];
    let n = read(fd as RawFd, &mut stat).unwrap_or(0);
    let _ = close(fd as RawFd);
    // The name is in brackets, and may itself hold brackets.
    let name_ends = stat[..n].iter().rposition(|&c| c == b')')?;
    let words = core::str::from_utf8(&stat[name_ends + 1..n]).ok()?;
    take(&mut words.split_ascii_whitespace())
}

/// Gives the processor to another runnable thread, if there is one.
pub fn sched_yield() {
    let _ = sys!(sched_yield);
}

/// The processors this thread may run on, counted.
pub fn cpus_allowed() -> u32 {
    let mut mask = [0u64; 16];
    match sys!(sched_getaffinity, 0usize, size_of_val(&mask), mask.as_mut_ptr()) {
        Ok(_) => mask.iter().map(|w| w.count_ones()).sum::<u32>().max(1),
        Err(_) => 1,
    }
}

/// Has this thread run on that processor alone from now on.
///
/// # Errors
/// `EINVAL`: there is no such processor, or the thread may not run there.
pub fn run_on(processor: u32) -> Result<()> {
    let mut mask = [0u64; 16];
    *mask.get_mut(processor as usize / 64).ok_or(Errno::EINVAL)? = 1 << (processor % 64);
    sys!(sched_setaffinity, 0usize, size_of_val(&mask), mask.as_ptr()).map(drop)
}

/// The processor this thread runs on just now.
pub fn current_cpu() -> u32 {
    // SAFETY: sched_getcpu reads no memory of ours; it is served by the vDSO or rseq, and is
    // not one of the calls that Sovia interposes.
    (unsafe { libc::sched_getcpu() }) as u32
}

/// Sends signal `signal` to the calling thread.
pub fn raise(signal: i32) {
    let _ = sys!(tgkill, getpid(), gettid(), signal);
}

/// Takes the exit status of a child that ends at once: whether it is 0. (True where the program's own wait
/// has been faster.)
pub fn reap(pid: i32) -> bool {
    let mut status = 0;
    while sys!(wait4, pid, &raw mut status, libc::__WALL, 0usize) == Err(Errno::EINTR) {}
    status == 0
}

/// Ends the process at once, without the program's exit handlers.
pub fn exit_now() -> ! {
    exit_with(0)
}

/// Likewise, with that status.
pub fn exit_with(status: i32) -> ! {
    loop {
        let _ = sys!(exit_group, status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_do_not_exist() {
        assert!(task_exists(getpid()) && task_exists(gettid()));
        assert!(!task_exists(0) && !task_exists(i32::MAX));
        let child = || std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut child = child();
        let id = child.id() as i32;
        assert!(task_exists(id) && is_no_zombie(id) && !is_exiting(id));
        child.kill().unwrap();
        let patience = std::time::Instant::now();
        // It loses its memory first, and is a zombie a little later.
        while (task_exists(id) || is_no_zombie(id)) && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(!task_exists(id) && !is_no_zombie(id) && is_exiting(id));
        child.wait().unwrap();
        assert!(!task_exists(id));
        let thread = std::thread::spawn(gettid).join().unwrap();
        while task_exists(thread) && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(!task_exists(thread));
    }

    #[test]
    fn a_name_with_brackets_hides_no_state() {
        let sleeper = || {
            let name = std::thread::Builder::new().name("a) Z 1) T (".into());
            name.spawn(|| (is_stopped(gettid()), is_no_zombie(gettid()), is_exiting(gettid())))
        };
        assert_eq!(sleeper().unwrap().join().unwrap(), (false, true, false));
    }

    #[test]
    fn a_process_outlives_its_first_thread() {
        // SAFETY: the child makes a thread, which sleeps, and ends its first one; it touches no lock that another thread had.
        let child = unsafe { libc::fork() };
        if child == 0 {
            extern "C" fn sleep(_: *mut libc::c_void) -> *mut libc::c_void {
                // SAFETY: takes a number.
                unsafe { libc::sleep(1000) };
                core::ptr::null_mut()
            }
            let mut thread = 0;
            // SAFETY: there is room for a thread's name, and the function takes nothing.
            unsafe {
                let attributes = core::ptr::null();
                libc::pthread_create(&raw mut thread, attributes, sleep, core::ptr::null_mut());
                let _ = syscalls::syscall!(Sysno::exit, 0usize);
            }
        }
        let patience = std::time::Instant::now();
        let is_zombie = || state_of(child) == Some(b'Z');
        while !is_zombie() && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(is_zombie() && !task_exists(child));
        assert!(process_exists(child) && is_without_first_thread(child));
        // SAFETY: takes numbers. The process is a child of this one.
        unsafe { libc::kill(child, libc::SIGKILL) };
        while process_exists(child) && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(!process_exists(child) && !is_without_first_thread(child));
        reap(child);
        assert!(!process_exists(child) && process_exists(getpid()));
    }
}
