//! What the two ends of a direction say to each other beside the bytes, as a carrier takes it from
//! the sender's segment to the receiver's, and back.
//!
//! On shared memory these are stores and exchanges of the words of one segment. Between hosts each
//! end has a segment of its own, and a NIC beside it; each NIC publishes in its segment what the other one
//! tells it, over a channel that loses nothing and keeps the order.
//!
//! # Order
//!
//! A NIC looks at words that a program changes meanwhile. To tell things in the order in which they
//! were published, it looks at the **last** first: having seen one, it looks at all that comes before it
//! here, tells those, and then the one that it has seen.
//!
//! From the sender's segment:
//! 1. [`FromSender::Switched`], and at once when it changes, [`FromSender::Entered`] or [`FromSender::Cancelled`];
//! 2. what is on the VI, in its order, ToTcp and FIN with it; also that of a switch that was cancelled:
//!    until its bytes are all on TCP the receiver may need them. (The word that says so may be set also where
//!    the claim has won: it counts only with the cancellation.)
//! 3. [`FromSender::Verdict`] or [`FromSender::Refused`], [`FromSender::TakenBack`], [`FromSender::Drained`],
//!    [`FromSender::Asked`]: at any time;
//! 4. [`FromSender::Gone`], when all the others are told. After it the NIC tells nothing, and passes over what
//!    still comes from the receiver.
//!
//! [`FromSender::Confirmed`] comes after 1 as it is seen after a full fence behind the stored
//! [`FromReceiver::Revoked`].
//!
//! From the receiver's segment:
//! 1. [`FromReceiver::Granted`], [`FromReceiver::Entered`], [`FromReceiver::Revoked`], [`FromReceiver::Left`]:
//!    the last of them does; [`FromReceiver::Claimed`], [`FromReceiver::Shut`]: at any time;
//! 2. what has been consumed on the VI, and what is left unread there by name (the remains); then
//!    [`FromReceiver::Returned`].
//!
//! # What a NIC does with them
//!
//! The NIC at the sender's segment, on
//! - `Claimed`: exchanges [`Switch::At`] for [`Switch::Entered`], and tells the switch as it is then;
//! - `Revoked`: stores it, does a full fence, looks at the switch, tells it if it is not told, and
//!   then tells `Confirmed`. It does not claim;
//! - `Returned`: publishes what has been consumed and the remains, exchanges 0 for the word, and tells the word
//!   that stands there then as the `Verdict`. It tells a refusal also if nothing was returned;
//! - all others: stores them.
//!
//! The NIC at the receiver's segment stores what it is told in words that the receiver's program does not
//! write. Each is one store; one that says "all before is here" is a release.
//!
//! `Gone` is told when the sender's program has shut its sending side or closed, has left the direction for good, or
//! has died; after the last, when its NIC has sent all that the segment holds.

use super::{CANCELLED, ENTERED, REFUSED, Returned, Switch, returned_word, switch_word};

/// What the sender's end says to the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FromSender {
    /// From that byte on the stream is on the VI.
    Switched(u64),
    /// Likewise, and it is the receiver's: its claim has come before a cancellation.
    Entered(u64),
    /// The switch at that byte was taken back.
    Cancelled(u64),
    /// All bytes of a switch that was taken back are on TCP.
    TakenBack,
    /// What the receiver returned is so many bytes, and will be drained if there are any.
    Verdict(u64),
    /// The sender drains nothing.
    Refused,
    /// All returned bytes are on TCP.
    Drained,
    /// A revoke has been seen at the sender's segment, and the switch that stood there then is told.
    Confirmed,
    /// The sender wants the receiver to take the connection back.
    Asked,
    /// The sender publishes nothing more in this direction, and all that it had published is told.
    Gone,
}

/// What the receiver's end says to the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FromReceiver {
    /// The sender may switch.
    Granted,
    /// The receiver reads the VI.
    Entered,
    /// The receiver wants the direction back on TCP.
    Revoked,
    /// The receiver has closed.
    Left,
    /// The receiver has seen the switch, and reads TCP no further.
    Claimed,
    /// The receiver proposes to return so many bytes (0: it reads on from the VI).
    Returned(u64),
    /// The receiver has shut both halves.
    Shut,
}

impl FromSender {
    /// The event that says a switch word; `from` is its byte, which [`CANCELLED`] does not name.
    pub const fn of_switch(word: u64, from: u64) -> Option<FromSender> {
        match Switch::from_word(word) {
            Switch::Not => None,
            Switch::At(n) => Some(FromSender::Switched(n)),
            Switch::Entered(n) => Some(FromSender::Entered(n)),
            Switch::Cancelled => Some(FromSender::Cancelled(from)),
        }
    }

    /// The switch word and its byte that the NIC at the receiver's segment stores (the byte first).
    pub const fn switch(self) -> Option<(u64, u64)> {
        match self {
            FromSender::Switched(n) => Some((switch_word(n), n)),
            FromSender::Entered(n) => Some((switch_word(n) | ENTERED, n)),
            FromSender::Cancelled(n) => Some((CANCELLED, n)),
            _ => None,
        }
    }

    /// The event that says the returned word of the sender's segment.
    pub const fn of_returned(word: u64) -> Option<FromSender> {
        match Returned::from_word(word) {
            Returned::Not => None,
            Returned::Bytes(n) => Some(FromSender::Verdict(n)),
            Returned::Refused => Some(FromSender::Refused),
        }
    }

    /// The verdict that the NIC at the receiver's segment stores.
    pub const fn verdict(self) -> Option<u64> {
        match self {
            FromSender::Verdict(n) => Some(returned_word(n)),
            FromSender::Refused => Some(REFUSED),
            _ => None,
        }
    }

    /// Its number and its value, for a message.
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

    /// From a message; `None` for what no sound NIC sends.
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
    /// Its number and its value, for a message.
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

    /// From a message; `None` for what no sound NIC sends.
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

/// Numbers of bytes are below this: so the words that say them are none of the special ones.
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
        // Four of the one side and one of the other have a value, of which three are sound.
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
