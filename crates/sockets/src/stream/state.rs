//! Decides the results of the program's sends and receives from the state of a connection.
//!
//! The functions here are pure: they read no shared memory and make no system call. The callers pass the flags, the
//! path and the receiver's state, and act on the result. The tests have a table for each function, which covers
//! every combination of arguments.

use crate::conn::flag;
use sovia_proto::path::Tx;

/// Flags that can change the result of a receive that finds no bytes. If none of these flags is set, the receive
/// waits.
pub(super) const RECEIVES: u32 = flag::EOF | flag::CORRUPT | RECEIVES_IF_GONE;
/// Flags with which the result of a receive depends on whether the peer has gone.
const RECEIVES_IF_GONE: u32 = flag::SHUT_RD | flag::KERNEL_SOCKET | flag::PEER_GONE | flag::DEAD;

/// Flags that can change the path or the result of a send. If one is set, the caller of [`sends`] must first find
/// out whether the peer has gone, and must report a stored error.
pub(super) const SENDS: u32 = flag::CORRUPT
    | flag::ERROR
    | flag::SHUT_WR
    | flag::PEER_GONE
    | flag::DEAD
    | flag::KERNEL_SOCKET;

/// Flags that can cause `poll` events other than those for bytes and room.
pub(crate) const EVENTS: u32 = flag::ENDED
    | flag::KERNEL_SOCKET
    | flag::EOF
    | flag::PEER_GONE
    | flag::CORRUPT
    | flag::SHUT_RD
    | flag::DEAD
    | flag::ERROR;

/// Flags for which a waiting thread must be woken.
pub(super) const WAKES: u32 =
    flag::ENDED | flag::CORRUPT | flag::EOF | flag::PEER_GONE | flag::DEAD;

/// Result of a receive that finds no bytes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receives {
    /// No bytes have arrived yet.
    Waits,
    /// The stream has ended.
    End,
    /// The receive fails, because the segment is corrupt or the connection was broken off.
    Fails,
    /// Not known. The caller must find out whether the peer has gone, look for unread bytes again, and then call
    /// [`receives`] with `has_asked` set.
    Asks,
    /// The peer has gone. The caller returns the connection's stored error if there is one, or otherwise the
    /// kernel's result for the kernel socket.
    Gone,
}

/// Decides the result of a receive that finds no bytes on the VI. `has_asked` is true if the caller has found out
/// whether the peer has gone.
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

/// State of the peer's receiver, from the words that the peer has published in the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// Receives on the VI.
    Listens,
    /// Has shut both halves. If a byte is sent, the kernel resets the connection.
    HasShut,
    /// Has closed the connection.
    HasLeft,
    /// Has revoked the direction: the sender must move back to TCP.
    Revokes,
}

/// Path of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sends {
    /// The VI.
    OverVi,
    /// TCP. The receiver has revoked the direction, so the caller must first stop sending on the VI.
    Revoked,
    /// TCP. If this end has left the VI, the caller must first put the unread bytes of the VI on TCP.
    OnTcp,
    /// None, because the receiver has closed. The caller makes the system call, which returns an error and raises
    /// SIGPIPE.
    Left,
    /// None, because this end can send no more. The caller makes the system call, which returns an error and raises
    /// SIGPIPE.
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

/// Returns the `poll` events that the flags cause, whatever the state of the kernel socket is.
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
