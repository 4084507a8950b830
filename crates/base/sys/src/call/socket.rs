//! Sockets of any kind: messages, options and addresses.

use super::{Errno, RawFd, Result, Sysno};
use crate::{UserSlice, UserSliceMut};

/// Receives with `flags` (`MSG_*`).
pub fn recv<'a>(fd: RawFd, buf: impl Into<UserSliceMut<'a>>, flags: i32) -> Result<usize> {
    let buf = buf.into();
    sys!(recvfrom, fd, buf.as_mut_ptr(), buf.len(), flags, 0usize, 0usize)
}

/// Sends with `flags` (`MSG_*`).
pub fn send<'a>(fd: RawFd, buf: impl Into<UserSlice<'a>>, flags: i32) -> Result<usize> {
    let buf = buf.into();
    sys!(sendto, fd, buf.as_ptr(), buf.len(), flags, 0usize, 0usize)
}

/// Number of parts that [`send_parts`] sends in one call.
const PARTS: usize = 64;

/// Like [`send`], for a message in several parts. Sends only the first 64 parts, in one `sendmsg`.
pub fn send_parts<'a>(
    fd: RawFd,
    parts: impl IntoIterator<Item = UserSlice<'a>>,
    flags: i32,
) -> Result<usize> {
    let mut list = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    let mut count = 0;
    for (place, part) in list.iter_mut().zip(parts) {
        *place = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        count += 1;
    }
    // SAFETY: all-zero bytes are a valid empty msghdr.
    let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
    (msg.msg_iov, msg.msg_iovlen) = (list.as_mut_ptr(), count as _);
    // SAFETY: the list and its parts outlive the call, and the kernel only reads them.
    unsafe { sendmsg(fd, &raw const msg, flags) }
}

/// `recvmsg`, for scattered buffers and ancillary data.
///
/// # Safety
/// Every pointer in `msg` must be valid for the kernel's accesses.
pub unsafe fn recvmsg(fd: RawFd, msg: *mut libc::msghdr, flags: i32) -> Result<usize> {
    sys!(recvmsg, fd, msg, flags)
}

/// `sendmsg`, for gathered buffers and ancillary data.
///
/// # Safety
/// Every pointer in `msg` must be valid for the kernel's accesses.
pub unsafe fn sendmsg(fd: RawFd, msg: *const libc::msghdr, flags: i32) -> Result<usize> {
    sys!(sendmsg, fd, msg, flags)
}

/// Calls `sendmmsg` and returns the number of messages that the kernel has accepted.
///
/// # Safety
/// `messages` must point to `count` messages, and every pointer in them must be valid for the kernel's accesses.
pub unsafe fn sendmmsg(
    fd: RawFd,
    messages: *mut libc::mmsghdr,
    count: usize,
    flags: i32,
) -> Result<usize> {
    sys!(sendmmsg, fd, messages, count, flags)
}

/// Calls `recvmmsg` without a time limit, and returns the number of received messages.
///
/// # Safety
/// `messages` must point to `count` messages, and every pointer in them must be valid for the kernel's accesses.
pub unsafe fn recvmmsg(
    fd: RawFd,
    messages: *mut libc::mmsghdr,
    count: usize,
    flags: i32,
) -> Result<usize> {
    sys!(recvmmsg, fd, messages, count, flags, 0usize)
}

/// Sends to `address`, the bytes of a `sockaddr`. If `address` is empty, sends to the connected peer.
pub fn send_to(fd: RawFd, buf: &[u8], flags: i32, address: &[u8]) -> Result<usize> {
    let at = if address.is_empty() { core::ptr::null() } else { address.as_ptr() };
    sys!(sendto, fd, buf.as_ptr(), buf.len(), flags, at, address.len())
}

/// Binds to an address, the bytes of a `sockaddr`.
pub fn bind(fd: RawFd, address: &[u8]) -> Result<()> {
    sys!(bind, fd, address.as_ptr(), address.len()).map(drop)
}

/// Connects to an address, the bytes of a `sockaddr`.
pub fn connect(fd: RawFd, address: &[u8]) -> Result<()> {
    sys!(connect, fd, address.as_ptr(), address.len()).map(drop)
}

/// Makes a socket. `kind` may carry `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<RawFd> {
    sys!(socket, domain, kind, protocol).map(|n| n as RawFd)
}

/// Makes two connected sockets.
pub fn socketpair(domain: i32, kind: i32) -> Result<[RawFd; 2]> {
    let mut fds = [0; 2];
    sys!(socketpair, domain, kind, 0usize, fds.as_mut_ptr())?;
    Ok(fds)
}

/// Returns true if a Unix socket is connected to a socket without a name.
pub fn has_nameless_peer(fd: RawFd) -> bool {
    // SAFETY: all-zero bytes are a valid sockaddr_un, which is a plain C struct.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_un>() as u32;
    sys!(getpeername, fd, &raw mut address, &raw mut len).is_ok()
        && len as usize == size_of::<libc::sa_family_t>()
}

/// Shuts one or both directions of a socket down.
pub fn shutdown(fd: RawFd, how: i32) -> Result<()> {
    sys!(shutdown, fd, how).map(drop)
}

/// Ends a stream socket's connection, by a connect to no address.
pub fn disconnect(fd: RawFd) -> Result<()> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    sys!(connect, fd, &raw const nowhere, size_of::<libc::sockaddr>()).map(drop)
}

/// Returns the process at the other end of a Unix socket. For a pair of sockets, returns the process that has
/// made it.
pub fn peer_of(fd: RawFd) -> Option<i32> {
    let [pid, _, _] = getsockopt::<[i32; 3]>(fd, libc::SOL_SOCKET, libc::SO_PEERCRED).ok()?;
    (pid > 0).then_some(pid)
}

/// Reads a socket option of a plain type.
pub fn getsockopt<T: Copy + Default>(fd: RawFd, level: i32, name: i32) -> Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as u32;
    sys!(getsockopt, fd, level, name, &raw mut value, &raw mut len)?;
    Ok(value)
}

/// Sets a socket option of a plain type.
pub fn setsockopt<T: Copy>(fd: RawFd, level: i32, name: i32, value: &T) -> Result<()> {
    sys!(setsockopt, fd, level, name, core::ptr::from_ref(value), size_of::<T>()).map(drop)
}

/// Returns a timeout option of a socket (`SO_RCVTIMEO`, `SO_SNDTIMEO`) in nanoseconds; 0 for none.
pub fn timeout_ns(fd: RawFd, option: i32) -> Result<u64> {
    let [seconds, micros] = getsockopt::<[i64; 2]>(fd, libc::SOL_SOCKET, option)?;
    Ok(seconds.max(0) as u64 * 1_000_000_000 + micros.max(0) as u64 * 1000)
}

/// Returns true if a packet filter decides which data the socket receives.
pub fn has_filter(fd: RawFd) -> bool {
    const SO_GET_FILTER: i32 = 26;
    // The kernel returns the number of the filter's instructions as the length.
    let mut len = 0u32;
    let asked =
        sys!(getsockopt, fd, libc::SOL_SOCKET, SO_GET_FILTER, 0usize, &raw mut len).map(drop);
    // For a filter without such instructions (eBPF), the kernel returns EACCES and no length.
    len != 0 || asked == Err(Errno::EACCES)
}

/// Returns the address of a TCP socket or of its peer.
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

/// Returns true if the next byte is urgent data (`SIOCATMARK`).
pub fn is_at_mark(fd: RawFd) -> bool {
    // From linux/sockios.h. The crate libc lacks it.
    const SIOCATMARK: usize = 0x8905;
    let mut mark: i32 = 0;
    sys!(ioctl, fd, SIOCATMARK, &raw mut mark).is_ok() && mark != 0
}

/// Returns the number of bytes that a read can return at once (`FIONREAD`).
pub fn bytes_unread(fd: RawFd) -> Result<usize> {
    let mut n: i32 = 0;
    sys!(ioctl, fd, libc::FIONREAD, &raw mut n)?;
    Ok(n.max(0) as usize)
}
