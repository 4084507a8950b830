//! Results that a session returns to its caller.

use super::leave::{Request, Target};
use crate::packet::Immediate;
#[cfg(doc)]
use crate::session::Session;
use crate::wakeup::Terms;

/// A packet that the caller must post to the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Immediate data of the packet.
    pub immediate: Immediate,
    /// Bytes of the packet.
    pub body: Body,
}

/// The bytes of a packet that the session sends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No bytes.
    Empty,
    /// The limits of this end, in a WAKEUP packet.
    Terms(Terms),
    /// A permission without memory: the maximum length of the message, in four bytes, little-endian.
    Number(u32),
    /// A request for permission.
    Request(Request),
    /// A permission to write a message by RDMA. The caller chooses the memory for the message, and encodes a
    /// [`Leave`](super::Leave). The caller lends this memory until the message has arrived or the connection is
    /// over.
    Leave {
        /// Maximum length of the message in bytes.
        bytes: u32,
        /// Set if the other end's program waits for the permission ([`Request::waits`]). If not set, the message
        /// may never come, so the caller must choose memory that it can lend for ever.
        waits: bool,
    },
    /// All bytes of the combining buffer, this many.
    Combined(u32),
}

/// Instruction to the caller for bytes that the program offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Copy the first `len` bytes to a registered buffer, and post it now.
    Copy {
        /// Length of the packet in bytes.
        len: u32,
        /// Immediate data of the packet.
        immediate: Immediate,
        /// Memory of the peer, if the caller must send the message by RDMA write. The immediate data is then a
        /// [`Written`](crate::packet::Written).
        to: Option<Target>,
    },
    /// Register the memory of the first `len` bytes, and post these bytes now.
    Register {
        /// Length of the packet in bytes.
        len: u32,
        /// Immediate data of the packet.
        immediate: Immediate,
        /// Memory of the peer, as in [`Offer::Copy`].
        to: Option<Target>,
    },
    /// Copy the first `len` bytes to the combining buffer, at offset `at`. The bytes wait there for further
    /// messages.
    Join {
        /// Offset in the combining buffer, in bytes.
        at: u32,
        /// Number of bytes.
        len: u32,
    },
    /// Wait until a packet arrives. Before the wait, post all packets that [`Session::outgoing`] returns.
    Wait,
}

/// Reason why the program cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotWritable {
    /// The program has closed its sending half.
    Shut,
    /// The connection is lost, or not yet made.
    Lost,
}

/// Meaning of an arrived packet for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes for the program. The caller keeps the packet's buffer until [`Session::consumed`].
    Data,
    /// This many bytes for the program, in the memory that this end's permission named. The caller keeps this
    /// memory until [`Session::consumed`]. The packet's own buffer is free at once.
    Written(u32),
    /// Nothing for the program. The packet's buffer is free at once.
    Nothing,
}
