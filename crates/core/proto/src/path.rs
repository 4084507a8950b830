//! The path of each direction of a stream: kernel TCP or the VI, and the change between the two.
//!
//! A stream starts on its kernel socket. Once both ends have a VI for the stream, each direction takes these steps:
//!
//! 1. The receiver **grants** the VI when its program reads from the socket or waits on it.
//! 2. The sender sees the grant before its next byte and **switches**. It publishes `n`, the number of bytes that
//!    it has put on TCP. It sends everything from byte `n` on over the VI.
//! 3. The receiver reads TCP up to byte `n`. Then it **enters** the VI, and publishes that it has entered.
//! 4. To go back to TCP, the sender ends the VI's part with a ToTcp packet. It does so only after the receiver has
//!    entered. Otherwise one read could return bytes of TCP from before the switch and from after ToTcp.
//! 5. The receiver is back on TCP when it has read up to ToTcp.
//!
//! A direction moves to the VI and back at most once.
//!
//! # Fallback
//!
//! A process sometimes has to leave the socket to the kernel for good, for example before an exec. It then moves
//! both directions back to TCP. All bytes that its program has not read by then must come from the kernel.
//!
//! **As a receiver**, the process **revokes** the direction. If it has not entered a switch, it claims the switch
//! ([`revoke`]). Then the sender cannot take the switch back, and ends the VI's part instead. A receiver that has
//! claimed the switch still reads TCP up to the switch first.
//!
//! The fallback takes nothing off the VI. It looks at the VI's messages until it sees ToTcp. Then it **returns**
//! the bytes before ToTcp: it publishes their number. The sender **drains** that many bytes to TCP, from their
//! place on the VI, before any newer byte. From then on the receiver reads these bytes from TCP.
//!
//! The returned bytes also stay on the VI. TCP may end before the sender has drained all of them. Then a reader
//! skips the bytes that it has read from TCP, and reads the others on the VI ([`rescue`]). So the sender may close
//! or die while it drains, and neither end keeps a copy.
//!
//! Nothing can be returned if the sender has refused, has finished, has died or does not answer. Then the fallback
//! has failed, and ordinary reading goes on: TCP up to the switch, the VI, TCP. A relay can read so for a program
//! that cannot.
//!
//! After every step of a receiver's fallback, any thread that shares the direction can begin the fallback anew.
//! Other threads may read meanwhile, from TCP or the VI. A reader that comes to ToTcp answers the sender. Two rules
//! hold:
//!
//! - No step of a fallback is taken in the middle of another thread's read.
//! - No thread reads returned bytes on the VI while TCP may still bring them.
//!
//! To keep the rules, a thread holds one lock while it looks at the VI and returns bytes. It also holds this lock
//! while it looks at the switch and reads TCP.
//!
//! **As a sender**, the process ends the VI's part, or takes back a switch that the receiver has not claimed. From
//! then on the sender **owes** the bytes that the receiver may return. It settles this debt ([`owed`]) before its
//! next byte on TCP. If it sends nothing more, it settles the debt last, after its other direction is back. If two
//! ends fall back at the same time, each thus finds the other's revoke, and drains for the other. A receiver that
//! has not revoked by then is **refused**. A refused receiver keeps its bytes, and reads them where they lie.
//!
//! No kill loses a byte that a send has accepted. A sender that is stopped for ever, while it takes bytes back or
//! drains, delays these bytes for ever.
//!
//! The functions here decide only. Their callers load and store the shared words. `tests/paths` checks every
//! interleaving of two ends that decide by these functions.
//!
//! If the ends share no memory, NICs carry the words between two segments. [`event`] has the NICs' messages and
//! their order, and [`reflected`] has the states in which the receiver waits.

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

/// Next source of bytes for a receiver that has granted the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// TCP. The sender has not switched, so all bytes there come before any byte on the VI.
    Tcp,
    /// At most this many bytes from TCP.
    TcpUpTo(u64),
    /// The VI. The receiver enters it. If the switch has been claimed ([`Switch::Entered`]), the receiver enters
    /// without an exchange, and leaves [`Grant::Revoked`] in the grant word.
    Vi,
    /// None: the published switch lies before bytes that have already been read.
    Impossible,
}

/// Returns the source of the receiver's next bytes (steps 2 and 3). `switch` is the sender's word. `read` is the
/// number of bytes read from TCP in this direction.
///
/// After this call, the receiver may rely on TCP only if TCP returns bytes. If TCP is empty, has ended or reports
/// an error, the receiver must call again. The sender may have switched, sent and closed in between.
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

/// Returns `Some(n)` if the receiver must read the VI (again) at the end of TCP, and skip `n` bytes there. If the
/// VI has fewer bytes, the receiver skips all of them. It has already read the skipped bytes from TCP.
///
/// This happens if the sender died or closed before it had put all bytes on TCP. The rest lies on the VI. Two kinds
/// of bytes can be missing on TCP:
///
/// - bytes behind a switch that the sender took back (`taken_back` is true once all of them are on TCP)
/// - bytes that the receiver has returned (`drained` is true once all of them are on TCP)
///
/// `from` is the byte of the switch, and `read` the number of bytes read from TCP.
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

/// First step of a sender that has bytes to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Puts the bytes on TCP.
    Tcp,
    /// Switches, and then looks at the grant again ([`keeps_switch`]).
    Switch,
    /// Puts the bytes on the VI.
    Vi,
    /// Answers the revoke: ends the VI's part with ToTcp.
    Answer,
    /// Settles its debt ([`owed`]), and then calls [`before_send`] again.
    Settle,
}

/// Returns the first step of a sender that has bytes to send: step 2, or the answer to a revoke. `owes` is true
/// from ToTcp until nothing is left to drain.
pub const fn before_send(tx: Tx, grant: Grant, owes: bool) -> Before {
    match (tx, grant) {
        (Tx::Tcp, Grant::Granted) => Before::Switch,
        (Tx::Vi, Grant::Revoked) => Before::Answer,
        (Tx::Vi, _) => Before::Vi,
        (Tx::Back, _) if owes => Before::Settle,
        _ => Before::Tcp,
    }
}

/// Returns true if the switch may stand. The sender calls this with a second load of the grant, after it has
/// published the switch and executed a full fence.
///
/// If false, the receiver may have revoked before it could see the switch. Then the sender must take the switch
/// back by compare-exchange. If the exchange fails, the receiver has entered, and the switch stands.
pub const fn keeps_switch(grant: Grant) -> bool {
    !matches!(grant, Grant::Revoked)
}

/// Way in which a sender that falls back by itself leaves the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Publishes nothing.
    Quietly,
    /// Exchanges this word for [`CANCELLED`], then puts the VI's bytes on TCP. If the exchange fails, the receiver
    /// has just entered, and the sender continues with [`Leave::End`].
    Cancel(u64),
    /// Sends ToTcp. From then on the sender owes bytes ([`owed`]).
    End,
}

/// Returns the way in which the sender leaves the VI (step 4). After a FIN the stream ends on the VI, because the
/// kernel socket takes no more bytes.
///
/// A receiver that has not entered must see no byte of the VI. One of its calls may be about to read newer bytes on
/// TCP. A receiver that has shut both halves (`is_shut`) may enter at any time: nothing follows on TCP. TCP would
/// reset the connection if the sender put bytes there.
pub const fn leave(tx: Tx, switch: u64, fin_sent: bool, is_shut: bool) -> Leave {
    match (tx, Switch::from_word(switch)) {
        (Tx::Vi, Switch::At(_)) if !fin_sent && is_shut => Leave::End,
        (Tx::Vi, Switch::At(_)) if !fin_sent => Leave::Cancel(switch),
        (Tx::Vi, Switch::Entered(_)) if !fin_sent => Leave::End,
        _ => Leave::Quietly,
    }
}
