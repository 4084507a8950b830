//! Decisions of a fallback: revoking, waiting and returning at the receiver, and the sender's debt to it.

#[cfg(doc)]
use super::{ENTERED, REFUSED};
use super::{Grant, Returned, Rx, Switch, returned_word};

/// Returns true if a fallback has something to revoke. On TCP the receiver must not revoke. A sender that still
/// owes bytes would find the revoke, and would wait for an answer that never comes.
pub const fn revokes(rx: Rx) -> bool {
    matches!(rx, Rx::Granted | Rx::Vi)
}

/// Next step of a receiver that has revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoke {
    /// None: the direction is on TCP, or will be ([`on_tcp`]).
    Nothing,
    /// Claims the switch: exchanges this word for the word with [`ENTERED`] set. If the exchange fails, the
    /// receiver calls [`revoke`] again. In the state [`Rx::Granted`], the receiver still reads TCP up to the switch
    /// first.
    Enter(u64),
    /// Looks at the messages on the VI ([`answer`]).
    Drain,
}

/// Returns the next step after a revoke. The caller loads `switch` after it has published [`Grant::Revoked`] and
/// executed a full fence.
pub const fn revoke(rx: Rx, switch: u64) -> Revoke {
    match (rx, Switch::from_word(switch)) {
        (Rx::Tcp | Rx::Back, _) | (_, Switch::Not | Switch::Cancelled) => Revoke::Nothing,
        (_, Switch::At(_)) => Revoke::Enter(switch),
        (_, Switch::Entered(_)) => Revoke::Drain,
    }
}

/// Event for which a fallback waits that has nothing to look for on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Await {
    /// None: the kernel has the rest of the stream, or will get it.
    Nothing,
    /// The sender puts on TCP the bytes that it has taken back. If TCP ends or the time limit expires before, the
    /// fallback has failed, and ordinary reading goes on.
    TakenBack,
    /// The sender puts the returned bytes on TCP. Meanwhile any thread may read. If TCP ends or the time limit
    /// expires before, ordinary reading goes on.
    Drained,
}

/// Returns the event for which the fallback waits, after [`Revoke::Nothing`] or without a revoke ([`revokes`]).
pub const fn on_tcp(rx: Rx, switch: u64, taken_back: bool, returned: u64, drained: bool) -> Await {
    match (rx, Switch::from_word(switch)) {
        (Rx::Granted | Rx::Vi, Switch::Cancelled) if !taken_back => Await::TakenBack,
        (Rx::Back, _) if awaits_drain(returned, drained) => Await::Drained,
        _ => Await::Nothing,
    }
}

/// Returns true if returned bytes may still be missing on TCP.
pub const fn awaits_drain(returned: u64, drained: bool) -> bool {
    !drained && matches!(Returned::from_word(returned), Returned::Bytes(1..))
}

/// Next step of a sender that has sent ToTcp. The sender takes the step before its next byte on TCP, and before it
/// leaves the socket to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owed {
    /// None: the sender owes nothing more.
    Nothing,
    /// Puts the first this many unread bytes of the VI on TCP, and then publishes that they are there.
    Drain(u64),
    /// Exchanges 0 for [`REFUSED`]. If the exchange fails, the sender calls [`owed`] again. If not, it owes
    /// nothing.
    Refuse,
    /// Waits: the receiver has revoked, and will answer. If the receiver dies or leaves before, the sender owes
    /// nothing. If the time limit expires, the sender refuses.
    Wait,
}

/// Returns the sender's next step. The caller loads `grant` before `returned`.
pub const fn owed(grant: Grant, returned: u64) -> Owed {
    match (Returned::from_word(returned), grant) {
        (Returned::Refused | Returned::Bytes(0), _) => Owed::Nothing,
        (Returned::Bytes(n), _) => Owed::Drain(n),
        (Returned::Not, Grant::Revoked) => Owed::Wait,
        (Returned::Not, _) => Owed::Refuse,
    }
}

/// Result of a fallback's look at a revoked VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// ToTcp: the sender continues on TCP.
    ToTcp,
    /// FIN, or the sender's death and all bytes that it had put on the VI. No more bytes come, and there is no
    /// sender that could drain.
    Ended,
    /// Neither, and the time limit has expired. The sender lives and does not answer. More bytes may come.
    Impatient,
}

/// Fate of the bytes that the program has not read. They stay on the VI in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// There are none. The kernel has the rest of the stream.
    Plain,
    /// They are returned. Reading continues on TCP ([`Rx::Back`]).
    Returned,
    /// They are not returned: the fallback has failed. Reading continues as if there had been no fallback.
    Kept,
}

/// Returns the word by which a fallback replaces 0 in the returned word, by compare-exchange. `unread` is the
/// number of unread bytes on the VI.
pub const fn answer(seen: Seen, unread: u64) -> u64 {
    match seen {
        Seen::ToTcp => returned_word(unread),
        Seen::Ended | Seen::Impatient => returned_word(0),
    }
}

/// Returns the fate of the unread bytes after this exchange. `found` is the word that was there before. Another
/// thread may already have returned the same bytes without finishing the fallback.
pub const fn rest(seen: Seen, unread: u64, found: u64) -> Rest {
    match (seen, unread, Returned::from_word(found)) {
        (Seen::ToTcp | Seen::Ended, 0, _) => Rest::Plain,
        (Seen::ToTcp, _, Returned::Not) => Rest::Returned,
        (Seen::ToTcp, n, Returned::Bytes(m)) if n == m => Rest::Returned,
        _ => Rest::Kept,
    }
}
