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
//! 5. the receiver **returns** when it reaches that packet. A direction goes there and back once.
//!
//! The receiver may ask for step 4 (**recall**), before an exec say. Then it reads the VI to its end
//! on the program's behalf and **returns** what the program has not had; the sender **pumps** those
//! bytes to TCP, in order, before any newer byte. A sender that goes its own way first **refuses**
//! to: then the receiver keeps them, and a relay hands them to whoever goes on reading.
//!
//! The receiver keeps a copy of what it has returned until all of it has come on TCP. If TCP ends
//! before, the rest comes from the copy: so a sender may close, or die, while it pumps.
//!
//! Once a send has returned, its bytes can be lost only if the sender is killed while it retreats
//! and the receiver, without having waited for it, has retreated, too. A sender that is stopped at
//! that point delays them.
//!
//! Here are the decisions; the shared words are passed in and out. `tests/paths` checks every
//! interleaving of two ends that decide by them.

/// The sender's side of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Tx {
    /// Bytes go to kernel TCP; the VI may still be granted.
    Tcp = 0,
    /// Bytes go to the VI.
    Vi = 1,
    /// Bytes go to kernel TCP for good.
    Back = 2,
}

/// The receiver's side of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Rx {
    /// Bytes come from kernel TCP; nothing has been granted.
    Tcp = 0,
    /// The VI is granted; bytes come from TCP up to the switch.
    Granted = 1,
    /// Bytes come from the VI.
    Vi = 2,
    /// Bytes come from kernel TCP for good.
    Back = 3,
}

impl Tx {
    /// From its number; anything unknown is [`Tx::Back`].
    pub const fn from_u32(n: u32) -> Tx {
        match n {
            0 => Tx::Tcp,
            1 => Tx::Vi,
            _ => Tx::Back,
        }
    }
}

impl Rx {
    /// From its number; anything unknown is [`Rx::Back`].
    pub const fn from_u32(n: u32) -> Rx {
        match n {
            0 => Rx::Tcp,
            1 => Rx::Granted,
            2 => Rx::Vi,
            _ => Rx::Back,
        }
    }
}

/// The receiver's published word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Grant {
    /// Not granted.
    None = 0,
    /// Granted: the sender may switch.
    Granted = 1,
    /// The receiver has read TCP up to the switch and now reads the VI.
    Entered = 2,
    /// The receiver wants the direction back on TCP.
    Recalled = 3,
}

impl Grant {
    /// From the shared word; anything unknown is [`Grant::None`].
    pub const fn from_word(word: u64) -> Grant {
        match word {
            1 => Grant::Granted,
            2 => Grant::Entered,
            3 => Grant::Recalled,
            _ => Grant::None,
        }
    }
}

/// The sender's switch word once it has taken the switch back.
pub const CANCELLED: u64 = u64::MAX;
/// Set in the switch word by a receiver that has entered.
pub const ENTERED: u64 = 1 << 63;

/// The sender's published word: 0 before the switch, then `n + 1`.
pub const fn switch_word(tcp_bytes: u64) -> u64 {
    tcp_bytes + 1
}

/// The switch word, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The sender is on TCP.
    Not,
    /// From that byte on the stream is on the VI; the receiver has not entered it.
    At(u64),
    /// Likewise, and the receiver has entered.
    Entered(u64),
    /// Taken back: the whole stream is on TCP, and stays there.
    Cancelled,
}

impl Switch {
    /// From the shared word.
    pub const fn from_word(word: u64) -> Switch {
        match word {
            0 => Switch::Not,
            CANCELLED => Switch::Cancelled,
            _ if word & ENTERED != 0 => Switch::Entered((word & !ENTERED).saturating_sub(1)),
            _ => Switch::At(word - 1),
        }
    }
}

/// What a receiver that has granted the VI reads from next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// TCP; the sender has not switched, so everything there comes before anything on the VI.
    Tcp,
    /// At most that many bytes from TCP.
    TcpUpTo(u64),
    /// The VI: enter it.
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

/// What a receiver does when TCP has ended although the switch was taken back, and the sender has
/// not said that the bytes taken back are all on TCP: it has died over that, and they are still on
/// the VI. Then the receiver enters after all, and passes over those that it has had from TCP, so
/// many; `from` is the byte of the switch.
pub const fn rescue(rx: Rx, switch: u64, taken_back: bool, from: u64, read: u64) -> Option<u64> {
    match (rx, Switch::from_word(switch)) {
        (Rx::Granted, Switch::Cancelled) if !taken_back => Some(read.saturating_sub(from)),
        _ => None,
    }
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
    /// Answers the recall: ends the VI's part with ToTcp.
    Answer,
    /// Sees what the receiver has returned ([`Returned::owed`]).
    Returned,
}

/// Step 2 and the answer to a recall, for a sender that is about to send. `owes` is set from the
/// answer until the returned bytes have been pumped.
pub const fn before_send(tx: Tx, grant: Grant, owes: bool) -> Before {
    match (tx, grant) {
        (Tx::Tcp, Grant::Granted) => Before::Switch,
        (Tx::Vi, Grant::Recalled) => Before::Answer,
        (Tx::Vi, _) => Before::Vi,
        (Tx::Back, _) if owes => Before::Returned,
        _ => Before::Tcp,
    }
}

/// The second look at the grant, after a full fence behind the published switch. False: the
/// receiver may have recalled before it could see the switch, which must be taken back by
/// compare-exchange; if that fails the receiver has entered, and the switch stands.
pub const fn keeps_switch(grant: Grant) -> bool {
    !matches!(grant, Grant::Recalled)
}

/// How a sender that retreats by itself leaves the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Nothing needs to be said.
    Quietly,
    /// Exchanges this word for [`CANCELLED`], then puts the VI's bytes on TCP; if the exchange
    /// fails the receiver has just entered, and it is [`Leave::End`].
    Cancel(u64),
    /// Refuses to pump ([`REFUSED`]), then sends ToTcp.
    End,
}

/// Step 4, for the sender. After a FIN the stream ends on the VI: its anchor takes no more bytes.
pub const fn leave(tx: Tx, switch: u64, fin_sent: bool) -> Leave {
    match (tx, Switch::from_word(switch)) {
        (Tx::Vi, Switch::At(_)) if !fin_sent => Leave::Cancel(switch),
        (Tx::Vi, Switch::Entered(_)) if !fin_sent => Leave::End,
        _ => Leave::Quietly,
    }
}

/// What a receiver that has recalled does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recall {
    /// The direction is on TCP, and will stay there.
    Nothing,
    /// Enters by exchanging this word for itself with [`ENTERED`], then drains; if the exchange
    /// fails the sender has taken the switch back, and there is nothing on the VI.
    Enter(u64),
    /// Reads the VI to its end.
    Drain,
}

/// A recall's look at the switch, after a full fence behind the published [`Grant::Recalled`].
pub const fn recall(rx: Rx, switch: u64) -> Recall {
    match (rx, Switch::from_word(switch)) {
        (Rx::Tcp | Rx::Back, _) | (_, Switch::Not | Switch::Cancelled) => Recall::Nothing,
        (_, Switch::At(_)) => Recall::Enter(switch),
        (_, Switch::Entered(_)) => Recall::Drain,
    }
}

/// The returned word of a sender that will not pump. Both ends leave 0 by compare-exchange, so
/// either the sender pumps or the receiver keeps the bytes, never both or neither.
pub const REFUSED: u64 = u64::MAX;

/// The returned word, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Returned {
    /// Neither end has said anything.
    Not,
    /// The receiver has returned that many bytes (0: it keeps them, if there were any).
    Bytes(u64),
    /// The sender has gone its own way.
    Refused,
}

impl Returned {
    /// From the shared word.
    pub const fn from_word(word: u64) -> Returned {
        match word {
            0 => Returned::Not,
            REFUSED => Returned::Refused,
            _ => Returned::Bytes(word - 1),
        }
    }

    /// What a sender that has answered a recall must put on TCP before anything newer; `None`
    /// while it has to wait for that.
    pub const fn owed(self) -> Option<u64> {
        match self {
            Returned::Not => None,
            Returned::Bytes(n) => Some(n),
            Returned::Refused => Some(0),
        }
    }
}

/// The returned word for that many bytes.
pub const fn returned_word(bytes: u64) -> u64 {
    bytes + 1
}

/// How draining a recalled VI came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Drained {
    /// By ToTcp: the sender goes on on TCP.
    ToTcp,
    /// By FIN, or by the sender's death: nothing comes after, and nobody is there to pump.
    Ended,
    /// By the receiver's patience: the sender lives and does not answer; more may come.
    Impatient,
}

/// What becomes of the bytes that the program has not had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// There are none: the kernel has the rest of the stream.
    Plain,
    /// They are returned; if the sender has refused: [`Rest::Relay`] (none: [`Rest::Plain`]).
    Return,
    /// A relay hands on: TCP up to the switch, then they, then the rest of the VI and of TCP.
    Relay,
}

/// After draining, with so many bytes unread, and `room` for those that are returned.
pub const fn after_drain(drained: Drained, unread: u64, room: u64) -> Rest {
    match (drained, unread) {
        (Drained::ToTcp, n) if n <= room => Rest::Return,
        (Drained::Ended, 0) => Rest::Plain,
        _ => Rest::Relay,
    }
}

/// Returned bytes that a sender has not pumped before it died: TCP, read to its end, has brought
/// `read` bytes in all, those up to the switch and a part of the returned ones.
pub const fn not_pumped(switch: u64, read: u64, returned: u64) -> u64 {
    match Switch::from_word(switch) {
        Switch::At(n) | Switch::Entered(n) => returned.saturating_sub(read.saturating_sub(n)),
        Switch::Not | Switch::Cancelled => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_reads_tcp_up_to_the_switch_and_no_further() {
        assert_eq!(source(0, 5), Source::Tcp);
        assert_eq!(source(CANCELLED, 5), Source::Tcp);
        assert_eq!(source(switch_word(7), 5), Source::TcpUpTo(2));
        assert_eq!(source(switch_word(5), 5), Source::Vi);
        assert_eq!(source(switch_word(4), 5), Source::Impossible);
    }

    #[test]
    fn words_are_taken_apart_as_they_were_put_together() {
        assert_eq!(Switch::from_word(0), Switch::Not);
        assert_eq!(Switch::from_word(switch_word(0)), Switch::At(0));
        assert_eq!(Switch::from_word(switch_word(9) | ENTERED), Switch::Entered(9));
        assert_eq!(Switch::from_word(CANCELLED), Switch::Cancelled);
        assert_eq!(Switch::from_word(ENTERED), Switch::Entered(0), "nonsense, and no panic");
        assert_eq!(Returned::from_word(0).owed(), None);
        assert_eq!(Returned::from_word(returned_word(3)).owed(), Some(3));
        assert_eq!(Returned::from_word(REFUSED).owed(), Some(0));
    }

    #[test]
    fn a_sender_that_leaves_cancels_only_what_nobody_has_entered() {
        assert_eq!(leave(Tx::Vi, switch_word(3), false), Leave::Cancel(switch_word(3)));
        assert_eq!(leave(Tx::Vi, switch_word(3) | ENTERED, false), Leave::End);
        assert_eq!(leave(Tx::Vi, switch_word(3), true), Leave::Quietly);
        assert_eq!(leave(Tx::Tcp, 0, false), Leave::Quietly);
    }

    #[test]
    fn what_was_not_pumped_is_what_tcp_did_not_bring() {
        let word = switch_word(10) | ENTERED;
        assert_eq!(not_pumped(word, 10, 4), 4);
        assert_eq!(not_pumped(word, 13, 4), 1);
        assert_eq!(not_pumped(word, 20, 4), 0);
        assert_eq!(rescue(Rx::Granted, CANCELLED, false, 10, 13), Some(3));
        assert_eq!(rescue(Rx::Granted, CANCELLED, true, 10, 13), None);
    }
}
