//! Where a direction of a stream runs, and how it moves.
//!
//! A stream starts on the kernel's TCP connection (its anchor). Once both ends hold a VI for it:
//!
//! 1. the receiver **grants** the VI, when the program itself reads from or waits on the socket;
//! 2. the sender sees the grant before its next byte and **switches**: it publishes the number `n`
//!    of bytes that it has put on TCP, and sends everything from byte `n` on over the VI;
//! 3. the receiver reads TCP up to byte `n`, then **enters** the VI and says so;
//! 4. going back, the sender ends the VI's part by a ToTcp packet, but only after the receiver has
//!    entered: else TCP's bytes from before and after could meet in one read;
//! 5. the receiver **returns** when it reaches that packet. A direction goes there and back once.
//!
//! The receiver may ask for step 4 (**recall**), before an exec say. Then it stops reading the VI,
//! publishes where it stands, and whoever has the sender's anchor puts the rest of the VI's bytes
//! on TCP, in order, before any newer byte.
//!
//! The shared words are passed in and out here; `tests/paths.rs` checks every interleaving.

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
    /// Bytes come from kernel TCP for good.
    Back = 3,
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
    Recalled = 3,
}

impl Grant {
    /// From the shared word; anything unknown is [`Grant::None`].
    pub const fn from_word(word: u64) -> Grant {
        match word {
            1 => Grant::Granted,
            2 => Grant::Entered,
            3 => Grant::Recalled,
            _ => Grant::None,
        }
    }
}

/// The sender's published word: 0 before the switch, then `n + 1`.
pub const fn switch_word(tcp_bytes: u64) -> u64 {
    tcp_bytes + 1
}

/// What a receiver that has granted the VI reads from next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// TCP; the sender has not switched, so everything there comes before anything on the VI.
    Tcp,
    /// At most that many bytes from TCP.
    TcpUpTo(u64),
    /// The VI: enter it.
    Vi,
    /// The published switch lies before what has been read already.
    Impossible,
}

/// Steps 2 and 3, for the receiver: `switch` is the sender's word, `read` what has been read from
/// TCP in this direction so far.
pub const fn source(switch: u64, read: u64) -> Source {
    match switch {
        0 => Source::Tcp,
        word => {
            let n = word - 1;
            if read < n {
                Source::TcpUpTo(n - read)
            } else if read == n {
                Source::Vi
            } else {
                Source::Impossible
            }
        }
    }
}
