//! What a session says to its caller.

use super::leave::{Request, Target};
use crate::packet::Immediate;
#[cfg(doc)]
use crate::session::Session;
use crate::wakeup::Terms;

/// What is to be posted to the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Its immediate data.
    pub immediate: Immediate,
    /// Its bytes.
    pub body: Body,
}

/// The bytes of a packet that the session sends of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// None.
    Empty,
    /// These terms.
    Terms(Terms),
    /// This number, little-endian, four bytes.
    Number(u32),
    /// This request.
    Request(Request),
    /// Leave to write so many bytes: the caller says where ([`Leave`](super::Leave)), and lends that memory until the
    /// message is there or the connection is over.
    Leave {
        /// Bytes of the message at most.
        bytes: u32,
        /// The other end's program waits for it ([`Request::waits`]). If not, the memory must be such as can be lent for ever.
        waits: bool,
    },
    /// The combining buffer's first so many bytes, which are all.
    Combined(u32),
}

/// What becomes of bytes that the program offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// The first `len` go now: copied to a registered buffer.
    Copy {
        /// Bytes of the packet.
        len: u32,
        /// Its immediate data.
        immediate: Immediate,
        /// Where it is to be written by RDMA; its immediate data then is [`Written`](crate::packet::Written).
        to: Option<Target>,
    },
    /// The first `len` go now, from where they are, which is to be registered.
    Register {
        /// Bytes of the packet.
        len: u32,
        /// Its immediate data.
        immediate: Immediate,
        /// As for [`Offer::Copy`].
        to: Option<Target>,
    },
    /// All of them go to byte `at` of the combining buffer, and wait there.
    Join {
        /// Where in the buffer.
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// Nothing, until something arrives; there may be something to send first
    /// ([`Session::outgoing`]).
    Wait,
}

/// Why the program cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotWritable {
    /// It has closed its sending half.
    Shut,
    /// The connection is lost, or has not been made.
    Lost,
}

/// What an arrived packet means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes for the program: its buffer is kept until [`Session::consumed`].
    Data,
    /// So many bytes for the program, written to where its leave said; kept likewise. The packet's own buffer is free.
    Written(u32),
    /// The buffer is free at once.
    Nothing,
}
