//! Bytes that the sender coalesces while the window is used up.
//!
//! A program may write more than a window of packets before its peer reads; TCP accepts megabytes. The sender
//! coalesces the surplus in the overflow buffer, which the receiver can read too. The receiver takes the bytes from
//! there by itself. So they arrive even if the sender computes, sleeps or dies.
//!
//! One number keeps the stream in order: the number of ordered packets that were sent before coalescing began.
//! Coalescing ends only when the receiver has taken everything. So at any time the rest of the stream is
//!
//! `packets sent before coalescing began, then the coalesced bytes, then new packets`
//!
//! Coalesced bytes and new packets never exist at the same time.

/// The sender's counts. In the code, to gather means to coalesce.
///
/// ```
/// use sovia_proto::order::{Gatherer, Next, Take, Taker};
///
/// // The sender sends four packets. Then the window is used up, and the sender coalesces 100 bytes behind them.
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
    /// Position of the end of the coalesced bytes. Positions count coalesced bytes only.
    pub tail: u64,
    /// Position up to which the receiver has taken the coalesced bytes, as far as the sender knows.
    pub taken: u64,
    /// Number of ordered packets sent so far.
    pub packets: u32,
}

/// Destination of the sender's next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A packet.
    Packet,
    /// The overflow buffer, because coalescing has begun.
    Gather,
}

impl Gatherer {
    /// Returns the destination of the next bytes. `taken` is the receiver's published position. A value beyond the
    /// end of the coalesced bytes counts as the end.
    #[inline]
    pub fn next(&mut self, taken: u64) -> Next {
        self.taken = taken.clamp(self.taken, self.tail);
        if self.taken == self.tail { Next::Packet } else { Next::Gather }
    }

    /// Returns true if the overflow buffer holds bytes, as far as the sender knows.
    #[inline]
    pub const fn is_gathering(&self) -> bool {
        self.tail != self.taken
    }

    /// Returns the number of coalesced bytes that the receiver has not taken, as far as the sender knows.
    #[inline]
    pub const fn waiting(&self) -> u64 {
        self.tail - self.taken
    }
}

/// Next item for the receiver to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The next ordered packet, if one has arrived.
    Packet,
    /// This many coalesced bytes.
    Gathered(u64),
}

/// The receiver's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Taker {
    /// Position up to which the receiver has taken coalesced bytes.
    pub head: u64,
    /// Number of ordered packets consumed so far.
    pub packets: u32,
}

impl Taker {
    /// Returns the next item for the receiver to take. `tail` is the position that the sender has published.
    /// `after`, loaded later than `tail`, is the number of ordered packets before the coalesced bytes.
    ///
    /// A packet that was not there when `tail` was loaded may follow newer coalesced bytes. This cannot be a data
    /// packet, because coalesced bytes and new packets never exist at the same time. But it may be FIN or ToTcp. So
    /// before the caller takes FIN or ToTcp, it loads `tail` again and calls this again.
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
