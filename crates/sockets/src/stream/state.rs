//! What the state of a connection comes to for the program's calls, in one place.
//!
//! Nothing here looks at memory or asks the kernel: the callers find the facts (the flags, the sender's path, the words of
//! the peer), ask here, and do what the answer says. The tables in the tests have every combination.

use crate::conn::flag;
use sovia_proto::path::Tx;

/// Flags without which a receive that finds nothing waits.
pub(super) const RECEIVES: u32 = flag::EOF | flag::CORRUPT | RECEIVES_IF_GONE;
/// Those of which the answer depends on whether the peer has gone.
const RECEIVES_IF_GONE: u32 = flag::SHUT_RD | flag::KERNEL_SOCKET | flag::PEER_GONE | flag::DEAD;

/// Flags without which a send goes where its path says: it is asked whether the peer has gone, and whether an error is
/// to be told.
pub(super) const SENDS: u32 = flag::CORRUPT
    | flag::ERROR
    | flag::SHUT_WR
    | flag::PEER_GONE
    | flag::DEAD
    | flag::KERNEL_SOCKET;

/// Flags without which there are no events but bytes and room.
pub(crate) const EVENTS: u32 = flag::ENDED
    | flag::KERNEL_SOCKET
    | flag::EOF
    | flag::PEER_GONE
    | flag::CORRUPT
    | flag::SHUT_RD
    | flag::DEAD
    | flag::ERROR;

/// Flags that are news to a thread that waits.
pub(super) const NEWS: u32 = flag::ENDED | flag::CORRUPT | flag::EOF | flag::PEER_GONE | flag::DEAD;

/// What a receive does that finds no bytes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receives {
    /// It has nothing yet.
    Waits,
    /// It finds the end of the stream.
    End,
    /// It fails: the segment holds nonsense.
    Fails,
    /// It finds out whether the peer has gone, and what that has left behind; then it asks again.
    Asks,
    /// The peer has gone: it is told an error, once, or what the kernel says of the kernel socket.
    Gone,
}

/// What a receive does that finds no bytes on the VI. `has_asked`: it has found out whether the peer has gone.
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

/// What the receiver of the direction in which this end sends says in the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    /// Nothing that would keep bytes off the VI.
    Listens,
    /// It has shut both halves: the kernel resets the connection for what is sent.
    HasShut,
    /// It has closed.
    HasLeft,
    /// It wants the direction back on TCP.
    Revokes,
}

/// Where a send goes, once it is known whether the peer has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sends {
    /// Over the VI.
    OverVi,
    /// On TCP, once this end has ended its part on the VI: the receiver revokes the direction.
    Revoked,
    /// On TCP, after what is unread on the VI.
    OnTcp,
    /// To the kernel, for its verdict and its signal: the receiver has closed.
    Left,
    /// To the kernel likewise: sending is over.
    Over,
}

/// Where a send goes.
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

/// The events that hold whatever the kernel socket says.
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
