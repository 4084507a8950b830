//! What the receiver of a direction decides where its segment is not the sender's: two NICs reflect
//! the sender's segment and the receiver's to each other ([`super::event`]).
//!
//! Both words that two ends change, the switch and the returned word, stand in the sender's segment,
//! and there they are decided. So the sender goes by [`super`], as on shared memory, with one
//! difference: see [`answers`]. The receiver sees the words as they stood some time ago. Where on shared
//! memory it exchanges a word, or looks at one after a fence, it asks here, in a word of its own, and
//! awaits what the NIC at the sender's segment has found:
//!
//! - It **claims** the switch, and awaits that the switch word says [`Switch::Entered`] or
//!   [`Switch::Cancelled`]. From its first look at the switch on it reads TCP up to there and no
//!   further. Only the receiver may claim, under the lock that it holds over looking and reading
//!   TCP: a NIC that claimed by itself would let a sender that goes back put newer bytes
//!   on TCP, which the receiver reads together with the older ones before it hears of the switch.
//! - It revokes, and awaits the word `confirmed`: the revoke stands in the sender's segment, and the
//!   switch that stood there after that is here.
//! - It proposes what it returns, in the returned word of its own segment, and awaits the `verdict`: the
//!   returned word of the sender's. Until then its readers take nothing, neither off the VI nor off TCP.
//!
//! The end of the anchor travels on TCP and may overtake all of this. It is the end of the stream
//! only once the word `gone` has come: the sender publishes nothing more in this direction, and all
//! that it had published is here. From then on nothing is awaited: what is not decided
//! here the sender has not seen, and will not.
//!
//! A NIC that stops keeps a receiver waiting and loses nothing. A VI that breaks before `gone` has come
//! is an error that the receiver's program is told, since nothing says what the sender had put there.
//!
//! On shared memory all of it comes at once: a receiver has `confirmed` from the fence on, the word
//! found by its exchange is the verdict, and TCP's end says `gone`. Then these functions
//! decide what those of [`super`] do.

use super::{Await, Grant, Returned, Revoke, Rx, Seen, Source, Switch, Tx};

/// What a receiver that has granted the VI does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Reads TCP; the sender has not switched, so far as is known.
    Tcp,
    /// Reads at most that many bytes from TCP.
    TcpUpTo(u64),
    /// Claims the switch, and looks again.
    Claim,
    /// TCP has been read up to a switch that is not decided, or beyond it: there is nothing to read
    /// yet.
    Await,
    /// Enters the VI.
    Vi,
    /// The published switch lies before what has been read already.
    Impossible,
}

/// Like [`super::source`]. `claimed` says that the receiver has claimed already.
pub const fn next(switch: u64, read: u64, claimed: bool, gone: bool) -> Next {
    let undecided = matches!(Switch::from_word(switch), Switch::At(_)) && !gone;
    match super::source(switch, read) {
        // More was read before it was known: the sender has cancelled, and that is on its way.
        Source::Impossible if undecided => Next::Await,
        Source::Impossible => Next::Impossible,
        Source::Tcp => Next::Tcp,
        _ if undecided && !claimed => Next::Claim,
        Source::TcpUpTo(n) => Next::TcpUpTo(n),
        Source::Vi if undecided => Next::Await,
        Source::Vi => Next::Vi,
    }
}

/// Whether the bytes behind the switch are read on the VI, whatever the sender does from now on: it has not switched, has
/// taken that back, or still may, otherwise.
pub const fn is_settled(switch: u64, gone: bool) -> bool {
    match Switch::from_word(switch) {
        Switch::Entered(_) => true,
        Switch::At(_) => gone,
        Switch::Not | Switch::Cancelled => false,
    }
}

/// How a sender answers a revoke ([`super::Before::Answer`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// By ToTcp.
    End,
    /// The receiver has not claimed this switch, and may not even know of it: exchanges it for
    /// [`super::CANCELLED`] and puts the VI's bytes on TCP. If the exchange fails, [`Answer::End`].
    Cancel(u64),
    /// Not at all: FIN ends the stream on the VI.
    Not,
}

/// On shared memory the receiver knows of a switch as soon as it is published, and [`Answer::End`]
/// does for both.
pub const fn answers(tx: Tx, switch: u64, fin_sent: bool) -> Answer {
    match super::leave(tx, switch, fin_sent, false) {
        super::Leave::Quietly => Answer::Not,
        super::Leave::Cancel(word) => Answer::Cancel(word),
        super::Leave::End => Answer::End,
    }
}

/// What a receiver that has revoked does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// The direction is on TCP, or will be ([`super::on_tcp`]).
    Nothing,
    /// Claims the switch, and looks again.
    Claim,
    /// The revoke is not confirmed, or the claim not decided. If patience is over the retreat has
    /// failed ([`Seen::Impatient`]).
    Await,
    /// Looks at what lies on the VI ([`super::answer`]).
    Drain,
}

/// Like [`super::revoke`].
pub const fn revoke(rx: Rx, switch: u64, claimed: bool, confirmed: bool, gone: bool) -> Revoked {
    match super::revoke(rx, switch) {
        Revoke::Drain => Revoked::Drain,
        Revoke::Enter(_) if gone => Revoked::Drain,
        Revoke::Enter(_) if claimed => Revoked::Await,
        Revoke::Enter(_) => Revoked::Claim,
        Revoke::Nothing => {
            let unknown = matches!(Switch::from_word(switch), Switch::Not) && !confirmed && !gone;
            if super::revokes(rx) && unknown { Revoked::Await } else { Revoked::Nothing }
        }
    }
}

/// What has become of bytes that a receiver has proposed to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// None were proposed.
    None,
    /// Not known. Nothing may be read, on the VI or on TCP.
    Pending,
    /// The sender drains them: the receiver is on TCP ([`Rx::Back`]).
    Accepted,
    /// The sender does not: they are read on the VI.
    Refused,
}

/// By the returned words of the receiver's segment and of the sender's. Each reader asks this while
/// a proposal of its end's is not settled: the thread that proposed may have gone.
pub const fn verdict(proposed: u64, verdict: u64, gone: bool) -> Verdict {
    match (Returned::from_word(proposed), Returned::from_word(verdict)) {
        (Returned::Bytes(1..), Returned::Not) if gone => Verdict::Refused,
        (Returned::Bytes(1..), Returned::Not) => Verdict::Pending,
        (Returned::Bytes(n @ 1..), Returned::Bytes(m)) if n == m => Verdict::Accepted,
        (Returned::Bytes(1..), _) => Verdict::Refused,
        _ => Verdict::None,
    }
}

/// What becomes of the bytes that the program has not had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// There are none: the kernel has the rest of the stream.
    Plain,
    /// They are returned.
    Returned,
    /// The retreat has failed.
    Kept,
    /// The verdict decides between the last two.
    Pending,
}

/// Like [`super::rest`]: `found` is the word that was there in the receiver's own segment.
pub const fn rest(seen: Seen, unread: u64, found: u64, verdict: u64, gone: bool) -> Rest {
    match super::rest(seen, unread, found) {
        super::Rest::Plain => Rest::Plain,
        super::Rest::Kept => Rest::Kept,
        super::Rest::Returned => match self::verdict(super::returned_word(unread), verdict, gone) {
            Verdict::Pending => Rest::Pending,
            Verdict::Accepted => Rest::Returned,
            Verdict::Refused | Verdict::None => Rest::Kept,
        },
    }
}

/// Whether a reader that has come to ToTcp answers a revoke of its family's ([`super::answer`] with
/// nothing unread).
pub const fn answers_at_to_tcp(grant: Grant, returned: u64) -> bool {
    matches!(grant, Grant::Revoked) && returned == 0
}

/// What a receiver does at TCP's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// What the sender had published may be on its way: the end is not known yet.
    Await,
    /// TCP was read to a switch that has come to be known, or the VI has more: looks again where the next bytes are.
    Again,
    /// Reads the VI (again), and passes over so many bytes there ([`super::rescue`]).
    Rescue(u64),
    /// The stream has ended.
    Over,
}

/// What is known here of the sender's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The switch.
    pub switch: u64,
    /// The byte of the switch.
    pub from: u64,
    /// All bytes of a switch that was taken back are on TCP.
    pub taken_back: bool,
    /// The verdict; on shared memory the returned word.
    pub verdict: u64,
    /// All returned bytes are on TCP.
    pub drained: bool,
    /// The sender publishes nothing more, and all that it had published is here.
    pub gone: bool,
}

/// At TCP's end, with `read` bytes read there and no more to be had: `gone` must have been looked at
/// first, then the other words, and then, for [`Rx::Vi`], the VI, which is `vi_is_empty`.
pub const fn end(rx: Rx, words: &Words, read: u64, vi_is_empty: bool) -> End {
    let &Words { switch, from, taken_back, verdict, drained, gone } = words;
    let missing = super::rescue(rx, switch, taken_back, verdict, drained, from, read);
    match (rx, missing) {
        (Rx::Vi, _) if !vi_is_empty => End::Again,
        (Rx::Granted, _) if matches!(super::source(switch, read), Source::Vi) => End::Again,
        // Nothing that is on its way changes it.
        (Rx::Tcp | Rx::Back, None) => End::Over,
        (Rx::Granted, None) if matches!(Switch::from_word(switch), Switch::Cancelled) => End::Over,
        _ if !gone => End::Await,
        (_, Some(skip)) => End::Rescue(skip),
        (_, None) => End::Over,
    }
}

/// Like [`super::on_tcp`]. A retreat that awaits something is over once `gone` has come, as it is at TCP's end on
/// shared memory: never at TCP's end alone.
pub const fn on_tcp(rx: Rx, words: &Words) -> Await {
    super::on_tcp(rx, words.switch, words.taken_back, words.verdict, words.drained)
}

#[cfg(test)]
mod tests {
    use super::super::{
        CANCELLED, ENTERED, Owed, REFUSED, on_tcp as shared_on_tcp, owed, rescue,
        rest as shared_rest, returned_word, revoke as shared_revoke, source, switch_word,
    };
    use super::*;

    const SWITCHES: [u64; 6] =
        [0, CANCELLED, switch_word(4), switch_word(4) | ENTERED, switch_word(0), ENTERED];
    const RETURNED: [u64; 4] = [0, returned_word(0), returned_word(3), REFUSED];
    const SIDES: [Rx; 4] = [Rx::Tcp, Rx::Granted, Rx::Vi, Rx::Back];

    #[test]
    fn on_shared_memory_the_same_is_decided() {
        for switch in SWITCHES {
            for read in [0, 3, 4, 5] {
                let same = match next(switch, read, true, true) {
                    Next::Tcp => Source::Tcp,
                    Next::TcpUpTo(n) => Source::TcpUpTo(n),
                    Next::Vi => Source::Vi,
                    Next::Impossible => Source::Impossible,
                    Next::Claim | Next::Await => panic!("nothing is awaited"),
                };
                assert_eq!(same, source(switch, read));
            }
            for rx in SIDES {
                let same = match revoke(rx, switch, false, true, false) {
                    Revoked::Nothing => Revoke::Nothing,
                    Revoked::Claim => Revoke::Enter(switch),
                    Revoked::Drain => Revoke::Drain,
                    Revoked::Await => panic!("nothing is awaited"),
                };
                assert_eq!(same, shared_revoke(rx, switch));
            }
        }
        for seen in [Seen::ToTcp, Seen::Ended, Seen::Impatient] {
            for (unread, found) in RETURNED.iter().flat_map(|&found| [(0, found), (3, found)]) {
                // The word that stands after the exchange.
                let word = if found == 0 { super::super::answer(seen, unread) } else { found };
                let same = match rest(seen, unread, found, word, false) {
                    Rest::Plain => super::super::Rest::Plain,
                    Rest::Returned => super::super::Rest::Returned,
                    Rest::Kept => super::super::Rest::Kept,
                    Rest::Pending => panic!("nothing is awaited"),
                };
                assert_eq!(same, shared_rest(seen, unread, found));
            }
        }
    }

    #[test]
    fn on_shared_memory_the_stream_ends_likewise() {
        let some = [false, true];
        for rx in SIDES {
            for switch in SWITCHES {
                for verdict in RETURNED {
                    for (taken_back, drained) in some.iter().flat_map(|&t| [(t, false), (t, true)])
                    {
                        let gone = true;
                        let words = Words { switch, from: 4, taken_back, verdict, drained, gone };
                        let same = shared_on_tcp(rx, switch, taken_back, verdict, drained);
                        assert_eq!(on_tcp(rx, &words), same);
                        // TCP was read up to the switch: no reader asks for the end there.
                        let read = 6;
                        let skip = rescue(rx, switch, taken_back, verdict, drained, 4, read);
                        let end = skip.map_or(End::Over, End::Rescue);
                        assert_eq!(self::end(rx, &words, read, true), end);
                    }
                }
            }
        }
    }

    #[test]
    fn a_receiver_claims_a_switch_and_reads_no_further_until_that_is_decided() {
        let at = switch_word(4);
        assert_eq!(next(at, 1, false, false), Next::Claim);
        assert_eq!(next(at, 1, true, false), Next::TcpUpTo(3));
        assert_eq!(next(at, 4, true, false), Next::Await);
        assert_eq!(next(at, 5, true, false), Next::Await, "a cancellation is on its way");
        assert_eq!(next(at, 4, true, true), Next::Vi, "nothing can cancel it any more");
        assert_eq!(next(at | ENTERED, 4, true, false), Next::Vi);
        assert_eq!(next(CANCELLED, 4, true, false), Next::Tcp);
        for switch in [0, CANCELLED, at, at | ENTERED] {
            for gone in [false, true] {
                let enters = next(switch, 4, true, gone) == Next::Vi;
                assert_eq!(is_settled(switch, gone), enters, "{switch:x}, gone: {gone}");
            }
        }
    }

    #[test]
    fn a_revoke_awaits_its_confirmation_only_while_no_switch_is_known() {
        assert_eq!(revoke(Rx::Granted, 0, false, false, false), Revoked::Await);
        assert_eq!(revoke(Rx::Granted, 0, false, true, false), Revoked::Nothing);
        assert_eq!(revoke(Rx::Granted, 0, false, false, true), Revoked::Nothing);
        assert_eq!(revoke(Rx::Granted, CANCELLED, true, false, false), Revoked::Nothing);
        let at = switch_word(4);
        assert_eq!(revoke(Rx::Granted, at, false, false, false), Revoked::Claim);
        assert_eq!(revoke(Rx::Granted, at, true, true, false), Revoked::Await);
        assert_eq!(revoke(Rx::Vi, at | ENTERED, true, false, false), Revoked::Drain);
    }

    #[test]
    fn a_proposal_is_pending_until_the_verdict_or_the_end_of_the_sender() {
        let three = returned_word(3);
        assert_eq!(verdict(three, 0, false), Verdict::Pending);
        assert_eq!(verdict(three, three, false), Verdict::Accepted);
        assert_eq!(verdict(three, REFUSED, false), Verdict::Refused);
        assert_eq!(verdict(three, 0, true), Verdict::Refused);
        assert_eq!(verdict(three, three, true), Verdict::Accepted, "and rescued");
        assert_eq!(verdict(returned_word(0), 0, false), Verdict::None);
        assert_eq!(verdict(0, REFUSED, false), Verdict::None);
        assert_eq!(rest(Seen::ToTcp, 3, 0, 0, false), Rest::Pending);
        assert_eq!(rest(Seen::ToTcp, 3, 0, REFUSED, false), Rest::Kept);
        assert_eq!(rest(Seen::ToTcp, 0, 0, 0, false), Rest::Plain, "nothing is asked for");
    }

    #[test]
    fn the_end_of_tcp_is_believed_when_the_words_before_it_are_here() {
        let known = |switch, gone| Words {
            switch,
            from: 4,
            taken_back: false,
            verdict: 0,
            drained: false,
            gone,
        };
        assert_eq!(end(Rx::Granted, &known(0, false), 4, true), End::Await);
        assert_eq!(end(Rx::Granted, &known(0, true), 4, true), End::Over);
        assert_eq!(end(Rx::Granted, &known(switch_word(4), false), 4, true), End::Again);
        assert_eq!(end(Rx::Granted, &known(CANCELLED, false), 6, true), End::Await);
        assert_eq!(end(Rx::Granted, &known(CANCELLED, true), 6, true), End::Rescue(2));
        assert_eq!(end(Rx::Vi, &known(switch_word(4) | ENTERED, false), 4, true), End::Await);
        assert_eq!(end(Rx::Vi, &known(switch_word(4) | ENTERED, true), 4, false), End::Again);
        assert_eq!(end(Rx::Tcp, &known(0, false), 4, true), End::Over, "nothing was granted");
        assert_eq!(end(Rx::Back, &known(switch_word(4) | ENTERED, false), 9, true), End::Over);
    }

    #[test]
    fn a_revoked_sender_cancels_what_was_not_claimed() {
        assert_eq!(answers(Tx::Vi, switch_word(4), false), Answer::Cancel(switch_word(4)));
        assert_eq!(answers(Tx::Vi, switch_word(4) | ENTERED, false), Answer::End);
        assert_eq!(answers(Tx::Vi, switch_word(4), true), Answer::Not);
        // What it then does about the rest is what it does on shared memory.
        assert_eq!(owed(Grant::Revoked, 0), Owed::Wait);
    }
}
