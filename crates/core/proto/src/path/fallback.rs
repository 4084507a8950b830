//! The decisions of a retreat: what a receiver revokes, awaits and returns, and what a sender owes it.

#[cfg(doc)]
use super::{ENTERED, REFUSED};
use super::{Grant, Returned, Rx, Switch, returned_word};

/// Whether a retreat has anything to revoke. On TCP it must not: a sender that still owes, and finds
/// the revoke, would wait for an answer that never comes.
pub const fn revokes(rx: Rx) -> bool {
    matches!(rx, Rx::Granted | Rx::Vi)
}

/// What a receiver that has revoked does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoke {
    /// The direction is on TCP, or will be ([`on_tcp`]).
    Nothing,
    /// Claims the switch by exchanging this word for itself with [`ENTERED`]; if the exchange fails
    /// it looks again. Where TCP has not been read up to the switch ([`Rx::Granted`]) that is still
    /// what comes first.
    Enter(u64),
    /// Looks at what lies on the VI ([`answer`]).
    Drain,
}

/// A revoke's look at the switch, after a full fence behind the published [`Grant::Revoked`].
pub const fn revoke(rx: Rx, switch: u64) -> Revoke {
    match (rx, Switch::from_word(switch)) {
        (Rx::Tcp | Rx::Back, _) | (_, Switch::Not | Switch::Cancelled) => Revoke::Nothing,
        (_, Switch::At(_)) => Revoke::Enter(switch),
        (_, Switch::Entered(_)) => Revoke::Drain,
    }
}

/// What a retreat waits for that has nothing to look for on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Await {
    /// The kernel has, or will get, the rest of the stream.
    Nothing,
    /// The sender puts on TCP what it has taken back. At TCP's end, and when patience is over, the
    /// retreat has failed, and reading goes on.
    TakenBack,
    /// The sender puts on TCP what has been returned. Meanwhile any thread may read; at TCP's end, and
    /// when patience is over, that is how it goes on.
    Drained,
}

/// After [`Revoke::Nothing`], and for a retreat that does not revoke ([`revokes`]).
pub const fn on_tcp(rx: Rx, switch: u64, taken_back: bool, returned: u64, drained: bool) -> Await {
    match (rx, Switch::from_word(switch)) {
        (Rx::Granted | Rx::Vi, Switch::Cancelled) if !taken_back => Await::TakenBack,
        (Rx::Back, _) if awaits_drain(returned, drained) => Await::Drained,
        _ => Await::Nothing,
    }
}

/// Whether returned bytes may still lack on TCP.
pub const fn awaits_drain(returned: u64, drained: bool) -> bool {
    !drained && matches!(Returned::from_word(returned), Returned::Bytes(1..))
}

/// What a sender that has sent ToTcp does before its next byte on TCP, and before it lets the kernel
/// have the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owed {
    /// It owes nothing any more.
    Nothing,
    /// It puts the first so many of the bytes that lie unread on the VI on TCP, and then says that
    /// they are there.
    Drain(u64),
    /// It exchanges 0 for [`REFUSED`]. If that fails it looks again; else it owes nothing.
    Refuse,
    /// The receiver has revoked, and will answer. If it dies or leaves before, nothing is owed; if
    /// patience is over the sender refuses.
    Wait,
}

/// By the grant, looked at first, and the returned word.
pub const fn owed(grant: Grant, returned: u64) -> Owed {
    match (Returned::from_word(returned), grant) {
        (Returned::Refused | Returned::Bytes(0), _) => Owed::Nothing,
        (Returned::Bytes(n), _) => Owed::Drain(n),
        (Returned::Not, Grant::Revoked) => Owed::Wait,
        (Returned::Not, _) => Owed::Refuse,
    }
}

/// What a retreat that looked at a revoked VI has come to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// ToTcp: the sender goes on on TCP.
    ToTcp,
    /// FIN, or the sender's death, and what lay on the VI after that: nothing comes any more, and
    /// there is no sender to drain.
    Ended,
    /// Nothing, and its patience is over: the sender lives and does not answer; more may come.
    Impatient,
}

/// What becomes of the bytes that the program has not had. Their part of the VI stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// There are none: the kernel has the rest of the stream.
    Plain,
    /// They are returned: reading goes on from TCP ([`Rx::Back`]).
    Returned,
    /// Reading goes on as if nothing had been: the retreat has failed.
    Kept,
}

/// The word that a retreat puts in the place of 0 by compare-exchange, with so many bytes unread.
pub const fn answer(seen: Seen, unread: u64) -> u64 {
    match seen {
        Seen::ToTcp => returned_word(unread),
        Seen::Ended | Seen::Impatient => returned_word(0),
    }
}

/// After that; `found` is the word that was there. The same bytes may have been returned already, by
/// a thread that has not come to the end of it.
pub const fn rest(seen: Seen, unread: u64, found: u64) -> Rest {
    match (seen, unread, Returned::from_word(found)) {
        (Seen::ToTcp | Seen::Ended, 0, _) => Rest::Plain,
        (Seen::ToTcp, _, Returned::Not) => Rest::Returned,
        (Seen::ToTcp, n, Returned::Bytes(m)) if n == m => Rest::Returned,
        _ => Rest::Kept,
    }
}
