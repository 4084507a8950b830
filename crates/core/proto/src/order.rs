//! Bytes that the window held back.
//!
//! A program may write more than the window's packets before its peer reads (TCP takes megabytes).
//! The surplus is gathered in memory that the receiver can reach too, and the receiver takes it
//! from there by itself, so it arrives even if the sender computes, sleeps or dies. What keeps the
//! stream in order is one number: gathering starts after a number of ordered packets, and ends
//! only when the receiver has taken everything. So at any time the rest of the stream is
//!
//! `packets that were sent before gathering began, then the gathered bytes, then new packets`
//!
//! and the last two are never both there.

/// The sender's side of a gathering.
///
/// ```
/// use sovia_proto::order::{Gatherer, Next, Take, Taker};
///
/// // Four packets are sent; then the window is used up, and 100 bytes are gathered behind them.
/// let mut sender = Gatherer { packets: 4, ..Gatherer::default() };
/// sender.tail += 100;
/// assert_eq!(sender.next(0), Next::Gather);
///
/// let mut receiver = Taker { packets: 3, ..Taker::default() };
/// assert_eq!(receiver.next(sender.tail, sender.packets), Take::Packet);
/// receiver.packets += 1;
/// assert_eq!(receiver.next(sender.tail, sender.packets), Take::Gathered(100));
/// receiver.head += 100;
/// assert_eq!(sender.next(receiver.head), Next::Packet);
/// ```
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
    ///
    /// A packet that was not there when `tail` was read may have been sent after more was gathered.
    /// Data is not (packets and gathered bytes are never both there); FIN and ToTcp may be, so
    /// before one of them is taken, `tail` is read again and this is asked again.
    #[inline]
    pub const fn next(&self, tail: u64, after: u32) -> Take {
        if tail != self.head && after == self.packets {
            Take::Gathered(tail.wrapping_sub(self.head))
        } else {
            Take::Packet
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathering_lasts_until_everything_is_taken() {
        let mut gatherer = Gatherer::default();
        assert_eq!(gatherer.next(0), Next::Packet);
        gatherer.tail = 10;
        assert!(gatherer.is_gathering());
        assert_eq!(gatherer.next(9), Next::Gather);
        assert_eq!(gatherer.waiting(), 1);
        assert_eq!(gatherer.next(10), Next::Packet);
        assert!(!gatherer.is_gathering());
    }

    #[test]
    fn a_receiver_that_lies_about_what_it_took_gains_nothing() {
        let mut gatherer = Gatherer { tail: 10, taken: 5, packets: 0 };
        assert_eq!(gatherer.next(3), Next::Gather);
        assert_eq!(gatherer.waiting(), 5);
        assert_eq!(gatherer.next(u64::MAX), Next::Packet);
        assert_eq!(gatherer.waiting(), 0);
    }

    #[test]
    fn gathered_bytes_come_after_the_packets_before_them() {
        let mut taker = Taker::default();
        assert_eq!(taker.next(0, 0), Take::Packet);
        assert_eq!(taker.next(7, 1), Take::Packet);
        taker.packets = 1;
        assert_eq!(taker.next(7, 1), Take::Gathered(7));
        taker.head = 7;
        assert_eq!(taker.next(7, 1), Take::Packet);
    }
}
