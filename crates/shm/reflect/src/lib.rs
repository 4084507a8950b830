//! A VI whose two ends share no memory, seen by each end as one in shared memory.
//!
//! A program's end of a stream lies in a segment ([`via_shm`]). Where the other end is on another host, a NIC in
//! software holds the other side of that segment, and the NIC of the other host holds the other side of another
//! one. Each publishes in its own segment what the program at the far end has published in the other: entries of the
//! ring at the same numbers, bytes of the pool and the area at the same places, words, and credit. So a program runs
//! one protocol, whether its peer shares the segment or not, and its bytes lie where the NIC finds them though the
//! program is killed. What the far program has not consumed stays where it lies, because its credit is
//! reflected as well: no NIC keeps a copy.
//!
//! - [`message`]: what the two NICs say to each other about a VI;
//! - `outgoing`: the direction in which the NIC's own program sends; `incoming`: the other.
//!
//! **Order.** The channel between the NICs loses and reorders nothing. What a NIC publishes becomes visible in the
//! order in which the program had published it, as far as the protocol depends on that ([`message::Message`]).
//!
//! **Words with two writers.** The sender's switch, and whether returned bytes are put on TCP, are settled by
//! compare-exchange ([`sovia_proto::path`]). Both exchanges take place where the sender is, and the sender's NIC makes
//! those of the receiver, when the receiver asks for it: it claims a switch, and answers a revoke and a return
//! ([`sovia_proto::word::ANSWER`]). So a sender never waits for the other host. A receiver waits once when it enters
//! the VI, and when it goes back ([`sovia_proto::path::reflected`], where the rules are and what checks them).

#![forbid(unsafe_code)]

mod incoming;
pub mod message;
mod outgoing;

use core::fmt;
use incoming::Incoming;
use message::Message;
use outgoing::Outgoing;
use sovia_proto::word;
use std::sync::Arc;
use via_shm::Segment;
use via_shm::segment::SideIndex;

/// The far NIC has sent what an honest one cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message between NICs: {}", self.0)
    }
}

impl core::error::Error for Malformed {}

/// Where messages for the far NIC go.
pub trait Sink {
    /// Whether one more is taken now.
    fn has_room(&mut self) -> bool;
    /// Takes a message, which `write` appends to a buffer; asked for room before.
    fn append(&mut self, write: &mut dyn FnMut(&mut Vec<u8>));

    /// Takes a message; asked for room before.
    fn put(&mut self, message: &Message<'_>) {
        self.append(&mut |out| message.encode(out));
    }
}

/// Which threads of a program are to be notified that something has been published for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// The reader of the direction in which it receives.
    pub reader: bool,
    /// The writer of the direction in which it sends.
    pub writer: bool,
    /// The thread that watches its anchors: the path is to change.
    pub progress: bool,
    /// No thread of it, but the NIC: the far program's TCP has ended. Does this program hold its socket?
    pub asks: bool,
}

impl Told {
    /// Every thread of it that waits.
    pub const ALL: Told = Told { reader: true, writer: true, progress: true, asks: false };
}

impl core::ops::BitOrAssign for Told {
    fn bitor_assign(&mut self, other: Told) {
        self.reader |= other.reader;
        self.writer |= other.writer;
        self.progress |= other.progress;
        self.asks |= other.asks;
    }
}

/// One VI of a program's, as its NIC has it.
#[derive(Debug)]
pub struct Reflection {
    segment: Arc<Segment>,
    vi: u32,
    /// The program's side of the segment.
    program: SideIndex,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Reflection {
    /// A VI that has just been connected; `program` is the program's side of the segment.
    pub fn new(segment: Arc<Segment>, vi: u32, program: SideIndex) -> Reflection {
        let (outgoing, incoming) = (Outgoing::new(vi, program), Incoming::new(vi, program ^ 1));
        Reflection { segment, vi, program, outgoing, incoming }
    }

    /// The VI's number in the segment.
    pub fn vi(&self) -> u32 {
        self.vi
    }

    /// Tells the far NIC what the program has published since the last time. False if there is more than there was
    /// room for.
    ///
    /// # Errors
    /// [`via_shm::Corrupt`] if the segment holds nonsense.
    pub fn collect(&mut self, sink: &mut impl Sink) -> Result<bool, via_shm::Corrupt> {
        // In this order: what the far program learns of this one's end counts what was consumed before, and
        // comes before it learns that this one has left.
        let words = self.incoming.words(&self.segment);
        Ok(self.incoming.tell_consumed(&self.segment, sink)
            && self.outgoing.collect(&self.segment, sink)?
            && self.incoming.tell_words(&self.segment, words, sink)?)
    }

    /// Publishes what the far NIC has sent.
    ///
    /// # Errors
    /// [`Malformed`] if that makes no sense; the VI is broken then.
    pub fn apply(&mut self, message: &Message<'_>) -> Result<Told, Malformed> {
        match message {
            Message::Consumed(_) | Message::Undelivered(..) | Message::Receiver(_) => {
                self.outgoing.apply(&self.segment, message)
            }
            _ => self.incoming.apply(&self.segment, message),
        }
    }

    /// The program has left the VI, or died: when all that it has published has been sent, [`Message::Gone`] follows.
    pub fn end(&mut self, has_died: bool) {
        self.outgoing.end(if has_died { word::DIED } else { word::ENDED });
    }

    /// Whether the far NIC has been sent that nothing comes any more.
    pub fn has_ended(&self) -> bool {
        self.outgoing.has_ended()
    }

    /// Whether the far NIC has sent that nothing comes any more.
    pub fn has_come_to_end(&self) -> bool {
        self.incoming.has_come_to_end()
    }

    /// Whether the program has seen its own TCP end.
    pub fn has_ended_on_tcp(&self) -> bool {
        self.incoming.words(&self.segment).ended != 0
    }

    /// Whether the kernel of the program's host has ended its TCP, and the connection with that.
    pub fn has_ended_here(&self) -> bool {
        self.incoming.words(&self.segment).ended == word::ENDED_HERE
    }

    /// For how many milliseconds what the program sends may stay unacknowledged; 0: it has not said.
    pub fn user_timeout(&self) -> u64 {
        self.segment.direction(self.vi, self.program ^ 1).reader.load(word::USER_TIMEOUT)
    }

    /// What of the program's bytes, and of its end, has been sent: it changes with each.
    pub fn sent(&self) -> impl PartialEq + use<> {
        self.outgoing.sent()
    }

    /// Notifies the reader and the writer if `told` has them; `ring` is called with their ready lists (a bitmap).
    pub fn tell(&self, told: Told, mut ring: impl FnMut(u32)) {
        if told.reader {
            let direction = self.segment.direction(self.vi, self.program ^ 1);
            via_shm::endpoint::tell(&direction.bell, &mut ring);
        }
        if told.writer {
            let direction = self.segment.direction(self.vi, self.program);
            via_shm::endpoint::tell(&direction.room, &mut ring);
        }
    }
}
