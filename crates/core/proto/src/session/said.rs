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
    /// The end's terms.
    Terms(Terms),
    /// A number of four bytes, little-endian.
    Number(u32),
    /// A request for permission.
    Request(Request),
    /// A permission to write a message. The caller chooses the memory and encodes a [`Leave`](super::Leave). It
    /// lends the memory until the message has arrived or the connection is over.
    Leave {
        /// Maximum length of the message in bytes.
        bytes: u32,
        /// Set if the other end's program waits for the permission ([`Request::waits`]). If not set, the caller
        /// must choose memory that it can lend for ever.
        waits: bool,
    },
    /// All bytes of the combining buffer, and their number.
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
        /// Memory for an RDMA write. With it, the immediate data is [`Written`](crate::packet::Written).
        to: Option<Target>,
    },
    /// Register the first `len` bytes where they are, and post them now.
    Register {
        /// Length of the packet in bytes.
        len: u32,
        /// Immediate data of the packet.
        immediate: Immediate,
        /// Memory for an RDMA write, as in [`Offer::Copy`].
        to: Option<Target>,
    },
    /// Copy all bytes to byte `at` of the combining buffer, where they wait.
    Join {
        /// Position in the buffer.
        at: u32,
        /// Number of bytes.
        len: u32,
    },
    /// Wait until a packet arrives. Before that, there may be a packet to send ([`Session::outgoing`]).
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
    /// This many bytes for the program, written to the memory that the permission named. The caller keeps that
    /// memory until [`Session::consumed`]. The packet's own buffer is free at once.
    Written(u32),
    /// Nothing for the program. The packet's buffer is free at once.
    Nothing,
}
