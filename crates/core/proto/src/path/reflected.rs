//! Decisions of a receiver that shares no memory with its sender. Each end has its own segment, and two NICs copy
//! changes between the segments ([`super::event`]).
//!
//! Two words can be changed by either end: the switch word and the returned word. The words in the sender's segment
//! are the valid ones. So the sender uses the functions of [`super`], as on shared memory, with one exception
//! ([`answers`]). The receiver's segment has copies of the two words, which may be old. On shared memory the
//! receiver exchanges a word, or loads a word after a fence. Here the receiver instead makes a request in a word of
//! its own segment. Then the receiver waits until the sender's NIC has sent the result:
//!
//! - The receiver **claims** the switch, and waits until the switch word says [`Switch::Entered`] or
//!   [`Switch::Cancelled`]. Once the receiver has seen the switch, it reads TCP only up to the switch. Only the
//!   receiver may claim, under the lock that it holds while it looks at the switch and reads TCP. A NIC must not
//!   claim: a sender that falls back could then send ToTcp and put newer bytes on TCP. A receiver that does not
//!   know of the switch yet might read older and newer bytes together.
//! - The receiver **revokes**, and waits for the word `confirmed`. Then the sender's segment has the revoke. The
//!   receiver's segment has the switch that the NIC loaded after it had stored the revoke.
//! - The receiver **proposes** to return bytes, in the returned word of its own segment. It waits for the
//!   `verdict`, which is the returned word of the sender's segment. Until the verdict arrives, no thread of the
//!   receiver reads the VI or TCP.
//!
//! The end of the TCP stream may arrive before these words. So the receiver takes TCP's end for the end of the
//! stream only after the word `gone` has arrived. `gone` says that the sender publishes nothing more in this
//! direction, and that everything it published has arrived. After `gone` the receiver waits for no result: the
//! sender will never see a request that is still undecided.
//!
//! If a NIC stops, the receiver waits and no byte is lost. If a VI breaks before `gone` has arrived, the receiver
//! reports an error to its program. The receiver cannot know which bytes the sender had put on the VI.
//!
//! On shared memory the receiver never waits for these results. `confirmed` is true after the fence, the exchange
//! gives the verdict, and `gone` is true at TCP's end. With these values the functions of this module decide like
//! the functions of [`super`].

use super::{Await, Grant, Returned, Revoke, Rx, Seen, Source, Switch, Tx};

/// Next step of a receiver that has granted the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Reads TCP. The sender has not switched, as far as the receiver knows.
    Tcp,
    /// Reads at most this many bytes from TCP.
    TcpUpTo(u64),
    /// Claims the switch, and calls [`next`] again.
    Claim,
    /// Waits until the switch is confirmed or cancelled. The receiver has read TCP up to the switch, or beyond it.
    Await,
    /// Enters the VI.
    Vi,
    /// None, because the peer broke the protocol: its switch lies before bytes that the receiver has already read
    /// from TCP.
    Impossible,
}

/// Returns the receiver's next step, like [`super::source`]. `claimed` is true if the receiver has already claimed
/// the switch.
pub const fn next(switch: u64, read: u64, claimed: bool, gone: bool) -> Next {
    let undecided = matches!(Switch::from_word(switch), Switch::At(_)) && !gone;
    match super::source(switch, read) {
        // The receiver read these bytes from TCP before it knew of the switch. So the sender has cancelled the
        // switch, and the word CANCELLED is on its way.
        Source::Impossible if undecided => Next::Await,
        Source::Impossible => Next::Impossible,
        Source::Tcp => Next::Tcp,
        _ if undecided && !claimed => Next::Claim,
        Source::TcpUpTo(n) => Next::TcpUpTo(n),
        Source::Vi if undecided => Next::Await,
        Source::Vi => Next::Vi,
    }
}

/// Returns true if the receiver will read the bytes behind the switch on the VI, whatever the sender does from now
/// on. Returns false if the sender has not switched, has taken the switch back, or may still take it back.
pub const fn is_settled(switch: u64, gone: bool) -> bool {
    match Switch::from_word(switch) {
        Switch::Entered(_) => true,
        Switch::At(_) => gone,
        Switch::Not | Switch::Cancelled => false,
    }
}

/// Answer of a sender to a revoke ([`super::BeforeSend::Answer`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Sends ToTcp.
    End,
    /// Replaces this switch word by [`super::CANCELLED`], and puts the VI's bytes on TCP. The receiver has not
    /// claimed the switch, and may not know of it yet. If the compare-exchange fails, the sender continues with
    /// [`Answer::End`].
    Cancel(u64),
    /// Sends no answer, because the stream ends on the VI with a FIN.
    Not,
}

/// Returns the sender's answer to a revoke. On shared memory the receiver sees a switch as soon as the sender
/// publishes it. So there the sender may always answer with [`Answer::End`].
pub const fn answers(tx: Tx, switch: u64, fin_sent: bool) -> Answer {
    match super::leave(tx, switch, fin_sent, false) {
        super::Leave::Quietly => Answer::Not,
        super::Leave::Cancel(word) => Answer::Cancel(word),
        super::Leave::End => Answer::End,
    }
}

/// Next step of a receiver that has revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// None: the direction is on TCP, or the sender is moving it there ([`super::on_tcp`]).
    Nothing,
    /// Claims the switch, and calls [`revoke`] again.
    Claim,
    /// Waits for the confirmation of the revoke, or for the result of the claim. If the time limit expires, the
    /// fallback has failed ([`Seen::Impatient`]).
    Await,
    /// Looks for ToTcp among the messages on the VI, and then publishes [`super::answer`].
    Drain,
}

/// Returns the receiver's next step, like [`super::revoke`].
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

/// State of the bytes that a receiver has proposed to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The receiver has not proposed to return bytes.
    None,
    /// The verdict has not arrived. Until it arrives, no thread may read the VI or TCP in this direction.
    Pending,
    /// The sender drains the proposed bytes. The receiver is on TCP ([`Rx::Back`]).
    Accepted,
    /// The sender does not drain the proposed bytes. The receiver reads these bytes on the VI.
    Refused,
}

/// Returns the state of the bytes that a receiver has proposed to return. `proposed` is the returned word of the
/// receiver's segment, and `verdict` is the returned word of the sender's segment. Every reader calls this function
/// while a proposal is undecided, because the thread that made the proposal may have ended.
pub const fn verdict(proposed: u64, verdict: u64, gone: bool) -> Verdict {
    match (Returned::from_word(proposed), Returned::from_word(verdict)) {
        (Returned::Bytes(1..), Returned::Not) if gone => Verdict::Refused,
        (Returned::Bytes(1..), Returned::Not) => Verdict::Pending,
        (Returned::Bytes(n @ 1..), Returned::Bytes(m)) if n == m => Verdict::Accepted,
        (Returned::Bytes(1..), _) => Verdict::Refused,
        _ => Verdict::None,
    }
}

/// Result of a fallback for the bytes that the program has not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// The VI has no unread bytes. The kernel has the rest of the stream.
    Plain,
    /// The receiver has returned the unread bytes.
    Returned,
    /// The fallback has failed, and has not returned the unread bytes.
    Kept,
    /// The verdict has not arrived. It will decide between `Returned` and `Kept`.
    Pending,
}

/// Returns the result of a fallback for the unread bytes, like [`super::rest`]. `found` is the returned word of the
/// receiver's segment before the fallback changed the word.
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

/// Returns true if a reader that reaches ToTcp must publish the returned word, because its own family has revoked
/// the direction. The reader publishes [`super::answer`] for 0 unread bytes.
pub const fn answers_at_to_tcp(grant: Grant, returned: u64) -> bool {
    matches!(grant, Grant::Revoked) && returned == 0
}

/// Next step of a receiver at TCP's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Waits: words that the sender published may be on their way, so the stream's end is not known yet.
    Await,
    /// Continues to read: the receiver has just learned of a switch at this position, or the VI has more bytes.
    Again,
    /// Reads missing bytes on the VI. Skips this many bytes there, which the receiver has already read from TCP
    /// ([`super::rescue`]).
    Rescue(u64),
    /// The stream has ended.
    Over,
}

/// The sender's words, as the receiver's segment has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The switch word.
    pub switch: u64,
    /// Number of bytes on TCP before the switch.
    pub from: u64,
    /// Set once a sender that took its switch back has put all bytes of the VI on TCP.
    pub taken_back: bool,
    /// The verdict. On shared memory this is the returned word.
    pub verdict: u64,
    /// Set once all returned bytes are on TCP.
    pub drained: bool,
    /// Set once the sender publishes nothing more, and everything that it published has arrived.
    pub gone: bool,
}

/// Returns the next step at TCP's end, after `read` bytes have been read from TCP. The caller loads `gone` before
/// the other words. In the state [`Rx::Vi`] the caller then looks at the VI, and passes true as `vi_is_empty` if
/// the VI has no bytes.
pub const fn end(rx: Rx, words: &Words, read: u64, vi_is_empty: bool) -> End {
    let &Words { switch, from, taken_back, verdict, drained, gone } = words;
    let missing = super::rescue(rx, switch, taken_back, verdict, drained, from, read);
    match (rx, missing) {
        (Rx::Vi, _) if !vi_is_empty => End::Again,
        (Rx::Granted, _) if matches!(super::source(switch, read), Source::Vi) => End::Again,
        // A word that is still on its way cannot change this result.
        (Rx::Tcp | Rx::Back, None) => End::Over,
        (Rx::Granted, None) if matches!(Switch::from_word(switch), Switch::Cancelled) => End::Over,
        _ if !gone => End::Await,
        (_, Some(skip)) => End::Rescue(skip),
        (_, None) => End::Over,
    }
}

/// Returns the event for which a fallback waits, like [`super::on_tcp`]. The fallback also stops waiting once
/// `gone` has arrived. It does not stop at TCP's end alone, as it does on shared memory.
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
                // Value of the returned word after the fallback's compare-exchange.
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
                        // 6 bytes read lie behind every switch in `SWITCHES`, so `end` never returns `End::Again`
                        // here.
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
    fn end_of_tcp_is_believed_after_all_earlier_words_arrived() {
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
        // The sender settles its debt as on shared memory.
        assert_eq!(owed(Grant::Revoked, 0), Owed::Wait);
    }
}
