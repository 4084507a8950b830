//! Raw system calls with typed errors.
//!
//! Functions that take plain numbers are safe: the kernel checks descriptors. Those that take
//! memory take slices, or are `unsafe` and say what the caller owes.

pub use syscalls::{Errno, Sysno};

/// What a system call gives back.
pub type Result<T> = core::result::Result<T, Errno>;

/// A descriptor number as the kernel knows it; it may or may not be open.
pub type RawFd = i32;

macro_rules! sys {
    ($name:ident $(, $arg:expr)* $(,)?) => {
        // SAFETY: the callers in this module pass only pointers that they derive from live
        // references (or, in `unsafe fn`s, that their own contract covers), with true lengths.
        unsafe { syscalls::syscall!(Sysno::$name $(, $arg)*) }
    };
}

/// A system call with its arguments. A function of this crate has made it out of references that live as long
/// as the function runs, and the function that it is given to makes the call before it returns.
#[derive(Debug)]
pub struct Prepared {
    number: Sysno,
    arguments: [usize; 6],
}

impl Prepared {
    pub(crate) fn new(number: Sysno, arguments: [usize; 6]) -> Prepared {
        Prepared { number, arguments }
    }

    /// Makes it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn make(self) -> Result<usize> {
        let [a, b, c, d, e, f] = self.arguments;
        // SAFETY: every pointer among the arguments is to what the function lives by that has made this.
        unsafe { syscalls::syscall!(self.number, a, b, c, d, e, f) }
    }

    /// Its number and its arguments.
    pub fn parts(self) -> (usize, [usize; 6]) {
        (self.number.id() as usize, self.arguments)
    }
}

/// Reads into `buf`; returns the bytes read.
pub fn read(fd: RawFd, buf: &mut [u8]) -> Result<usize> {
    sys!(read, fd, buf.as_mut_ptr(), buf.len())
}

/// Writes from `buf`; returns the bytes written.
pub fn write(fd: RawFd, buf: &[u8]) -> Result<usize> {
    sys!(write, fd, buf.as_ptr(), buf.len())
}

/// Reads at `offset` without moving the file position.
pub fn pread(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize> {
    sys!(pread64, fd, buf.as_mut_ptr(), buf.len(), offset)
}

/// Writes two pieces, one after the other, from `offset` on.
pub fn pwrite_both(fd: RawFd, first: &[u8], second: &[u8], offset: i64) -> Result<usize> {
    let piece =
        |buf: &[u8]| libc::iovec { iov_base: buf.as_ptr().cast_mut().cast(), iov_len: buf.len() };
    let pieces = [piece(first), piece(second)];
    // On 64-bit machines the offset is the fourth argument alone.
    sys!(pwritev, fd, pieces.as_ptr(), pieces.len(), offset, 0usize)
}

/// Moves the file position (`lseek`).
pub fn seek(fd: RawFd, offset: i64, whence: i32) -> Result<usize> {
    sys!(lseek, fd, offset, whence)
}

/// Receives with `flags` (`MSG_*`).
pub fn recv(fd: RawFd, buf: &mut [u8], flags: i32) -> Result<usize> {
    sys!(recvfrom, fd, buf.as_mut_ptr(), buf.len(), flags, 0usize, 0usize)
}

/// Sends with `flags` (`MSG_*`).
pub fn send(fd: RawFd, buf: &[u8], flags: i32) -> Result<usize> {
    sys!(sendto, fd, buf.as_ptr(), buf.len(), flags, 0usize, 0usize)
}

/// `recvmsg`, for scattered buffers and ancillary data.
///
/// # Safety
/// Every pointer in `msg` must be valid for what the kernel does with it.
pub unsafe fn recvmsg(fd: RawFd, msg: *mut libc::msghdr, flags: i32) -> Result<usize> {
    sys!(recvmsg, fd, msg, flags)
}

/// `sendmsg`, for gathered buffers and ancillary data.
///
/// # Safety
/// Every pointer in `msg` must be valid for what the kernel does with it.
pub unsafe fn sendmsg(fd: RawFd, msg: *const libc::msghdr, flags: i32) -> Result<usize> {
    sys!(sendmsg, fd, msg, flags)
}

/// Closes a descriptor.
pub fn close(fd: RawFd) -> Result<()> {
    sys!(close, fd).map(drop)
}

/// A socket; `kind` may carry `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<RawFd> {
    sys!(socket, domain, kind, protocol).map(|n| n as RawFd)
}

/// Shuts one or both directions of a socket down.
pub fn shutdown(fd: RawFd, how: i32) -> Result<()> {
    sys!(shutdown, fd, how).map(drop)
}

/// `fcntl` with a plain argument.
pub fn fcntl(fd: RawFd, command: i32, argument: usize) -> Result<usize> {
    sys!(fcntl, fd, command, argument)
}

/// Whether `fd` is in non-blocking mode; a closed descriptor counts as blocking.
pub fn is_nonblocking(fd: RawFd) -> bool {
    fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_NONBLOCK != 0)
}

/// Reads a socket option of a plain type.
pub fn getsockopt<T: Copy + Default>(fd: RawFd, level: i32, name: i32) -> Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as u32;
    sys!(getsockopt, fd, level, name, &raw mut value, &raw mut len)?;
    Ok(value)
}

/// Whether a filter decides what a socket receives.
pub fn has_filter(fd: RawFd) -> bool {
    const SO_GET_FILTER: i32 = 26;
    // The length that comes back is the number of the filter's instructions.
    let mut len = 0u32;
    let asked =
        sys!(getsockopt, fd, libc::SOL_SOCKET, SO_GET_FILTER, 0usize, &raw mut len).map(drop);
    // One that has no such instructions is not told of.
    len != 0 || asked == Err(Errno::EACCES)
}

/// Takes a stream socket's connection away.
pub fn disconnect(fd: RawFd) -> Result<()> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    sys!(connect, fd, &raw const nowhere, size_of::<libc::sockaddr>()).map(drop)
}

/// Sets a socket option of a plain type.
pub fn setsockopt<T: Copy>(fd: RawFd, level: i32, name: i32, value: &T) -> Result<()> {
    sys!(setsockopt, fd, level, name, core::ptr::from_ref(value), size_of::<T>()).map(drop)
}

/// The number of bytes that a read would give at once (`FIONREAD`).
pub fn bytes_unread(fd: RawFd) -> Result<usize> {
    let mut n: i32 = 0;
    sys!(ioctl, fd, libc::FIONREAD, &raw mut n)?;
    Ok(n.max(0) as usize)
}

/// The bytes of a TCP socket that have been written and not been sent even once (`SIOCOUTQNSD`).
pub fn bytes_unsent(fd: RawFd) -> Result<usize> {
    const SIOCOUTQNSD: usize = 0x894b;
    let mut n: i32 = 0;
    sys!(ioctl, fd, SIOCOUTQNSD, &raw mut n)?;
    Ok(n.max(0) as usize)
}

/// The bytes of a TCP socket that have been written and not been acknowledged (`SIOCOUTQ`).
fn bytes_in_queue(fd: RawFd) -> Result<usize> {
    let mut n: i32 = 0;
    sys!(ioctl, fd, libc::TIOCOUTQ, &raw mut n)?;
    Ok(n.max(0) as usize)
}

/// An event counter, used as a doorbell.
pub fn eventfd(flags: i32) -> Result<RawFd> {
    sys!(eventfd2, 0usize, flags).map(|n| n as RawFd)
}

/// A descriptor of this process, which becomes readable when the process has ended.
pub fn pidfd_of_self() -> Result<RawFd> {
    sys!(pidfd_open, getpid(), 0usize).map(|n| n as RawFd)
}

/// A pipe, close-on-exec and non-blocking: the end to read from, then the end to write to.
pub fn pipe() -> Result<[RawFd; 2]> {
    let mut fds = [0i32; 2];
    sys!(pipe2, fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK)?;
    Ok(fds)
}

/// Anonymous memory as a file; `name` only shows in `/proc`.
pub fn memfd_create(name: &core::ffi::CStr, flags: u32) -> Result<RawFd> {
    sys!(memfd_create, name.as_ptr(), flags).map(|n| n as RawFd)
}

/// Opens a path.
pub fn open(path: &core::ffi::CStr, flags: i32, mode: u32) -> Result<RawFd> {
    sys!(openat, libc::AT_FDCWD, path.as_ptr(), flags, mode).map(|n| n as RawFd)
}

/// Sets a file's size.
pub fn ftruncate(fd: RawFd, len: u64) -> Result<()> {
    sys!(ftruncate, fd, len).map(drop)
}

/// A file's size in bytes.
pub fn file_size(fd: RawFd) -> Result<u64> {
    // SAFETY: an all-zero stat is a valid value of a plain C struct.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    sys!(fstat, fd, &raw mut st)?;
    Ok(st.st_size as u64)
}

/// Which file a descriptor is of: device and inode.
pub fn file_id(fd: RawFd) -> Result<(u64, u64)> {
    // SAFETY: an all-zero stat is a valid value of a plain C struct.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    sys!(fstat, fd, &raw mut st)?;
    Ok((st.st_dev as u64, st.st_ino as u64))
}

/// A new pidfd-free identity: this process's id, fresh from the kernel.
pub fn getpid() -> i32 {
    sys!(getpid).map_or(0, |n| n as i32)
}

/// This thread's id.
pub fn gettid() -> i32 {
    sys!(gettid).map_or(0, |n| n as i32)
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

/// The effective user id.
pub fn geteuid() -> u32 {
    sys!(geteuid).map_or(u32::MAX, |n| n as u32)
}

/// Whether a thread of this process has that id.
pub fn is_own_thread(id: i32) -> bool {
    id > 0 && sys!(tgkill, getpid(), id, 0).is_ok()
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
        _ => memory_of(getpid()) == Err(Errno::EFAULT) || is_no_zombie(id),
    }
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

/// Without /proc a zombie looks alive.
#[cold]
fn is_no_zombie(id: i32) -> bool {
    !matches!(state_of(id), Some(b'Z' | b'X'))
}

/// The state that /proc gives.
fn state_of(id: i32) -> Option<u8> {
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
    // The state follows the name in brackets, which may itself hold brackets.
    stat[..n].iter().rposition(|&c| c == b')').and_then(|i| stat.get(i + 2)).copied()
}

pub(crate) fn put(out: &mut [u8], at: &mut usize, bytes: &[u8]) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

pub(crate) fn put_number(out: &mut [u8], at: &mut usize, mut n: u32) {
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    put(out, at, &digits[first..]);
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

/// The processor this thread runs on just now.
pub fn current_cpu() -> u32 {
    // SAFETY: sched_getcpu reads no memory of ours; it is served by the vDSO or rseq, and is
    // not one of the calls that Sovia interposes.
    (unsafe { libc::sched_getcpu() }) as u32
}

/// Fills `buf` with random bytes.
pub fn getrandom(buf: &mut [u8]) -> Result<usize> {
    sys!(getrandom, buf.as_mut_ptr(), buf.len(), 0usize)
}

/// Sends signal `signal` to the calling thread.
pub fn raise(signal: i32) {
    let _ = sys!(tgkill, getpid(), gettid(), signal);
}

/// A soft resource limit, or `None` where it is unlimited.
pub fn soft_limit(resource: u32) -> Option<u64> {
    let mut limits = [0u64; 2];
    sys!(prlimit64, 0usize, resource, 0usize, limits.as_mut_ptr()).ok()?;
    (limits[0] != u64::MAX).then_some(limits[0])
}

/// The target of the symbolic link that `/proc` has for a descriptor; its length.
pub fn read_link(fd: RawFd, out: &mut [u8]) -> Result<usize> {
    let mut path = [0u8; 32];
    let mut at = 0;
    put(&mut path, &mut at, b"/proc/self/fd/");
    put_number(&mut path, &mut at, fd.unsigned_abs());
    sys!(readlinkat, libc::AT_FDCWD, path.as_ptr(), out.as_mut_ptr(), out.len())
}

/// The target of a symbolic link; its length.
pub(crate) fn read_link_at(path: &core::ffi::CStr, out: &mut [u8]) -> Result<usize> {
    sys!(readlinkat, libc::AT_FDCWD, path.as_ptr(), out.as_mut_ptr(), out.len())
}

/// The kind of file system that a descriptor's file lies on (`statfs.f_type`).
pub fn file_system(fd: RawFd) -> Result<i64> {
    // SAFETY: an all-zero statfs is a valid value of a plain C struct.
    let mut st: libc::statfs = unsafe { core::mem::zeroed() };
    sys!(fstatfs, fd, &raw mut st)?;
    Ok(st.f_type)
}

/// Calls `each` with every open descriptor of the calling process; false if /proc cannot say.
pub fn each_descriptor(each: impl FnMut(RawFd)) -> bool {
    each_number(c"/proc/self/fd", each)
}

/// Calls `each` with every thread of the calling process; false if /proc cannot say.
pub fn each_thread(each: impl FnMut(i32)) -> bool {
    each_number(c"/proc/self/task", each)
}

/// Whether a process has a thread of that id, dead ones that nothing has noticed yet included.
pub fn is_thread_of(process: i32, id: i32) -> bool {
    sys!(tgkill, process, id, 0usize) != Err(Errno::ESRCH)
}

/// Calls `each` with every entry of a directory whose name is a number, but for the descriptor by which
/// it is read itself.
fn each_number(path: &core::ffi::CStr, mut each: impl FnMut(i32)) -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let Ok(directory) = open(path, flags, 0) else { return false };
    let mut entries = [0u8; 1024];
    let mut whole = true;
    loop {
        let n = match sys!(getdents64, directory, entries.as_mut_ptr(), entries.len()) {
            Ok(0) => break,
            Ok(n) => n,
            Err(_) => {
                whole = false;
                break;
            }
        };
        let mut rest = &entries[..n];
        // Of each: inode and offset (8 bytes each), length of the whole (2), kind (1), name.
        while let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high, _, name @ ..] = rest {
            let mut number = 0;
            let mut digits = name.iter().take_while(|c| c.is_ascii_digit()).peekable();
            if digits.peek().is_some() {
                for digit in digits {
                    number = number * 10 + i32::from(digit - b'0');
                }
                if number != directory {
                    each(number);
                }
            }
            let len = usize::from(u16::from_ne_bytes([*low, *high]));
            match rest.get(len..) {
                Some(next) if len > 0 => rest = next,
                _ => break,
            }
        }
    }
    let _ = close(directory);
    whole
}

/// A timeout option of a socket (`SO_RCVTIMEO`, `SO_SNDTIMEO`) in nanoseconds; 0 for none.
pub fn timeout_ns(fd: RawFd, option: i32) -> Result<u64> {
    let [seconds, micros] = getsockopt::<[i64; 2]>(fd, libc::SOL_SOCKET, option)?;
    Ok(seconds.max(0) as u64 * 1_000_000_000 + micros.max(0) as u64 * 1000)
}

/// The address of a TCP socket, or of its peer.
///
/// # Errors
/// `ENOTCONN`, or `EAFNOSUPPORT` for another family.
pub fn socket_name(fd: RawFd, peer: bool) -> Result<core::net::SocketAddr> {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    let mut a = [0u8; 28];
    let mut len = a.len() as u32;
    if peer {
        sys!(getpeername, fd, a.as_mut_ptr(), &raw mut len)?;
    } else {
        sys!(getsockname, fd, a.as_mut_ptr(), &raw mut len)?;
    }
    let port = u16::from_be_bytes([a[2], a[3]]);
    let ip = match i32::from(u16::from_ne_bytes([a[0], a[1]])) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(a[4], a[5], a[6], a[7])),
        libc::AF_INET6 => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&a[8..24]);
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    Ok(SocketAddr::new(ip, port))
}

/// Two connected sockets, by their numbers.
pub fn socketpair(domain: i32, kind: i32) -> Result<[RawFd; 2]> {
    let mut fds = [0; 2];
    sys!(socketpair, domain, kind, 0usize, fds.as_mut_ptr())?;
    Ok(fds)
}

/// Makes `to` a descriptor of what `fd` is, keeping `to`'s number (`dup3` without flags).
pub fn dup_onto(fd: RawFd, to: RawFd) -> Result<()> {
    sys!(dup3, fd, to, 0usize).map(drop)
}

/// Like [`dup_onto`], and `to` is closed at exec.
pub fn dup_cloexec_onto(fd: RawFd, to: RawFd) -> Result<()> {
    sys!(dup3, fd, to, libc::O_CLOEXEC).map(drop)
}

/// Bytes that a connected TCP socket has received in order so far (`tcpi_bytes_received`).
///
/// # Errors
/// `ENOTCONN` unless it is in state ESTABLISHED: a FIN would count as a byte.
pub fn tcp_bytes_received(fd: RawFd) -> Result<u64> {
    // The counter lies at byte 128 of struct tcp_info; the state is its first byte.
    let info = getsockopt::<[u64; 17]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    if info[0] & 0xff != 1 {
        return Err(Errno::ENOTCONN);
    }
    Ok(info[16])
}

/// Bytes that have been written to a connected TCP socket so far, from some beginning that is always the same:
/// those that the peer has acknowledged (`tcpi_bytes_acked`), and those on their way.
///
/// # Errors
/// What the socket's calls say; it may be none.
pub fn tcp_bytes_written(fd: RawFd) -> Result<u64> {
    // The counter lies at byte 120 of struct tcp_info.
    let acknowledged =
        || getsockopt::<[u64; 16]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).map(|info| info[15]);
    let mut before = acknowledged()?;
    loop {
        let on_their_way = bytes_in_queue(fd)?;
        // Unless some have been acknowledged meanwhile, which would have been counted twice.
        match acknowledged()? {
            now if now == before => return Ok(now + on_their_way as u64),
            now => before = now,
        }
    }
}

/// Closes a range of descriptors, `last` included.
pub fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        let _ = sys!(close_range, first, last, 0usize);
    }
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

/// Takes the exit status of a child that ends at once: whether it is 0. (True where the program's own wait
/// has been faster.)
pub fn reap(pid: i32) -> bool {
    let mut status = 0;
    while sys!(wait4, pid, &raw mut status, libc::__WALL, 0usize) == Err(Errno::EINTR) {}
    status == 0
}

/// The state of a TCP socket, as `tcpi_state` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpState(u8);

impl TcpState {
    /// Whether both directions are open.
    pub fn is_open(self) -> bool {
        const ESTABLISHED: u8 = 1;
        self.0 == ESTABLISHED
    }

    /// Whether the socket is connected no more: both ends have ended, or it was reset.
    pub fn is_closed(self) -> bool {
        const CLOSE: u8 = 7;
        self.0 == CLOSE
    }

    /// Whether this end has sent its FIN, or is about to.
    pub fn has_ended(self) -> bool {
        const FIN_WAIT_1: u8 = 4;
        const FIN_WAIT_2: u8 = 5;
        const TIME_WAIT: u8 = 6;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        self.is_closed()
            || matches!(self.0, FIN_WAIT_1 | FIN_WAIT_2 | TIME_WAIT | LAST_ACK | CLOSING)
    }

    /// Whether the peer's FIN, or a reset, has arrived.
    pub fn peer_has_ended(self) -> bool {
        const TIME_WAIT: u8 = 6;
        const CLOSE: u8 = 7;
        const CLOSE_WAIT: u8 = 8;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        matches!(self.0, TIME_WAIT | CLOSE | CLOSE_WAIT | LAST_ACK | CLOSING)
    }
}

/// Whether it is a TCP socket.
pub fn is_tcp(fd: RawFd) -> bool {
    getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

/// The state of a TCP socket; `None` if it is none.
pub fn tcp_state(fd: RawFd) -> Option<TcpState> {
    getsockopt::<u8>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok().map(TcpState)
}

/// Whether a descriptor is a block device or a regular file: what `sendfile` reads from. Files that are made
/// while they are read, as those of /proc, cannot be sent, or some of them: these are none.
pub fn is_plain_file(fd: RawFd) -> Result<bool> {
    // SAFETY: an all-zero stat is a valid value of a plain C struct.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    sys!(fstat, fd, &raw mut st)?;
    Ok(match st.st_mode & libc::S_IFMT {
        libc::S_IFREG => !is_made_when_read(fd)?,
        kind => kind == libc::S_IFBLK,
    })
}

/// Whether a file is of a file system whose files say themselves how they are read.
fn is_made_when_read(fd: RawFd) -> Result<bool> {
    const TRACEFS: u64 = 0x7472_6163;
    const DEBUGFS: u64 = 0x6462_6720;
    // SAFETY: an all-zero statfs is a valid value of a plain C struct.
    let mut fs: libc::statfs = unsafe { core::mem::zeroed() };
    sys!(fstatfs, fd, &raw mut fs)?;
    Ok([libc::PROC_SUPER_MAGIC as u64, TRACEFS, DEBUGFS].contains(&(fs.f_type as u64)))
}

/// The soft and the hard limit of descriptors.
pub fn descriptor_limits() -> (u64, u64) {
    let mut limits = [0u64; 2];
    match sys!(prlimit64, 0usize, libc::RLIMIT_NOFILE, 0usize, limits.as_mut_ptr()) {
        Ok(_) => (limits[0], limits[1]),
        Err(_) => (1024, 1024),
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
        assert!(task_exists(id) && is_no_zombie(id));
        child.kill().unwrap();
        let patience = std::time::Instant::now();
        // It loses its memory first, and is a zombie a little later.
        while (task_exists(id) || is_no_zombie(id)) && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(!task_exists(id) && !is_no_zombie(id));
        child.wait().unwrap();
        assert!(!task_exists(id));
        let thread = std::thread::spawn(gettid).join().unwrap();
        while task_exists(thread) && patience.elapsed().as_secs() < 20 {
            sched_yield();
        }
        assert!(!task_exists(thread));
    }
}
