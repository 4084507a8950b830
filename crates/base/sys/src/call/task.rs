//! This thread and process, and checks whether other threads and processes live.

use super::file::stat;
use super::proc_fs::{put, put_number, threads_of};
use super::{Errno, RawFd, Result, Sysno, close, read};

/// Returns this process's id, asked from the kernel at each call.
pub fn getpid() -> i32 {
    sys!(getpid).map_or(0, |n| n as i32)
}

/// Returns this thread's id.
pub fn gettid() -> i32 {
    sys!(gettid).map_or(0, |n| n as i32)
}

/// Returns the effective user id.
pub fn geteuid() -> u32 {
    sys!(geteuid).map_or(u32::MAX, |n| n as u32)
}

/// Returns the real user id of the calling thread.
pub fn getuid() -> u32 {
    sys!(getuid).map_or(u32::MAX, |n| n as u32)
}

/// Returns the effective group id of the calling thread.
pub fn getegid() -> u32 {
    sys!(getegid).map_or(u32::MAX, |n| n as u32)
}

/// Returns the real group id of the calling thread.
pub fn getgid() -> u32 {
    sys!(getgid).map_or(u32::MAX, |n| n as u32)
}

/// Returns the number of page faults of the calling thread; `None` if the kernel does not report it.
pub fn faults_of_thread() -> Option<i64> {
    // SAFETY: all-zero bytes are a valid rusage, which consists of numbers.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    sys!(getrusage, libc::RUSAGE_THREAD, &raw mut usage).ok()?;
    Some(usage.ru_minflt + usage.ru_majflt)
}

/// Opens a pidfd of this process, which becomes readable when the process has ended.
pub fn pidfd_of_self() -> Result<RawFd> {
    sys!(pidfd_open, getpid(), 0usize).map(|n| n as RawFd)
}

/// Returns address and length of the calling thread's list of robust mutexes, as libc has registered it.
pub fn robust_list() -> Option<(usize, usize)> {
    let (mut head, mut len) = (0usize, 0usize);
    sys!(get_robust_list, 0usize, &raw mut head, &raw mut len).ok()?;
    (head != 0).then_some((head, len))
}

/// Registers another list of robust mutexes for the calling thread.
///
/// # Safety
/// The kernel must be able to follow the list, and to write to it, when the calling thread ends.
pub unsafe fn set_robust_list(head: usize, len: usize) {
    let _ = sys!(set_robust_list, head, len);
}

/// Returns true if a thread of this process has this id.
pub fn is_own_thread(id: i32) -> bool {
    id > 0 && sys!(tgkill, getpid(), id, 0).is_ok()
}

/// Returns true if a process has a thread with this id. Dead threads count until the kernel has removed them.
pub fn is_thread_of(process: i32, id: i32) -> bool {
    sys!(tgkill, process, id, 0usize) != Err(Errno::ESRCH)
}

/// Returns true if a thread or process with this id still runs. A zombie does not run.
///
/// Opens no descriptor if possible. Sovia's threads call this at any time, and must not take the number that the
/// program's next descriptor would get.
pub fn task_exists(id: i32) -> bool {
    if id <= 0 || sys!(tkill, id, 0) == Err(Errno::ESRCH) {
        return false;
    }
    match memory_of(id) {
        // A thread that has died has no memory any more.
        Err(Errno::ESRCH) => false,
        Err(Errno::EFAULT) => true,
        // The kernel found the task but refuses access, or refuses this call to every process. The call on this
        // thread tells these cases apart. The call names this thread, because the process's first thread may have
        // ended.
        _ => memory_of(gettid()) == Err(Errno::EFAULT) || is_no_zombie(id),
    }
}

/// Returns true if the process with this id still runs, even after its first thread has ended.
pub fn process_exists(id: i32) -> bool {
    task_exists(id) || is_without_first_thread(id)
}

/// Returns true if a process still runs after its first thread has ended. /proc shows for a process the data of
/// its first thread, so it shows no descriptors and no memory of such a process.
pub fn is_without_first_thread(id: i32) -> bool {
    /// Number of links of a `task` folder with only the first thread.
    const OF_ONE: libc::nlink_t = 3;
    if id <= 0 || memory_of(id) != Err(Errno::ESRCH) {
        return false;
    }
    let path = threads_of(id);
    let path = core::ffi::CStr::from_bytes_until_nul(&path);
    // The kernel counts each thread as a link until the thread is removed.
    path.is_ok_and(|path| stat(path).is_ok_and(|st| st.st_nlink > OF_ONE))
}

/// Tries to read at address 0. Always fails, with EFAULT if the task has memory that this process may read.
fn memory_of(id: i32) -> Result<usize> {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 1 };
    sys!(process_vm_readv, id, &raw const local, 1usize, &raw const remote, 1usize, 0usize)
}

/// Returns true if a signal or a debugger has stopped the task. Returns false if the state is unknown.
pub fn is_stopped(id: i32) -> bool {
    matches!(state_of(id), Some(b'T' | b't'))
}

/// Returns true if a thread sleeps in the kernel or is stopped. Also returns true if the state is unknown.
pub fn is_asleep(id: i32) -> bool {
    !matches!(state_of(id), Some(b'R' | b'Z' | b'X'))
}

/// Returns true if the task is no zombie. Also returns true if /proc does not show the state.
#[cold]
fn is_no_zombie(id: i32) -> bool {
    !matches!(state_of(id), Some(b'Z' | b'X'))
}

/// Returns true if a thread has executed its last instruction and still exists. Returns false if the state is
/// unknown.
pub fn is_exiting(id: i32) -> bool {
    /// `PF_EXITING` of include/linux/sched.h.
    const EXITING: u32 = 4;
    let flags = with_stat(id, |words| words.nth(6)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Returns the task's state as /proc shows it.
fn state_of(id: i32) -> Option<u8> {
    with_stat(id, |words| words.next()?.bytes().next())
}

/// Calls `take` with the words after a task's name in /proc/ID/stat (proc_pid_stat(5)). The first word is the
/// state, and the seventh holds the flags.
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
    // The name is in brackets, and may itself contain brackets.
    let name_ends = stat[..n].iter().rposition(|&c| c == b')')?;
    let words = core::str::from_utf8(&stat[name_ends + 1..n]).ok()?;
    take(&mut words.split_ascii_whitespace())
}

/// Gives the processor to another runnable thread, if there is one.
pub fn sched_yield() {
    let _ = sys!(sched_yield);
}

/// Returns the number of processors on which this thread may run.
pub fn cpus_allowed() -> u32 {
    let mut mask = [0u64; 16];
    match sys!(sched_getaffinity, 0usize, size_of_val(&mask), mask.as_mut_ptr()) {
        Ok(_) => mask.iter().map(|w| w.count_ones()).sum::<u32>().max(1),
        Err(_) => 1,
    }
}

/// Restricts this thread to one processor from now on.
///
/// # Errors
/// `EINVAL` if the processor does not exist, or if the thread must not run there.
pub fn run_on(processor: u32) -> Result<()> {
    let mut mask = [0u64; 16];
    *mask.get_mut(processor as usize / 64).ok_or(Errno::EINVAL)? = 1 << (processor % 64);
    sys!(sched_setaffinity, 0usize, size_of_val(&mask), mask.as_ptr()).map(drop)
}

/// Returns the processor on which this thread runs at this moment.
pub fn current_cpu() -> u32 {
    // SAFETY: sched_getcpu reads none of this process's memory through pointers. The vDSO or rseq serves it, and
    // Sovia does not interpose it.
    (unsafe { libc::sched_getcpu() }) as u32
}

/// Sends signal `signal` to the calling thread.
pub fn raise(signal: i32) {
    let _ = sys!(tgkill, getpid(), gettid(), signal);
}

/// Waits for a child that ends soon, and returns true if its exit status is 0. Also returns true if the program's
/// own wait has taken the status first.
pub fn reap(pid: i32) -> bool {
    let mut status = 0;
    while sys!(wait4, pid, &raw mut status, libc::__WALL, 0usize) == Err(Errno::EINTR) {}
    status == 0
}

/// Ends the process at once, without the program's exit handlers.
pub fn exit_now() -> ! {
    exit_with(0)
}

/// Like [`exit_now`], with this exit status.
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
        // The child loses its memory first, and becomes a zombie a little later.
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
        // SAFETY: the child makes a thread, which sleeps, and ends its first thread. The child takes no lock that
        // another thread had.
        let child = unsafe { libc::fork() };
        if child == 0 {
            extern "C" fn sleep(_: *mut libc::c_void) -> *mut libc::c_void {
                // SAFETY: `sleep` takes only a number.
                unsafe { libc::sleep(1000) };
                core::ptr::null_mut()
            }
            let mut thread = 0;
            // SAFETY: `thread` has room for the thread's id, and `sleep` ignores its argument.
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
        // SAFETY: `kill` takes only numbers, and `child` is a child of this process.
        unsafe { libc::kill(child, libc::SIGKILL) };
        while process_exists(child) && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(!process_exists(child) && !is_without_first_thread(child));
        reap(child);
        assert!(!process_exists(child) && process_exists(getpid()));
    }
}
