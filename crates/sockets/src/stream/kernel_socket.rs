//! What the kernel says of a connection's kernel socket, and is told to do.

use crate::conn::{Conn, flag};
use sovia_sys::call;

/// Whether the kernel socket has come to its end, or is in error. What the peer put on TCP does not count:
/// if it went back there, the VI says where, and is read first.
pub(super) fn kernel_socket_news(conn: &Conn, fd: i32) -> bool {
    conn.clear(flag::KERNEL_SOCKET);
    let ended = kernel_socket_has_ended(fd);
    if ended {
        conn.set(flag::KERNEL_SOCKET);
    }
    ended
}

/// Whether the peer has closed the kernel socket, or it is in error. By the state of TCP: poll would tell
/// the same of a receiving side that this end has shut itself.
pub(crate) fn kernel_socket_has_ended(fd: i32) -> bool {
    call::tcp_state(fd).is_none_or(|state| state.peer_has_ended())
}

/// Acknowledges what TCP has received, at once. The peer's TCP may hold bytes back until then
/// (Nagle's algorithm), and an end whose own bytes go over the VI sends no data on TCP that would
/// carry the acknowledgement: without this the bytes would wait for the kernel's delayed one.
#[cold]
pub(super) fn acknowledge(fd: i32) {
    let _ = call::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &1i32);
}

/// Has TCP send what Nagle's algorithm or TCP_CORK holds back.
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
