//! Decisions of a fallback. A receiver revokes, waits and returns unread bytes. A sender drains the returned bytes,
//! or refuses.

#[cfg(doc)]
use super::{ENTERED, REFUSED};
use super::{Grant, Returned, Rx, Switch, returned_word};

/// Returns true if a receiver that falls back must revoke the direction. A receiver on TCP must not revoke. A
/// sender that has sent ToTcp would see the revoke, and would wait for returned bytes that never come.
pub const fn revokes(rx: Rx) -> bool {
    matches!(rx, Rx::Granted | Rx::Vi)
}

/// Next step of a receiver that has revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoke {
    /// None: the direction is on TCP, or the sender is moving it there ([`on_tcp`]).
    Nothing,
    /// Claims the switch: sets [`ENTERED`] in the switch word, which has this value, by compare-exchange. If the
    /// exchange fails, the receiver calls [`revoke`] again. In the state [`Rx::Granted`], the receiver still reads
    /// TCP up to the switch before it reads the VI.
    Enter(u64),
    /// Looks for ToTcp among the messages on the VI, and then publishes [`answer`].
    Drain,
}

/// Returns the next step of a receiver that has revoked. The caller loads `switch` after it has published
/// [`Grant::Revoked`] and executed a full fence.
pub const fn revoke(rx: Rx, switch: u64) -> Revoke {
    match (rx, Switch::from_word(switch)) {
        (Rx::Tcp | Rx::Back, _) | (_, Switch::Not | Switch::Cancelled) => Revoke::Nothing,
        (_, Switch::At(_)) => Revoke::Enter(switch),
        (_, Switch::Entered(_)) => Revoke::Drain,
    }
}

/// Event for which a receiver's fallback waits if it need not look at the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Await {
    /// None: the kernel has the rest of the stream, or will receive it.
    Nothing,
    /// The sender, which took the switch back, has put all bytes of the VI on TCP. If TCP ends or the time limit
    /// expires before this event, the fallback has failed. The receiver then reads as if there had been no
    /// fallback.
    TakenBack,
    /// The sender has put all returned bytes on TCP. Any thread may read while the fallback waits. If TCP ends or
    /// the time limit expires before this event, the fallback stops waiting, and the threads continue to read.
    Drained,
}

/// Returns the event for which a receiver's fallback waits. The caller needs this event after [`Revoke::Nothing`],
/// or if the receiver must not revoke ([`revokes`]).
pub const fn on_tcp(rx: Rx, switch: u64, taken_back: bool, returned: u64, drained: bool) -> Await {
    match (rx, Switch::from_word(switch)) {
        (Rx::Granted | Rx::Vi, Switch::Cancelled) if !taken_back => Await::TakenBack,
        (Rx::Back, _) if awaits_drain(returned, drained) => Await::Drained,
        _ => Await::Nothing,
    }
}

/// Returns true if the sender may not have put all returned bytes on TCP yet.
pub const fn awaits_drain(returned: u64, drained: bool) -> bool {
    !drained && matches!(Returned::from_word(returned), Returned::Bytes(1..))
}

/// Next step of a sender that has sent ToTcp. The sender takes the step before its next byte on TCP, and before it
/// leaves the socket to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owed {
    /// None: there are no returned bytes to drain.
    Nothing,
    /// Puts this many bytes of the VI on TCP, from the first unread byte on. Then publishes that these bytes are on
    /// TCP.
    Drain(u64),
    /// Replaces 0 in the returned word by [`REFUSED`]. If the compare-exchange fails, the sender calls [`owed`]
    /// again.
    Refuse,
    /// Waits for the receiver, which has revoked, to publish the returned word. If the receiver dies or leaves
    /// before that, the sender has nothing to drain. If the time limit expires, the sender refuses.
    Wait,
}

/// Returns the next step of a sender that has sent ToTcp. The caller must load `grant` before it loads `returned`.
pub const fn owed(grant: Grant, returned: u64) -> Owed {
    match (Returned::from_word(returned), grant) {
        (Returned::Refused | Returned::Bytes(0), _) => Owed::Nothing,
        (Returned::Bytes(n), _) => Owed::Drain(n),
        (Returned::Not, Grant::Revoked) => Owed::Wait,
        (Returned::Not, _) => Owed::Refuse,
    }
}

/// Result of a fallback's search for ToTcp on a revoked VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// The fallback found ToTcp: the sender continues on TCP.
    ToTcp,
    /// The fallback found FIN, or saw all bytes of a sender that has died. No more bytes come, and no sender can
    /// drain.
    Ended,
    /// The time limit expired before ToTcp or FIN came. The sender is alive but does not answer. More bytes may
    /// come on the VI.
    Impatient,
}

/// Result of a fallback for the bytes that the program has not read. These bytes stay on the VI in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// The VI has no unread bytes. The kernel has the rest of the stream.
    Plain,
    /// The receiver has returned the unread bytes, and continues to read on TCP ([`Rx::Back`]).
    Returned,
    /// The fallback has failed, and has not returned the unread bytes. The receiver reads as if there had been no
    /// fallback.
    Kept,
}

/// Returns the value that a fallback stores in the returned word, by a compare-exchange with 0. `unread` is the
/// number of unread bytes on the VI.
pub const fn answer(seen: Seen, unread: u64) -> u64 {
    match seen {
        Seen::ToTcp => returned_word(unread),
        Seen::Ended | Seen::Impatient => returned_word(0),
    }
}

/// Returns the result of a fallback for the unread bytes, after it has tried to store [`answer`]. `found` is the
/// returned word before the exchange. `found` may equal the answer: another thread may have returned the same
/// bytes, and then stopped.
pub const fn rest(seen: Seen, unread: u64, found: u64) -> Rest {
    match (seen, unread, Returned::from_word(found)) {
        (Seen::ToTcp | Seen::Ended, 0, _) => Rest::Plain,
        (Seen::ToTcp, _, Returned::Not) => Rest::Returned,
        (Seen::ToTcp, n, Returned::Bytes(m)) if n == m => Rest::Returned,
        _ => Rest::Kept,
    }
}
