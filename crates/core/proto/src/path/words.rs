//! The two sides of a direction, and the words that they share.

#[cfg(doc)]
use super::rescue;

/// The sender's side of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Tx {
    /// Bytes go to kernel TCP; the VI may still be granted.
    Tcp = 0,
    /// Bytes go to the VI.
    Vi = 1,
    /// Bytes go to kernel TCP for good.
    Back = 2,
}

impl Tx {
    /// From its number; anything unknown is [`Tx::Back`].
    pub const fn from_u32(n: u32) -> Tx {
        match n {
            0 => Tx::Tcp,
            1 => Tx::Vi,
            _ => Tx::Back,
        }
    }
}

/// The receiver's side of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Rx {
    /// Bytes come from kernel TCP; nothing has been granted.
    Tcp = 0,
    /// The VI is granted; bytes come from TCP up to the switch.
    Granted = 1,
    /// Bytes come from the VI.
    Vi = 2,
    /// Bytes come from kernel TCP, for good unless they are returned ones ([`rescue`]).
    Back = 3,
}

impl Rx {
    /// From its number; anything unknown is [`Rx::Back`].
    pub const fn from_u32(n: u32) -> Rx {
        match n {
            0 => Rx::Tcp,
            1 => Rx::Granted,
            2 => Rx::Vi,
            _ => Rx::Back,
        }
    }
}

/// The receiver's published word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Grant {
    /// Not granted.
    None = 0,
    /// Granted: the sender may switch.
    Granted = 1,
    /// The receiver has read TCP up to the switch and now reads the VI.
    Entered = 2,
    /// The receiver wants the direction back on TCP.
    Revoked = 3,
}

impl Grant {
    /// From the shared word; anything unknown is [`Grant::None`].
    pub const fn from_word(word: u64) -> Grant {
        match word {
            1 => Grant::Granted,
            2 => Grant::Entered,
            3 => Grant::Revoked,
            _ => Grant::None,
        }
    }
}

/// The sender's switch word once it has taken the switch back.
pub const CANCELLED: u64 = u64::MAX;

/// Set in the switch word by a receiver that has entered, or whose retreat has claimed it.
pub const ENTERED: u64 = 1 << 63;

/// The sender's published word: 0 before the switch, then `n + 1`.
pub const fn switch_word(tcp_bytes: u64) -> u64 {
    tcp_bytes + 1
}

/// The switch word, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The sender is on TCP.
    Not,
    /// From that byte on the stream is on the VI; the receiver has not entered it.
    At(u64),
    /// Likewise, and the receiver has entered, or its retreat has claimed the switch.
    Entered(u64),
    /// Taken back: the whole stream is on TCP, and stays there.
    Cancelled,
}

impl Switch {
    /// From the shared word.
    pub const fn from_word(word: u64) -> Switch {
        match word {
            0 => Switch::Not,
            CANCELLED => Switch::Cancelled,
            _ if word & ENTERED != 0 => Switch::Entered((word & !ENTERED).saturating_sub(1)),
            _ => Switch::At(word - 1),
        }
    }
}

/// The returned word of a sender that will not drain. Both ends leave 0 by compare-exchange, so
/// either the sender drains or the receiver reads on from the VI, never both or neither.
pub const REFUSED: u64 = u64::MAX;

/// The returned word, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Returned {
    /// Neither end has published anything.
    Not,
    /// The receiver has returned that many bytes (0: it reads on from the VI, if there are any).
    Bytes(u64),
    /// The sender has gone its own way.
    Refused,
}

impl Returned {
    /// From the shared word.
    pub const fn from_word(word: u64) -> Returned {
        match word {
            0 => Returned::Not,
            REFUSED => Returned::Refused,
            _ => Returned::Bytes(word - 1),
        }
    }
}

/// The returned word for that many bytes.
pub const fn returned_word(bytes: u64) -> u64 {
    bytes + 1
}
