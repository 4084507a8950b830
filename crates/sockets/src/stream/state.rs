//! Decides the results of the program's calls from the state of a connection.
//!
//! The functions here read no memory and make no system call. Their callers find the facts (the flags, the sender's
//! path, the peer's words), and act on the result. The tables in the tests cover every combination.

use crate::conn::flag;
use sovia_proto::path::Tx;

/// Flags that can change the result of a receive that finds no bytes. If none of them is set, the receive waits.
pub(super) const RECEIVES: u32 = flag::EOF | flag::CORRUPT | RECEIVES_IF_GONE;
/// Flags for which the result depends on whether the peer has gone.
const RECEIVES_IF_GONE: u32 = flag::SHUT_RD | flag::KERNEL_SOCKET | flag::PEER_GONE | flag::DEAD;

/// Flags that can change the path or the result of a send. If one is set, the caller must find out whether the peer has
/// gone, and whether to report an error.
pub(super) const SENDS: u32 = flag::CORRUPT
    | flag::ERROR
    | flag::SHUT_WR
    | flag::PEER_GONE
    | flag::DEAD
    | flag::KERNEL_SOCKET;

/// Flags that can cause events other than bytes and room.
pub(crate) const EVENTS: u32 = flag::ENDED
    | flag::KERNEL_SOCKET
    | flag::EOF
    | flag::PEER_GONE
    | flag::CORRUPT
    | flag::SHUT_RD
    | flag::DEAD
    | flag::ERROR;

/// Flags that are events for a waiting thread.
pub(super) const NEWS: u32 = flag::ENDED | flag::CORRUPT | flag::EOF | flag::PEER_GONE | flag::DEAD;

/// Result of a receive that finds no bytes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receives {
    /// No bytes yet.
    Waits,
    /// End of the stream.
    End,
    /// An error: the segment is corrupt, or the connection was broken off.
    Fails,
    /// The caller must find out whether the peer has gone and what it has left unread, and then ask again.
    Asks,
    /// The peer has gone. The caller reports a kept error once, or the kernel's result for the kernel socket.
    Gone,
}

/// Decides the result of a receive that finds no bytes on the VI. `has_asked`: the caller has found out whether the
/// peer has gone.
#[inline]
pub(super) fn receives(flags: u32, has_asked: bool) -> Receives {
    if flags & RECEIVES == 0 {
        Receives::Waits
    } else if flags & flag::EOF != 0 {
        Receives::End
    } else if flags & flag::CORRUPT != 0 {
        Receives::Fails
    } else if !has_asked {
        Receives::Asks
    } else if flags & flag::PEER_GONE != 0 {
        Receives::Gone
    } else if flags & flag::SHUT_RD != 0 {
        Receives::End
    } else {
        Receives::Waits
    }
}

/// State of the receiver of the direction in which this end sends, as its words in the segment say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// Takes bytes on the VI.
    Listens,
    /// Has shut both halves: the kernel resets the connection for bytes that are sent.
    HasShut,
    /// Has closed.
    HasLeft,
    /// Revokes the direction: wants it back on TCP.
    Revokes,
}

/// Path of a send, if the caller has found out whether the peer has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sends {
    /// The VI.
    OverVi,
    /// TCP, after this end has ended its part on the VI: the receiver revokes the direction.
    Revoked,
    /// TCP, after the bytes that are unread on the VI.
    OnTcp,
    /// The kernel, for its error and its signal: the receiver has closed.
    Left,
    /// The kernel, for its error and its signal: sending is over.
    Over,
}

/// Returns the path of a send.
#[inline]
pub(super) fn sends(flags: u32, tx: Tx, receiver: Receiver) -> Sends {
    if flags & flag::CORRUPT != 0 {
        return Sends::Over;
    }
    if tx != Tx::Vi {
        return Sends::OnTcp;
    }
    if flags & (flag::SHUT_WR | flag::PEER_GONE) != 0 {
        return Sends::Over;
    }
    match receiver {
        Receiver::Listens => Sends::OverVi,
        Receiver::HasShut => Sends::Over,
        Receiver::HasLeft => Sends::Left,
        Receiver::Revokes => Sends::Revoked,
    }
}

/// Returns the events that hold regardless of the kernel socket's state.
pub(super) fn events(flags: u32) -> i16 {
    const ALL: i16 = libc::POLLIN
        | libc::POLLRDNORM
        | libc::POLLOUT
        | libc::POLLWRNORM
        | libc::POLLERR
        | libc::POLLHUP;
    let mut events = 0;
    for (of, adds) in [
        (flag::CORRUPT, ALL),
        (flag::RESET, libc::POLLHUP | libc::POLLRDHUP),
        (flag::ERROR, libc::POLLERR),
    ] {
        if flags & of != 0 {
            events |= adds;
        }
    }
    events
}

#[cfg(test)]
mod tests;
