//! Events of a direction, which NICs carry between the sender's segment and the receiver's segment, in addition to
//! the bytes.
//!
//! Within one host, the events are stores and exchanges of words in one segment. Between hosts, each end has its
//! own segment and its own NIC. Each NIC publishes in its end's segment the events that the other NIC sends. The
//! channel between the two NICs loses no event and keeps the order.
//!
//! # Order
//!
//! A program may change words while a NIC reads them. The NIC must send events in the order in which the program
//! published these events. So a NIC reads the words of the following lists from the last to the first. If a word
//! has an event, the NIC then reads all earlier words of the list, and sends their events first.
//!
//! From the sender's segment:
//! 1. [`FromSender::Switched`]. Also [`FromSender::Entered`] or [`FromSender::Cancelled`], which the NIC sends at
//!    once when the switch word changes.
//! 2. The messages on the VI in their order, including ToTcp and FIN. The NIC also sends the messages of a
//!    cancelled switch: the receiver may need these messages until all their bytes are on TCP. The word TAKEN
//!    announces that all these bytes are on TCP. TAKEN may also be set if the receiver's claim has prevented the
//!    cancellation. The receiver then ignores TAKEN.
//! 3. [`FromSender::Verdict`] or [`FromSender::Refused`], [`FromSender::TakenBack`], [`FromSender::Drained`],
//!    [`FromSender::Asked`]: at any time.
//! 4. [`FromSender::Gone`], after all other events. After `Gone` the NIC sends no event, and ignores further events
//!    from the receiver.
//!
//! [`FromSender::Confirmed`] comes after the event of the switch (1). The NIC stores [`FromReceiver::Revoked`],
//! executes a full fence, and then loads the switch word that it sends.
//!
//! From the receiver's segment:
//! 1. [`FromReceiver::Granted`], [`FromReceiver::Entered`], [`FromReceiver::Revoked`], [`FromReceiver::Left`]: the
//!    NIC need only send the latest of these four events. [`FromReceiver::Claimed`], [`FromReceiver::Shut`]: at any
//!    time.
//! 2. The count of consumed bytes on the VI, and the list of messages left unread on the VI (the undelivered
//!    bytes). Then [`FromReceiver::Returned`].
//!
//! # Actions of the NICs
//!
//! The NIC at the sender's segment receives
//!
//! - `Claimed`: the NIC replaces [`Switch::At`] in the switch word by [`Switch::Entered`], by compare-exchange.
//!   Then it sends the resulting switch word.
//! - `Revoked`: the NIC stores the event, executes a full fence and loads the switch word. If the NIC has not sent
//!   this switch yet, it sends the switch. Then the NIC sends `Confirmed`. The NIC does not claim the switch.
//! - `Returned`: the NIC publishes the consumed bytes and the undelivered bytes. Then the NIC replaces 0 in the
//!   returned word by compare-exchange, and sends the resulting word as `Verdict`. The NIC sends a refusal of the
//!   sender (`Refused`) even if the receiver has returned nothing.
//! - Any other event: the NIC stores the event in the sender's segment.
//!
//! The NIC at the receiver's segment stores the events in words that the receiver's program does not write. Each
//! event is one store. If an event announces that earlier data has arrived, its store has release order.
//!
//! A NIC sends `Gone` after the sender's program has shut down sending, has closed the socket, has left the
//! direction for good, or has died. If the program has died, the NIC first sends everything that the segment holds.

use super::{CANCELLED, ENTERED, REFUSED, Returned, Switch, returned_word, switch_word};

/// Event that the sender's NIC sends to the receiver's NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FromSender {
    /// The sender has switched: the stream is on the VI from this byte on.
    Switched(u64),
    /// The receiver's claim of the switch at this byte has succeeded: the sender can no longer cancel the switch.
    Entered(u64),
    /// The sender took back the switch at this byte.
    Cancelled(u64),
    /// The sender, which took the switch back, has put all bytes of the VI on TCP.
    TakenBack,
    /// The sender's segment has accepted that the receiver returns this many bytes. The sender will drain these
    /// bytes.
    Verdict(u64),
    /// The sender has refused to drain returned bytes.
    Refused,
    /// All returned bytes are on TCP.
    Drained,
    /// The NIC has stored the revoke in the sender's segment. Then the NIC has loaded the switch, and has sent it
    /// before this event.
    Confirmed,
    /// The sender asks the receiver to move the connection back to TCP.
    Asked,
    /// The sender publishes nothing more in this direction, and the NIC has sent everything that the sender had
    /// published.
    Gone,
}

/// Event that the receiver's NIC sends to the sender's NIC.
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
    /// The receiver proposes to return this many bytes. If the number is 0, the receiver continues to read the VI.
    Returned(u64),
    /// The receiver has shut both halves of its socket.
    Shut,
}

impl FromSender {
    /// Returns the event for a switch word. `from` is the position of the switch, because the word [`CANCELLED`]
    /// has no position.
    pub const fn of_switch(word: u64, from: u64) -> Option<FromSender> {
        match Switch::from_word(word) {
            Switch::Not => None,
            Switch::At(n) => Some(FromSender::Switched(n)),
            Switch::Entered(n) => Some(FromSender::Entered(n)),
            Switch::Cancelled => Some(FromSender::Cancelled(from)),
        }
    }

    /// Returns the switch word and the position of the switch, or `None` for any other event. The receiver's NIC
    /// stores both in the receiver's segment, the position first.
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

    /// Returns the word that the receiver's NIC stores as the verdict, or `None` for any other event.
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

    /// Returns the event with the number `number` and the value `value`, or `None` if there is no such event.
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

    /// Returns the event with the number `number` and the value `value`, or `None` if there is no such event.
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

/// Upper limit of the number of bytes in an event. Words made from larger numbers could equal [`CANCELLED`] or
/// [`REFUSED`].
const LIMIT: u64 = ENTERED - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_survives_encoding_and_nonsense_is_refused() {
        let mut checked = 0;
        for number in 0..=u8::MAX {
            for value in [0, 7, LIMIT - 1, LIMIT, u64::MAX] {
                if let Some(event) = FromSender::from_parts(number, value) {
                    assert_eq!(event.to_parts(), (number, value));
                    checked += 1;
                }
                if let Some(event) = FromReceiver::from_parts(number, value) {
                    assert_eq!(event.to_parts(), (number, value));
                    checked += 1;
                }
            }
        }
        // Four variants of `FromSender` and one of `FromReceiver` have a value. Three of the five tested values are
        // valid.
        assert_eq!(checked, (4 + 1) * 3 + 6 + 6);
    }

    #[test]
    fn switch_words_are_carried_unchanged() {
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
