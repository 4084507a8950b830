//! What a session says to its caller.

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
    },
    /// The first `len` go now, from where they are, which is to be registered.
    Register {
        /// Bytes of the packet.
        len: u32,
        /// Its immediate data.
        immediate: Immediate,
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
    /// The buffer is free at once.
    Nothing,
}
