//! States of a direction's two ends, and the words that the two ends share.

#[cfg(doc)]
use super::rescue;

/// The sender's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Tx {
    /// Bytes go to kernel TCP. The receiver may still grant the VI.
    Tcp = 0,
    /// Bytes go to the VI.
    Vi = 1,
    /// Bytes go to kernel TCP for good.
    Back = 2,
}

impl Tx {
    /// Returns the state with the number `n`, or [`Tx::Back`] for an unknown number.
    pub const fn from_u32(n: u32) -> Tx {
        match n {
            0 => Tx::Tcp,
            1 => Tx::Vi,
            _ => Tx::Back,
        }
    }
}

/// The receiver's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Rx {
    /// Bytes come from kernel TCP. The receiver has granted nothing.
    Tcp = 0,
    /// The receiver has granted the VI. Bytes come from TCP up to the switch.
    Granted = 1,
    /// Bytes come from the VI.
    Vi = 2,
    /// Bytes come from kernel TCP for good, except returned bytes that TCP does not bring ([`rescue`]).
    Back = 3,
}

impl Rx {
    /// Returns the state with the number `n`, or [`Rx::Back`] for an unknown number.
    pub const fn from_u32(n: u32) -> Rx {
        match n {
            0 => Rx::Tcp,
            1 => Rx::Granted,
            2 => Rx::Vi,
            _ => Rx::Back,
        }
    }
}

/// Decoded grant word, which the receiver publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Grant {
    /// The receiver has not granted the VI.
    None = 0,
    /// The receiver has granted the VI: the sender may switch.
    Granted = 1,
    /// The receiver has read TCP up to the switch, and now reads the VI.
    Entered = 2,
    /// The receiver asks the sender to move the direction back to TCP.
    Revoked = 3,
}

impl Grant {
    /// Decodes a grant word. An unknown value counts as [`Grant::None`].
    pub const fn from_word(word: u64) -> Grant {
        match word {
            1 => Grant::Granted,
            2 => Grant::Entered,
            3 => Grant::Revoked,
            _ => Grant::None,
        }
    }
}

/// Value of the switch word after the sender has taken the switch back.
pub const CANCELLED: u64 = u64::MAX;

/// Bit that the receiver sets in the switch word when it enters, or when its fallback claims the switch.
pub const ENTERED: u64 = 1 << 63;

/// Returns the word that a sender publishes when it switches: the number of bytes that it has put on TCP, plus 1.
/// The word is 0 until the sender switches.
pub const fn switch_word(tcp_bytes: u64) -> u64 {
    tcp_bytes + 1
}

/// A decoded switch word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The sender is on TCP.
    Not,
    /// The stream is on the VI from this byte on. The receiver has neither entered nor claimed the switch.
    At(u64),
    /// The stream is on the VI from this byte on. The receiver has entered, or its fallback has claimed the switch.
    Entered(u64),
    /// The sender took the switch back. The whole stream is on TCP, and stays there.
    Cancelled,
}

impl Switch {
    /// Decodes a switch word.
    pub const fn from_word(word: u64) -> Switch {
        match word {
            0 => Switch::Not,
            CANCELLED => Switch::Cancelled,
            _ if word & ENTERED != 0 => Switch::Entered((word & !ENTERED).saturating_sub(1)),
            _ => Switch::At(word - 1),
        }
    }
}

/// Value of the returned word after the sender has refused to drain. Each end replaces 0 in the returned word by
/// compare-exchange, so only one end succeeds. So either the sender drains the unread bytes, or the receiver reads
/// them on the VI.
pub const REFUSED: u64 = u64::MAX;

/// A decoded returned word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Returned {
    /// The receiver has not returned bytes, and the sender has not refused.
    Not,
    /// The receiver has returned this many bytes. If the number is 0, the receiver reads its unread bytes on the
    /// VI.
    Bytes(u64),
    /// The sender has refused to drain.
    Refused,
}

impl Returned {
    /// Decodes a returned word.
    pub const fn from_word(word: u64) -> Returned {
        match word {
            0 => Returned::Not,
            REFUSED => Returned::Refused,
            _ => Returned::Bytes(word - 1),
        }
    }
}

/// Returns the word by which a receiver returns this many bytes.
pub const fn returned_word(bytes: u64) -> u64 {
    bytes + 1
}
