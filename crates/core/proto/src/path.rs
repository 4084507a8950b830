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
//! As a receiver it **recalls** the direction, and claims a switch that it has not entered
//! ([`recall`]): then the sender does not take it back, but ends the VI's part. A receiver that has claimed it still
//! reads TCP up to the switch first. The retreat takes nothing off the VI. It looks at what lies
//! there until it sees ToTcp, and **returns** the bytes before it by saying how many they are; the
//! sender **pumps** so many to TCP, from where they lie, before any newer byte. From then on they are
//! read from TCP. They stay on the VI all the same: if TCP ends before all are pumped, a reader
//! passes over those that TCP has brought and finds the others there ([`rescue`]). So the sender may
//! close, or die, while it pumps, and neither end has a copy to look after.
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
//! retreat at the same time find each other's recall, and pump for each other. A receiver that has
//! not recalled by then is **refused**; it keeps its bytes, and reads on where they lie.
//!
//! No kill loses a byte that a send has accepted. A sender that is stopped for ever over taking its
//! bytes back, or over pumping, delays them.
//!
//! Here are the decisions; the shared words are passed in and out. `tests/paths` checks every
//! interleaving of two ends that decide by them.
//!
//! Where the ends share no memory, NICs carry the words between two segments: [`event`] says what is told
//! and in which order, [`reflected`] what the receiver awaits.

pub mod event;
pub mod reflected;

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
    /// Bytes come from kernel TCP, for good unless they are returned ones ([`rescue`]).
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
/// Set in the switch word by a receiver that has entered, or whose retreat has claimed it.
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
    /// Likewise, and the receiver has entered, or its retreat has claimed the switch.
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
    /// The VI: enter it. A switch that has been claimed ([`Switch::Entered`]) is entered without
    /// an exchange, and without a word in the grant: that says [`Grant::Recalled`].
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
/// - bytes that have been returned (`pumped` once they are all on TCP).
///
/// `from` is the byte of the switch, `read` what has been read from TCP.
pub const fn rescue(
    rx: Rx,
    switch: u64,
    taken_back: bool,
    returned: u64,
    pumped: bool,
    from: u64,
    read: u64,
) -> Option<u64> {
    let missing = match (rx, Switch::from_word(switch)) {
        (Rx::Granted, Switch::Cancelled) => !taken_back,
        (Rx::Back, Switch::Entered(_)) => awaits_pump(returned, pumped),
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
    /// Answers the recall: ends the VI's part with ToTcp.
    Answer,
    /// Settles what it owes ([`owed`]), and looks again.
    Settle,
}

/// Step 2 and the answer to a recall, for a sender that is about to send. `owes` is set from ToTcp
/// until it is clear that nothing is left to be pumped.
pub const fn before_send(tx: Tx, grant: Grant, owes: bool) -> Before {
    match (tx, grant) {
        (Tx::Tcp, Grant::Granted) => Before::Switch,
        (Tx::Vi, Grant::Recalled) => Before::Answer,
        (Tx::Vi, _) => Before::Vi,
        (Tx::Back, _) if owes => Before::Settle,
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
    /// Sends ToTcp, and owes ([`owed`]).
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

/// Whether a retreat has anything to recall. On TCP it must not: a sender that still owes, and finds
/// the recall, would wait for an answer that never comes.
pub const fn recalls(rx: Rx) -> bool {
    matches!(rx, Rx::Granted | Rx::Vi)
}

/// What a receiver that has recalled does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recall {
    /// The direction is on TCP, or will be ([`on_tcp`]).
    Nothing,
    /// Claims the switch by exchanging this word for itself with [`ENTERED`]; if the exchange fails
    /// it looks again. Where TCP has not been read up to the switch ([`Rx::Granted`]) that is still
    /// what comes first.
    Enter(u64),
    /// Looks at what lies on the VI ([`answer`]).
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
    Pumped,
}

/// After [`Recall::Nothing`], and for a retreat that does not recall ([`recalls`]).
pub const fn on_tcp(rx: Rx, switch: u64, taken_back: bool, returned: u64, pumped: bool) -> Await {
    match (rx, Switch::from_word(switch)) {
        (Rx::Granted | Rx::Vi, Switch::Cancelled) if !taken_back => Await::TakenBack,
        (Rx::Back, _) if awaits_pump(returned, pumped) => Await::Pumped,
        _ => Await::Nothing,
    }
}

/// The returned word of a sender that will not pump. Both ends leave 0 by compare-exchange, so
/// either the sender pumps or the receiver reads on from the VI, never both or neither.
pub const REFUSED: u64 = u64::MAX;

/// The returned word, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Returned {
    /// Neither end has published anything.
    Not,
    /// The receiver has returned that many bytes (0: it reads on from the VI, if there are any).
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
}

/// The returned word for that many bytes.
pub const fn returned_word(bytes: u64) -> u64 {
    bytes + 1
}

/// Whether returned bytes may still lack on TCP.
pub const fn awaits_pump(returned: u64, pumped: bool) -> bool {
    !pumped && matches!(Returned::from_word(returned), Returned::Bytes(1..))
}

/// What a sender that has sent ToTcp does before its next byte on TCP, and before it lets the kernel
/// have the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owed {
    /// It owes nothing any more.
    Nothing,
    /// It puts the first so many of the bytes that lie unread on the VI on TCP, and then says that
    /// they are there.
    Pump(u64),
    /// It exchanges 0 for [`REFUSED`]. If that fails it looks again; else it owes nothing.
    Refuse,
    /// The receiver has recalled, and will answer. If it dies or leaves before, nothing is owed; if
    /// patience is over the sender refuses.
    Wait,
}

/// By the grant, looked at first, and the returned word.
pub const fn owed(grant: Grant, returned: u64) -> Owed {
    match (Returned::from_word(returned), grant) {
        (Returned::Refused | Returned::Bytes(0), _) => Owed::Nothing,
        (Returned::Bytes(n), _) => Owed::Pump(n),
        (Returned::Not, Grant::Recalled) => Owed::Wait,
        (Returned::Not, _) => Owed::Refuse,
    }
}

/// What a retreat that looked at a recalled VI has come to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// ToTcp: the sender goes on on TCP.
    ToTcp,
    /// FIN, or the sender's death, and what lay on the VI after that: nothing comes any more, and
    /// there is no sender to pump.
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
        assert_eq!(source(switch_word(7) | ENTERED, 5), Source::TcpUpTo(2));
        assert_eq!(source(switch_word(5) | ENTERED, 5), Source::Vi);
        assert_eq!(source(ENTERED, 5), Source::Impossible, "nonsense, and no panic");
    }

    #[test]
    fn words_are_taken_apart_as_they_were_put_together() {
        assert_eq!(Switch::from_word(0), Switch::Not);
        assert_eq!(Switch::from_word(switch_word(0)), Switch::At(0));
        assert_eq!(Switch::from_word(switch_word(9) | ENTERED), Switch::Entered(9));
        assert_eq!(Switch::from_word(CANCELLED), Switch::Cancelled);
        assert_eq!(Switch::from_word(ENTERED), Switch::Entered(0), "nonsense, and no panic");
        assert_eq!(Returned::from_word(0), Returned::Not);
        assert_eq!(Returned::from_word(returned_word(3)), Returned::Bytes(3));
        assert_eq!(Returned::from_word(REFUSED), Returned::Refused);
    }

    #[test]
    fn a_sender_that_leaves_cancels_only_a_switch_that_is_not_entered() {
        assert_eq!(leave(Tx::Vi, switch_word(3), false), Leave::Cancel(switch_word(3)));
        assert_eq!(leave(Tx::Vi, switch_word(3) | ENTERED, false), Leave::End);
        assert_eq!(leave(Tx::Vi, switch_word(3), true), Leave::Quietly);
        assert_eq!(leave(Tx::Tcp, 0, false), Leave::Quietly);
    }

    #[test]
    fn a_sender_refuses_only_a_receiver_that_has_not_recalled() {
        assert_eq!(owed(Grant::Entered, 0), Owed::Refuse);
        assert_eq!(owed(Grant::Recalled, 0), Owed::Wait);
        assert_eq!(owed(Grant::Recalled, returned_word(0)), Owed::Nothing);
        assert_eq!(owed(Grant::Entered, returned_word(3)), Owed::Pump(3));
        assert_eq!(owed(Grant::Recalled, REFUSED), Owed::Nothing);
    }

    #[test]
    fn a_retreat_returns_what_it_sees_before_to_tcp_and_that_once() {
        assert_eq!(answer(Seen::ToTcp, 3), returned_word(3));
        assert_eq!(answer(Seen::Ended, 3), returned_word(0));
        assert_eq!(answer(Seen::Impatient, 3), returned_word(0));
        assert_eq!(rest(Seen::ToTcp, 3, 0), Rest::Returned);
        assert_eq!(rest(Seen::ToTcp, 3, returned_word(3)), Rest::Returned);
        assert_eq!(rest(Seen::ToTcp, 2, returned_word(3)), Rest::Kept, "a part has come on TCP");
        assert_eq!(rest(Seen::ToTcp, 3, REFUSED), Rest::Kept);
        assert_eq!(rest(Seen::ToTcp, 0, REFUSED), Rest::Plain);
        assert_eq!(rest(Seen::Ended, 3, 0), Rest::Kept);
        assert_eq!(rest(Seen::Ended, 0, 0), Rest::Plain);
        assert_eq!(rest(Seen::Impatient, 0, 0), Rest::Kept, "more may come");
    }

    #[test]
    fn a_retreat_waits_for_what_the_sender_is_putting_on_tcp() {
        let entered = switch_word(3) | ENTERED;
        assert_eq!(on_tcp(Rx::Granted, 0, false, 0, false), Await::Nothing);
        assert_eq!(on_tcp(Rx::Granted, CANCELLED, false, 0, false), Await::TakenBack);
        assert_eq!(on_tcp(Rx::Vi, CANCELLED, false, 0, false), Await::TakenBack, "rescued");
        assert_eq!(on_tcp(Rx::Granted, CANCELLED, true, 0, false), Await::Nothing);
        assert_eq!(on_tcp(Rx::Back, entered, false, returned_word(2), false), Await::Pumped);
        assert_eq!(on_tcp(Rx::Back, entered, false, returned_word(2), true), Await::Nothing);
        assert_eq!(on_tcp(Rx::Back, entered, false, returned_word(0), false), Await::Nothing);
        assert_eq!(on_tcp(Rx::Back, entered, false, REFUSED, false), Await::Nothing);
        assert!(recalls(Rx::Vi) && recalls(Rx::Granted));
        assert!(!recalls(Rx::Back) && !recalls(Rx::Tcp));
    }

    #[test]
    fn what_tcp_did_not_bring_is_found_on_the_vi() {
        let taken = |taken_back| rescue(Rx::Granted, CANCELLED, taken_back, 0, false, 10, 13);
        assert_eq!(taken(false), Some(3));
        assert_eq!(taken(true), None);
        let entered = switch_word(10) | ENTERED;
        let returned = |word, pumped| rescue(Rx::Back, entered, false, word, pumped, 10, 13);
        assert_eq!(returned(returned_word(4), false), Some(3));
        assert_eq!(returned(returned_word(4), true), None);
        assert_eq!(returned(returned_word(0), false), None);
        assert_eq!(returned(REFUSED, false), None);
        assert_eq!(rescue(Rx::Vi, entered, false, returned_word(4), false, 10, 13), None);
    }
}
