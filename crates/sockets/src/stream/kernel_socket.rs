//! Reads the state of a connection's kernel socket, and controls it.

use crate::conn::{Conn, flag};
use sovia_sys::call;

/// Returns true if the kernel socket has ended or has an error, and clears [`flag::KERNEL_SOCKET`] otherwise. Bytes of
/// the peer on TCP do not count: if the peer moved back to TCP, the VI says so and is read first.
pub(super) fn kernel_socket_news(conn: &Conn, fd: i32) -> bool {
    conn.clear(flag::KERNEL_SOCKET);
    let ended = kernel_socket_has_ended(fd);
    if ended {
        conn.set(flag::KERNEL_SOCKET);
    }
    ended
}

/// Returns true if the peer has closed the kernel socket, or if the kernel socket has an error. Uses the state of TCP,
/// because `poll` also reports an end if only this end has shut its receiving side.
pub(crate) fn kernel_socket_has_ended(fd: i32) -> bool {
    call::tcp_state(fd).is_none_or(|state| state.peer_has_ended())
}

/// Makes the kernel acknowledge received bytes at once. The peer's TCP may hold bytes back until then (Nagle's
/// algorithm). An end whose own bytes go over the VI sends no data on TCP that would carry the acknowledgement. So the
/// peer would wait for a delayed acknowledgement.
#[cold]
pub(super) fn acknowledge(fd: i32) {
    let _ = call::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &1i32);
}

/// Makes TCP send the bytes that Nagle's algorithm or TCP_CORK holds back.
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
