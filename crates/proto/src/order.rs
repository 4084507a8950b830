//! Bytes that the window held back.
//!
//! A program may write more than the window's packets before anybody reads (TCP takes megabytes).
//! The surplus is gathered in memory that the receiver can reach too, and the receiver takes it
//! from there by itself, so it arrives even if the sender computes, sleeps or dies. What keeps the
//! stream in order is one number: gathering starts after a number of ordered packets, and ends
//! only when the receiver has taken everything. So at any time the rest of the stream is
//!
//! `packets that were sent before gathering began, then the gathered bytes, then new packets`
//!
//! and the last two are never both there.

/// The sender's side of a gathering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Gatherer {
    /// Stream position (of gathered bytes alone) up to which bytes have been gathered.
    pub tail: u64,
    /// How far the receiver is known to have taken them.
    pub taken: u64,
    /// Ordered packets sent so far.
    pub packets: u32,
}

/// Where the sender's next bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Into a packet.
    Packet,
    /// Onto a gathering that has begun.
    Gather,
}

impl Gatherer {
    /// Where the next bytes must go, given how far the receiver says it has taken the gathered
    /// ones. A value beyond what was gathered counts as all of it.
    #[inline]
    pub fn next(&mut self, taken: u64) -> Next {
        self.taken = taken.clamp(self.taken, self.tail);
        if self.taken == self.tail { Next::Packet } else { Next::Gather }
    }

    /// Whether a gathering is going on, by what is known here.
    #[inline]
    pub const fn is_gathering(&self) -> bool {
        self.tail != self.taken
    }

    /// Bytes gathered and not known to be taken.
    #[inline]
    pub const fn waiting(&self) -> u64 {
        self.tail - self.taken
    }
}

/// What the receiver must take next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The next ordered packet, if there is one.
    Packet,
    /// That many gathered bytes.
    Gathered(u64),
}

/// The receiver's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Taker {
    /// Gathered bytes taken so far.
    pub head: u64,
    /// Ordered packets consumed so far.
    pub packets: u32,
}

impl Taker {
    /// What comes next. `tail` is the sender's published one; `after`, read later than `tail`, is
    /// the number of ordered packets that go before what is gathered.
    #[inline]
    pub const fn next(&self, tail: u64, after: u32) -> Take {
        if tail != self.head && after == self.packets {
            Take::Gathered(tail.wrapping_sub(self.head))
        } else {
            Take::Packet
        }
    }
}
