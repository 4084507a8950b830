//! Reflects a VI between two segments. The VI's two ends share no memory, but each end uses the VI like one in
//! shared memory.
//!
//! A program's end of a stream lies in a segment ([`sovia_ring`]). If the other end is on another host, a NIC in
//! software holds the other side of this segment. The remote host's NIC holds the other side of the remote
//! program's segment. Each NIC copies to its own segment what the remote program publishes in the remote segment.
//! Ring entries keep their numbers, and bytes of the pool and the overflow buffer keep their positions. Words and
//! credit are copied, too. So a program runs the same protocol with a remote peer as with a peer that shares the
//! segment.
//!
//! If the program is killed, the NIC still finds the program's bytes in the segment. Bytes that the remote program
//! has not consumed stay in the sender's segment, because the NICs copy the credit. No NIC keeps a copy of these
//! bytes.
//!
//! - [`message`]: the messages between two NICs about a VI.
//! - `outgoing`: the direction in which the NIC's own program sends. `incoming`: the direction in which this
//!   program receives.
//!
//! **Order.** The channel between the NICs neither loses nor reorders messages. A NIC publishes changes in the
//! order in which the program published them, as far as the protocol depends on this order ([`message::Message`]).
//!
//! **Words with two writers.** The ends make two decisions by compare-exchange ([`sovia_proto::path`]): if the
//! sender's switch stands, and if the sender puts returned bytes on TCP. The words of both decisions lie in the
//! sender's segment. So the sender's NIC executes the receiver's exchanges when the receiver asks for them. It
//! claims the switch for a receiver, and answers a revoke and a return of bytes ([`sovia_proto::word::ANSWER`]). So
//! a sender never waits for the other host. A receiver waits once when it enters the VI, and once when it falls
//! back to TCP. [`sovia_proto::path::reflected`] gives the rules, and names the tests that check them.

#![forbid(unsafe_code)]

mod incoming;
pub mod message;
mod outgoing;

use core::fmt;
use incoming::Incoming;
use message::Message;
use outgoing::Outgoing;
pub use outgoing::Sent;
use sovia_proto::word;
use sovia_ring::Segment;
use sovia_ring::segment::SideIndex;
use std::sync::Arc;

/// Reports a message that a correct remote NIC cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message between NICs: {}", self.0)
    }
}

impl core::error::Error for Malformed {}

/// Destination of messages for the remote NIC.
pub trait Sink {
    /// Returns true if the sink can accept a message now.
    fn has_room(&mut self) -> bool;
    /// Adds a message, which `write` appends to a buffer. Call it only after [`Sink::has_room`] has returned true.
    fn append(&mut self, write: &mut dyn FnMut(&mut Vec<u8>));

    /// Adds `message`. Call it only after [`Sink::has_room`] has returned true.
    fn put(&mut self, message: &Message<'_>) {
        self.append(&mut |out| message.encode(out));
    }
}

/// The threads of a program to notify after its NIC has published changes in the program's segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// Notify the reader of the direction in which the program receives.
    pub reader: bool,
    /// Notify the writer of the direction in which the program sends.
    pub writer: bool,
    /// Notify the progress thread, which watches the kernel sockets, because the path may have to change.
    pub progress: bool,
    /// TCP has ended at the remote program. The NIC, not a thread of the program, must find out if its own program
    /// still holds the socket.
    pub asks: bool,
}

impl Told {
    /// All waiting threads of the program.
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

/// A VI of a program, at the program's NIC.
#[derive(Debug)]
pub struct Reflection {
    segment: Arc<Segment>,
    vi: u32,
    /// The program's side of the segment. The NIC has the other side.
    program: SideIndex,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Reflection {
    /// Creates the state of a newly connected VI. `program` is the program's side of the segment.
    pub fn new(segment: Arc<Segment>, vi: u32, program: SideIndex) -> Reflection {
        let (outgoing, incoming) = (Outgoing::new(vi, program), Incoming::new(vi, program ^ 1));
        Reflection { segment, vi, program, outgoing, incoming }
    }

    /// Returns the VI's number in the segment.
    pub fn vi(&self) -> u32 {
        self.vi
    }

    /// Sends the remote NIC all changes that the program has published since the last call. Returns false if the sink
    /// had no room for all of them.
    ///
    /// # Errors
    /// [`sovia_ring::Corrupt`] if the segment holds an invalid value.
    pub fn collect(&mut self, sink: &mut impl Sink) -> Result<bool, sovia_ring::Corrupt> {
        // Load the program's words first and send them last. So the remote program first gets everything that this
        // program consumed and sent before it wrote these words.
        let words = self.incoming.words(&self.segment);
        Ok(self.incoming.tell_consumed(&self.segment, sink)
            && self.outgoing.collect(&self.segment, sink)?
            && self.incoming.tell_words(&self.segment, words, sink)?)
    }

    /// Publishes the changes in a message of the remote NIC.
    ///
    /// # Errors
    /// [`Malformed`] if the message is invalid. The VI is then broken.
    pub fn apply(&mut self, message: &Message<'_>) -> Result<Told, Malformed> {
        match message {
            Message::Consumed(_) | Message::Undelivered(..) | Message::Receiver(_) => {
                self.outgoing.apply(&self.segment, message)
            }
            _ => self.incoming.apply(&self.segment, message),
        }
    }

    /// Records that the program has left the VI or died. The NIC sends [`Message::Gone`] after everything that the
    /// program has published.
    pub fn end(&mut self, has_died: bool) {
        self.outgoing.end(if has_died { word::DIED } else { word::ENDED });
    }

    /// Returns true if [`Message::Gone`] has been sent to the remote NIC.
    pub fn has_ended(&self) -> bool {
        self.outgoing.has_ended()
    }

    /// Returns true if [`Message::Gone`] has arrived from the remote NIC.
    pub fn has_come_to_end(&self) -> bool {
        self.incoming.has_come_to_end()
    }

    /// Returns true if the program has found the end of its own TCP connection.
    pub fn has_ended_on_tcp(&self) -> bool {
        self.incoming.words(&self.segment).ended != 0
    }

    /// Returns true if the kernel of the program's host has ended TCP, and so the whole connection.
    pub fn has_ended_here(&self) -> bool {
        self.incoming.words(&self.segment).ended == word::ENDED_HERE
    }

    /// Returns the number of milliseconds for which the program's bytes may stay unacknowledged; 0 if the program has
    /// set no limit.
    pub fn user_timeout(&self) -> u64 {
        self.segment.direction(self.vi, self.program ^ 1).reader.load(word::USER_TIMEOUT)
    }

    /// Returns how much has been sent of the program's bytes, and of its FIN.
    pub fn sent(&self) -> Sent {
        self.outgoing.sent()
    }

    /// Notifies the reader and the writer that `told` names. Calls `ring` with a bitmap of their ready lists.
    pub fn tell(&self, told: Told, mut ring: impl FnMut(u32)) {
        if told.reader {
            let direction = self.segment.direction(self.vi, self.program ^ 1);
            sovia_ring::endpoint::notify(&direction.wake_word, &mut ring);
        }
        if told.writer {
            let direction = self.segment.direction(self.vi, self.program);
            sovia_ring::endpoint::notify(&direction.room, &mut ring);
        }
    }
}
