//! What the kernel says of a connection's anchor.

use crate::conn::{Conn, flag};
use sovia_sys::call;

/// Whether the anchor has come to its end, or is in error. What the peer put on TCP does not count:
/// if it went back there, the VI says where, and is read first.
pub(super) fn anchor_news(conn: &Conn, fd: i32) -> bool {
    conn.clear(flag::ANCHOR);
    let ended = anchor_has_ended(fd);
    if ended {
        conn.set(flag::ANCHOR);
    }
    ended
}

/// Whether the peer has closed the anchor, or it is in error. By the state of TCP: poll would tell
/// the same of a receiving side that this end has shut itself.
pub(crate) fn anchor_has_ended(fd: i32) -> bool {
    call::tcp_state(fd).is_none_or(|state| state.peer_has_ended())
}
