//! Reads the state of a connection's kernel socket, and controls it.

use crate::conn::{Conn, flag};
use sovia_sys::call;

/// Returns true if the kernel socket has ended or has an error. Otherwise clears [`flag::KERNEL_SOCKET`]. Ignores
/// unread bytes on TCP: the VI is read first, and its last packet says that the peer has moved to TCP.
pub(super) fn examine_kernel_socket(conn: &Conn, fd: i32) -> bool {
    conn.clear(flag::KERNEL_SOCKET);
    let ended = kernel_socket_has_ended(fd);
    if ended {
        conn.set(flag::KERNEL_SOCKET);
    }
    ended
}

/// Returns true if the peer has closed its kernel socket, or if this end's kernel socket has an error. Asks for the
/// TCP state, because `poll` also reports an end if only this end has shut its receiving half.
pub(crate) fn kernel_socket_has_ended(fd: i32) -> bool {
    call::tcp_state(fd).is_none_or(|state| state.peer_has_ended())
}

/// Makes the kernel acknowledge received bytes at once. With Nagle's algorithm, the peer's TCP may hold bytes back
/// until the acknowledgement arrives. If this end sends on the VI, it sends no data on TCP that would carry the
/// acknowledgement. Then the kernel would delay the acknowledgement.
#[cold]
pub(super) fn acknowledge(fd: i32) {
    let _ = call::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &1i32);
}

/// Makes the kernel send the bytes that Nagle's algorithm or TCP_CORK holds back.
#[cold]
pub(super) fn push(fd: i32) {
    if call::bytes_unsent(fd) == Ok(0) {
        return;
    }
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
    let before = call::getsockopt::<i32>(fd, level, name).unwrap_or(1);
    let _ = call::setsockopt(fd, level, name, &1i32);
    if before == 0 {
        let _ = call::setsockopt(fd, level, name, &0i32);
    }
}
