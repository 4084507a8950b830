//! Where a direction of a stream runs, and how it moves.
//!
//! A stream starts on the kernel's TCP connection (its anchor). Once both ends hold a VI for it:
//!
//! 1. the receiver **grants** the VI, when the program itself reads from or waits on the socket;
//! 2. the sender sees the grant before its next byte and **switches**: it publishes the number `n`
//!    of bytes that it has put on TCP, and sends everything from byte `n` on over the VI;
//! 3. the receiver reads TCP up to byte `n`, then **enters** the VI and says so;
//! 4. going back, the sender ends the VI's part by a ToTcp packet, but only after the receiver has
//!    entered: else TCP's bytes from before and after could meet in one read;
//! 5. the receiver is back when it has read up to that packet. A direction goes there and back once.
//!
//! # Retreats
//!
//! A process that must let the kernel have the socket for good, before an exec say, takes both
//! directions back, and what its program has not read by then has to come out of the kernel.
//!
//! As a receiver it **revokes** the direction, and claims a switch that it has not entered
//! ([`revoke`]): then the sender does not take it back, but ends the VI's part. A receiver that has claimed it still
//! reads TCP up to the switch first. The retreat takes nothing off the VI. It looks at what lies
//! there until it sees ToTcp, and **returns** the bytes before it by saying how many they are; the
//! sender **drains** so many to TCP, from where they lie, before any newer byte. From then on they are
//! read from TCP. They stay on the VI all the same: if TCP ends before all are drained, a reader
//! passes over those that TCP has brought and finds the others there ([`rescue`]). So the sender may
//! close, or die, while it drains, and neither end has a copy to look after.
//!
//! Where nothing can be returned, because the sender has refused, finished or died, or does not
//! answer, the retreat has failed, and ordinary reading goes on: TCP up to the switch, the VI, TCP. A
//! relay can do that for a program that cannot.
//!
//! Every step of a receiver's retreat leaves the direction so that it can be begun anew, by any
//! thread that shares it. Others may read on meanwhile, wherever the next bytes are; one that comes to
//! ToTcp answers the sender. Only, none of a retreat's steps is taken in the middle of another thread's read,
//! and what has been returned is not read on the VI: one lock is held over looking and returning, and
//! over looking at the switch and reading TCP.
//!
//! As a sender it ends the VI's part, or takes back a switch that is not claimed. It **owes**
//! from then on what the receiver may return, and settles that ([`owed`]) before its next byte on
//! TCP, or else at the very end, when its other direction is back. Not before: so two ends that
//! retreat at the same time find each other's revoke, and drain for each other. A receiver that has
//! not revoked by then is **refused**; it keeps its bytes, and reads on where they lie.
//!
//! No kill loses a byte that a send has accepted. A sender that is stopped for ever over taking its
//! bytes back, or over draining, delays them.
//!
//! Here are the decisions; the shared words are passed in and out. `tests/paths` checks every
//! interleaving of two ends that decide by them.
//!
//! Where the ends share no memory, NICs carry the words between two segments: [`event`] says what is told
//! and in which order, [`reflected`] what the receiver awaits.

pub mod event;
mod fallback;
pub mod reflected;
#[cfg(test)]
mod tests;
mod words;

pub use fallback::{
    Await, Owed, Rest, Revoke, Seen, answer, awaits_drain, on_tcp, owed, rest, revoke, revokes,
};
pub use words::{
    CANCELLED, ENTERED, Grant, REFUSED, Returned, Rx, Switch, Tx, returned_word, switch_word,
};

/// What a receiver that has granted the VI reads from next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// TCP; the sender has not switched, so everything there comes before anything on the VI.
    Tcp,
    /// At most that many bytes from TCP.
    TcpUpTo(u64),
    /// The VI: enter it. A switch that has been claimed ([`Switch::Entered`]) is entered without
    /// an exchange, and without a word in the grant: that says [`Grant::Revoked`].
    Vi,
    /// The published switch lies before what has been read already.
    Impossible,
}

/// Steps 2 and 3, for the receiver: `switch` is the sender's word, `read` what has been read from
/// TCP in this direction so far.
///
/// What TCP says after this look is to be believed only if it is bytes. At "nothing yet", at the
/// end and at an error look again: the sender may have switched, sent and closed in between.
pub const fn source(switch: u64, read: u64) -> Source {
    match switch {
        0 | CANCELLED => Source::Tcp,
        word => {
            let n = (word & !ENTERED).saturating_sub(1);
            if read < n {
                Source::TcpUpTo(n - read)
            } else if read == n {
                Source::Vi
            } else {
                Source::Impossible
            }
        }
    }
}

/// What a receiver does when TCP has ended, and the sender has not said that all is there that it
/// was to put there: it has died or closed over that, and the rest lies on the VI. Then the receiver
/// reads the VI (again), and passes over those bytes there that it has had from TCP, so many, or as
/// many as there are. That concerns
/// - a switch that was taken back (`taken_back` once all its bytes are on TCP);
/// - bytes that have been returned (`drained` once they are all on TCP).
///
/// `from` is the byte of the switch, `read` what has been read from TCP.
pub const fn rescue(
    rx: Rx,
    switch: u64,
    taken_back: bool,
    returned: u64,
    drained: bool,
    from: u64,
    read: u64,
) -> Option<u64> {
    let missing = match (rx, Switch::from_word(switch)) {
        (Rx::Granted, Switch::Cancelled) => !taken_back,
        (Rx::Back, Switch::Entered(_)) => awaits_drain(returned, drained),
        _ => false,
    };
    if missing { Some(read.saturating_sub(from)) } else { None }
}

/// What a sender does first for its next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Puts them on TCP.
    Tcp,
    /// Switches, and looks again ([`keeps_switch`]).
    Switch,
    /// Puts them on the VI.
    Vi,
    /// Answers the revoke: ends the VI's part with ToTcp.
    Answer,
    /// Settles what it owes ([`owed`]), and looks again.
    Settle,
}

/// Step 2 and the answer to a revoke, for a sender that is about to send. `owes` is set from ToTcp
/// until it is clear that nothing is left to be drained.
pub const fn before_send(tx: Tx, grant: Grant, owes: bool) -> Before {
    match (tx, grant) {
        (Tx::Tcp, Grant::Granted) => Before::Switch,
        (Tx::Vi, Grant::Revoked) => Before::Answer,
        (Tx::Vi, _) => Before::Vi,
        (Tx::Back, _) if owes => Before::Settle,
        _ => Before::Tcp,
    }
}

/// The second look at the grant, after a full fence behind the published switch. False: the
/// receiver may have revoked before it could see the switch, which must be taken back by
/// compare-exchange; if that fails the receiver has entered, and the switch stands.
pub const fn keeps_switch(grant: Grant) -> bool {
    !matches!(grant, Grant::Revoked)
}

/// How a sender that retreats by itself leaves the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Nothing needs to be said.
    Quietly,
    /// Exchanges this word for [`CANCELLED`], then puts the VI's bytes on TCP; if the exchange
    /// fails the receiver has just entered, and it is [`Leave::End`].
    Cancel(u64),
    /// Sends ToTcp, and owes ([`owed`]).
    End,
}

/// Step 4, for the sender. After a FIN the stream ends on the VI: its anchor takes no more bytes.
///
/// A receiver that has not entered is to see nothing of the VI, since a call of its may be about to read on TCP what is
/// sent next. One that has shut both halves (`is_shut`) enters whenever it likes: nothing comes next, and TCP would
/// reset the connection for what is put there.
pub const fn leave(tx: Tx, switch: u64, fin_sent: bool, is_shut: bool) -> Leave {
    match (tx, Switch::from_word(switch)) {
        (Tx::Vi, Switch::At(_)) if !fin_sent && is_shut => Leave::End,
        (Tx::Vi, Switch::At(_)) if !fin_sent => Leave::Cancel(switch),
        (Tx::Vi, Switch::Entered(_)) if !fin_sent => Leave::End,
        _ => Leave::Quietly,
    }
}
