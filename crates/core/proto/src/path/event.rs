//! Events of a direction beside the bytes, which NICs carry from the sender's segment to the receiver's, and back.
//!
//! On shared memory the events are stores and exchanges of the words of one segment. Between hosts each end has its
//! own segment, and a NIC beside it. Each NIC publishes in its segment the events that the other NIC sends. The
//! channel between the NICs loses nothing and keeps the order.
//!
//! # Order
//!
//! A program may change the words while a NIC looks at them. A NIC must send events in the order in which the
//! program published them. So a NIC looks at the words of the following lists in reverse order. If a word has an
//! event, the NIC looks at all words before it in the list, and sends their events first.
//!
//! From the sender's segment:
//! 1. [`FromSender::Switched`], and at once when the switch changes, [`FromSender::Entered`] or
//!    [`FromSender::Cancelled`].
//! 2. The messages on the VI in their order, including ToTcp and FIN. The NIC also sends the messages behind a
//!    cancelled switch: the receiver may need them until all their bytes are on TCP. The word TAKEN, which then
//!    announces these bytes on TCP, may be set even if the receiver's claim has won. It counts only together with
//!    the cancellation.
//! 3. [`FromSender::Verdict`] or [`FromSender::Refused`], [`FromSender::TakenBack`], [`FromSender::Drained`],
//!    [`FromSender::Asked`]: at any time.
//! 4. [`FromSender::Gone`], after all other events. After it the NIC sends no event, and ignores further events
//!    from the receiver.
//!
//! [`FromSender::Confirmed`] comes after the switch (1). The NIC sends the switch as it is after the NIC has stored
//! [`FromReceiver::Revoked`] and executed a full fence.
//!
//! From the receiver's segment:
//! 1. [`FromReceiver::Granted`], [`FromReceiver::Entered`], [`FromReceiver::Revoked`], [`FromReceiver::Left`]:
//!    sending the last of them is enough. [`FromReceiver::Claimed`], [`FromReceiver::Shut`]: at any time.
//! 2. The count of consumed bytes on the VI, and the list of messages left unread there (the undelivered bytes).
//!    Then [`FromReceiver::Returned`].
//!
//! # Actions of the NICs
//!
//! The NIC at the sender's segment receives
//!
//! - `Claimed`: it exchanges [`Switch::At`] for [`Switch::Entered`], and sends the resulting switch.
//! - `Revoked`: it stores the event, executes a full fence and loads the switch. If it has not sent this switch
//!   yet, it sends the switch. Then it sends `Confirmed`. It does not claim the switch.
//! - `Returned`: it publishes the consumed bytes and the undelivered bytes. Then it replaces 0 in the returned word by
//!   compare-exchange, and sends the resulting word as `Verdict`. It sends a refusal even if the receiver has returned
//!   nothing.
//! - All others: it stores them.
//!
//! The NIC at the receiver's segment stores the events in words that the receiver's program does not write. Each
//! event is one store. The store of an event that says "all before is here" has release order.
//!
//! A NIC sends `Gone` after the sender's program has shut its sending side or closed, has left the direction for
//! good, or has died. After a death, the NIC first sends everything that the segment holds.

use super::{CANCELLED, ENTERED, REFUSED, Returned, Switch, returned_word, switch_word};

/// Event that goes from the sender's end to the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FromSender {
    /// The stream is on the VI from this byte on.
    Switched(u64),
    /// The stream is on the VI from this byte on, and the receiver's claim has come before a cancellation.
    Entered(u64),
    /// The sender took back the switch at this byte.
    Cancelled(u64),
    /// All bytes behind a switch that the sender took back are on TCP.
    TakenBack,
    /// The receiver has returned this many bytes. The sender will drain them if the number is not 0.
    Verdict(u64),
    /// The sender drains nothing.
    Refused,
    /// All returned bytes are on TCP.
    Drained,
    /// The NIC has seen a revoke at the sender's segment, and has sent the switch that was there afterwards.
    Confirmed,
    /// The sender asks the receiver to move the connection back to TCP.
    Asked,
    /// The sender publishes nothing more in this direction, and the NIC has sent everything that it had published.
    Gone,
}

/// Event that goes from the receiver's end to the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FromReceiver {
    /// The sender may switch.
    Granted,
    /// The receiver reads the VI.
    Entered,
    /// The receiver asks the sender to move the direction back to TCP.
    Revoked,
    /// The receiver has closed.
    Left,
    /// The receiver has seen the switch, and reads TCP only up to the switch.
    Claimed,
    /// The receiver proposes to return this many bytes. After 0 bytes it reads on from the VI.
    Returned(u64),
    /// The receiver has shut both halves.
    Shut,
}

impl FromSender {
    /// Returns the event for a switch word. `from` is the byte of the switch, which [`CANCELLED`] does not contain.
    pub const fn of_switch(word: u64, from: u64) -> Option<FromSender> {
        match Switch::from_word(word) {
            Switch::Not => None,
            Switch::At(n) => Some(FromSender::Switched(n)),
            Switch::Entered(n) => Some(FromSender::Entered(n)),
            Switch::Cancelled => Some(FromSender::Cancelled(from)),
        }
    }

    /// Returns the switch word and its byte, which the NIC at the receiver's segment stores. It stores the byte
    /// first.
    pub const fn switch(self) -> Option<(u64, u64)> {
        match self {
            FromSender::Switched(n) => Some((switch_word(n), n)),
            FromSender::Entered(n) => Some((switch_word(n) | ENTERED, n)),
            FromSender::Cancelled(n) => Some((CANCELLED, n)),
            _ => None,
        }
    }

    /// Returns the event for the returned word of the sender's segment.
    pub const fn of_returned(word: u64) -> Option<FromSender> {
        match Returned::from_word(word) {
            Returned::Not => None,
            Returned::Bytes(n) => Some(FromSender::Verdict(n)),
            Returned::Refused => Some(FromSender::Refused),
        }
    }

    /// Returns the verdict that the NIC at the receiver's segment stores.
    pub const fn verdict(self) -> Option<u64> {
        match self {
            FromSender::Verdict(n) => Some(returned_word(n)),
            FromSender::Refused => Some(REFUSED),
            _ => None,
        }
    }

    /// Returns the number and the value of the event in a message.
    pub const fn to_parts(self) -> (u8, u64) {
        match self {
            FromSender::Switched(n) => (1, n),
            FromSender::Entered(n) => (2, n),
            FromSender::Cancelled(n) => (3, n),
            FromSender::TakenBack => (4, 0),
            FromSender::Verdict(n) => (5, n),
            FromSender::Refused => (6, 0),
            FromSender::Drained => (7, 0),
            FromSender::Confirmed => (8, 0),
            FromSender::Asked => (9, 0),
            FromSender::Gone => (10, 0),
        }
    }

    /// Returns the event with this number and value, or `None` if no correct NIC sends them.
    pub const fn from_parts(number: u8, value: u64) -> Option<FromSender> {
        Some(match (number, value) {
            (1, 0..LIMIT) => FromSender::Switched(value),
            (2, 0..LIMIT) => FromSender::Entered(value),
            (3, 0..LIMIT) => FromSender::Cancelled(value),
            (4, 0) => FromSender::TakenBack,
            (5, 0..LIMIT) => FromSender::Verdict(value),
            (6, 0) => FromSender::Refused,
            (7, 0) => FromSender::Drained,
            (8, 0) => FromSender::Confirmed,
            (9, 0) => FromSender::Asked,
            (10, 0) => FromSender::Gone,
            _ => return None,
        })
    }
}

impl FromReceiver {
    /// Returns the number and the value of the event in a message.
    pub const fn to_parts(self) -> (u8, u64) {
        match self {
            FromReceiver::Granted => (1, 0),
            FromReceiver::Entered => (2, 0),
            FromReceiver::Revoked => (3, 0),
            FromReceiver::Left => (4, 0),
            FromReceiver::Claimed => (5, 0),
            FromReceiver::Returned(n) => (6, n),
            FromReceiver::Shut => (7, 0),
        }
    }

    /// Returns the event with this number and value, or `None` if no correct NIC sends them.
    pub const fn from_parts(number: u8, value: u64) -> Option<FromReceiver> {
        Some(match (number, value) {
            (1, 0) => FromReceiver::Granted,
            (2, 0) => FromReceiver::Entered,
            (3, 0) => FromReceiver::Revoked,
            (4, 0) => FromReceiver::Left,
            (5, 0) => FromReceiver::Claimed,
            (6, 0..LIMIT) => FromReceiver::Returned(value),
            (7, 0) => FromReceiver::Shut,
            _ => return None,
        })
    }
}

/// Upper limit for numbers of bytes, so that no word made from a number equals a special word.
const LIMIT: u64 = ENTERED - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_out_of_a_message_as_it_went_in_and_nonsense_does_not() {
        let mut said = 0;
        for number in 0..=u8::MAX {
            for value in [0, 7, LIMIT - 1, LIMIT, u64::MAX] {
                if let Some(event) = FromSender::from_parts(number, value) {
                    assert_eq!(event.to_parts(), (number, value));
                    said += 1;
                }
                if let Some(event) = FromReceiver::from_parts(number, value) {
                    assert_eq!(event.to_parts(), (number, value));
                    said += 1;
                }
            }
        }
        // Four variants of `FromSender` and one of `FromReceiver` have a value, and three of the values are valid.
        assert_eq!(said, (4 + 1) * 3 + 6 + 6);
    }

    #[test]
    fn a_word_is_carried_as_it_stands() {
        for word in [switch_word(0), switch_word(9), switch_word(9) | ENTERED, CANCELLED] {
            let from = if word == switch_word(0) { 0 } else { 9 };
            let event = FromSender::of_switch(word, from).unwrap();
            assert_eq!(event.switch(), Some((word, from)));
            assert_eq!(event.verdict(), None);
        }
        for word in [returned_word(0), returned_word(4), REFUSED] {
            let event = FromSender::of_returned(word).unwrap();
            assert_eq!(event.verdict(), Some(word));
            assert_eq!(event.switch(), None);
        }
        assert_eq!(FromSender::of_switch(0, 0), None);
        assert_eq!(FromSender::of_returned(0), None);
    }
}
