//! Raw system calls with typed errors.
//!
//! Functions that take plain numbers are safe, because the kernel checks descriptors. Functions that take memory
//! take slices, or are `unsafe` and state their contract.

pub use syscalls::{Errno, Sysno};

/// Result of a system call.
pub type Result<T> = core::result::Result<T, Errno>;

/// Returns the meaning of an error for a message to a user, such as "No such device". `Errno` itself prints "-19
/// ENODEV (No such device)".
pub fn described(errno: Errno) -> &'static str {
    errno.description().unwrap_or("unknown error")
}

/// Descriptor number as the kernel knows it. The descriptor may or may not be open.
pub type RawFd = i32;

macro_rules! sys {
    ($name:ident $(, $arg:expr)* $(,)?) => {
        // SAFETY: the callers in this module and its submodules pass pointers with true lengths. The pointers
        // come from live references, or from the arguments of an `unsafe fn`, whose contract makes them valid.
        unsafe { syscalls::syscall!(Sysno::$name $(, $arg)*) }
    };
}

mod descriptor;
mod file;
mod keepalive;
mod proc_fs;
mod socket;
mod task;
mod tcp;

pub use descriptor::{
    close, close_on_exec, close_range, dup_cloexec_onto, dup_onto, eventfd, fcntl, is_nonblocking,
    pipe,
};
pub(crate) use file::read_link_at;
pub use file::{
    file_at, file_id, file_owner, file_size, file_system, ftruncate, is_plain_file, is_there,
    may_execute, memfd_create, open, pread, program_at, pwrite_both, read, read_cached, seek,
    write,
};
pub use keepalive::{Keepalive, Silence};
pub use proc_fs::{
    each_descriptor, each_descriptor_of, each_thread, each_thread_of, file_id_of, find_line,
    open_info, open_of, own_maps, read_link, read_link_of, reopen, thread_count,
};
pub(crate) use proc_fs::{put, put_number};
pub use socket::{
    bind, bytes_unread, connect, disconnect, getsockopt, has_filter, has_nameless_peer, is_at_mark,
    peer_of, recv, recvmmsg, recvmsg, send, send_parts, send_to, sendmmsg, sendmsg, setsockopt,
    shutdown, socket, socket_name, socketpair, timeout_ns,
};
pub use task::{
    cpus_allowed, current_cpu, exit_now, exit_with, faults_of_thread, getegid, geteuid, getgid,
    getpid, gettid, getuid, is_asleep, is_exiting, is_own_thread, is_stopped, is_thread_of,
    is_without_first_thread, pidfd_of_self, process_exists, raise, reap, robust_list, run_on,
    sched_yield, set_robust_list, task_exists,
};
pub use tcp::{
    TcpState, bytes_in_queue, bytes_unsent, is_tcp, tcp_bytes_read, tcp_bytes_sent,
    tcp_bytes_written, tcp_has_closed_unanswered, tcp_state,
};

/// A system call with its arguments. A function of this crate makes it from references that live as long as that
/// function runs. The function passes this value to another function, which makes the call before it returns.
#[derive(Debug)]
pub struct Prepared {
    number: Sysno,
    arguments: [usize; 6],
}

impl Prepared {
    pub(crate) fn new(number: Sysno, arguments: [usize; 6]) -> Prepared {
        Prepared { number, arguments }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn make(self) -> Result<usize> {
        let [a, b, c, d, e, f] = self.arguments;
        // SAFETY: every pointer among the arguments comes from a reference that outlives the call: see
        // [`Prepared`].
        unsafe { syscalls::syscall!(self.number, a, b, c, d, e, f) }
    }

    /// Returns the call's number and its arguments.
    pub fn parts(self) -> (usize, [usize; 6]) {
        (self.number.id() as usize, self.arguments)
    }
}

/// Fills `buf` with random bytes.
pub fn getrandom(buf: &mut [u8]) -> Result<usize> {
    sys!(getrandom, buf.as_mut_ptr(), buf.len(), 0usize)
}

/// Returns a soft resource limit; `None` if there is no limit.
pub fn soft_limit(resource: u32) -> Option<u64> {
    let mut limits = [0u64; 2];
    sys!(prlimit64, 0usize, resource, 0usize, limits.as_mut_ptr()).ok()?;
    (limits[0] != u64::MAX).then_some(limits[0])
}

/// Returns the soft and the hard limit of descriptors.
pub fn descriptor_limits() -> (u64, u64) {
    let mut limits = [0u64; 2];
    match sys!(prlimit64, 0usize, libc::RLIMIT_NOFILE, 0usize, limits.as_mut_ptr()) {
        Ok(_) => (limits[0], limits[1]),
        Err(_) => (1024, 1024),
    }
}

/// Raises this process's limit of descriptors to the hard limit. Only for Sovia's own processes.
pub fn raise_descriptor_limit() {
    let (_, hard) = descriptor_limits();
    let limits = [hard, hard];
    let _ = sys!(prlimit64, 0usize, libc::RLIMIT_NOFILE, limits.as_ptr(), 0usize);
}
