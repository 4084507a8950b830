//! Creates UDP sockets for frames.

use crate::OpenError;
use crate::port::Step;
use core::net::SocketAddr;
use sovia_sys::call::RawFd;
use sovia_sys::{Errno, Fd, call};

/// Length of the socket's queues. The kernel may reduce it.
const QUEUE: i32 = 4 << 20;
const UDP_GRO: i32 = 104;

/// Returns a socket of the address's family.
///
/// # Errors
/// Returns the kernel's errors.
pub(super) fn make(address: &SocketAddr) -> Result<Fd, Errno> {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    Fd::make(|| call::socket(domain, kind, 0))
}

/// Returns a socket that is ready to be bound to the address. Also returns true if the kernel joins datagrams for it.
///
/// # Errors
/// Returns an [`OpenError`].
pub(super) fn for_frames(own: &SocketAddr) -> Result<(Fd, bool), OpenError> {
    let socket = make(own).step("socket")?;
    let raw = socket.raw();
    let probe = libc::IP_PMTUDISC_PROBE;
    if own.is_ipv4() {
        call::setsockopt(raw, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &probe)
            .step("IP_MTU_DISCOVER")?;
    } else {
        call::setsockopt(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1i32).step("IPV6_V6ONLY")?;
        call::setsockopt(raw, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &probe)
            .step("IPV6_MTU_DISCOVER")?;
    }
    for (force, ask) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        call::setsockopt(raw, libc::SOL_SOCKET, force, &QUEUE)
            .or_else(|_| call::setsockopt(raw, libc::SOL_SOCKET, ask, &QUEUE))
            .step("SO_RCVBUF, SO_SNDBUF")?;
    }
    let joins = call::setsockopt(raw, libc::IPPROTO_UDP, UDP_GRO, &1i32).is_ok();
    Ok((socket, joins))
}

/// Returns the number of datagrams dropped because the socket's queue was full. `before` is the count of the last call.
pub(super) fn missed(socket: RawFd, before: &mut u32) -> u64 {
    // `SO_MEMINFO`, and the position of the counter in its result.
    const MEMINFO: i32 = 55;
    const DROPS: usize = 8;
    let told = call::getsockopt::<[u32; 9]>(socket, libc::SOL_SOCKET, MEMINFO);
    // The kernel's counter has 32 bits.
    told.map_or(0, |told| {
        u64::from(told[DROPS].wrapping_sub(core::mem::replace(before, told[DROPS])))
    })
}
