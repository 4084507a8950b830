//! Bytes that the sender coalesces while the window is used up.
//!
//! A program may write more than a window of packets before its peer reads, because TCP accepts megabytes. The
//! sender appends the surplus bytes to the overflow buffer. The receiver reads the overflow buffer without the
//! sender's help. So the surplus bytes arrive even if the sender computes, sleeps or dies.
//!
//! One number keeps the stream in order: the number of ordered packets that were sent before coalescing began.
//! Coalescing ends only when the receiver has taken all coalesced bytes. So the unread part of the stream always
//! has this order:
//!
//! `packets sent before coalescing began, then the coalesced bytes, then new packets`
//!
//! The sender sends no new packet with data while the overflow buffer has untaken bytes.

/// Counts by which the sender orders packets and coalesced bytes.
///
/// ```
/// use sovia_proto::order::{Coalescer, Next, Take, Taker};
///
/// // The sender sends four packets, which use up the window. Then the sender coalesces 100 bytes.
/// let mut sender = Coalescer { packets: 4, ..Coalescer::default() };
/// sender.tail += 100;
/// assert_eq!(sender.next(0), Next::Coalesce);
///
/// let mut receiver = Taker { packets: 3, ..Taker::default() };
/// assert_eq!(receiver.next(sender.tail, sender.packets), Take::Packet);
/// receiver.packets += 1;
/// assert_eq!(receiver.next(sender.tail, sender.packets), Take::Coalesced(100));
/// receiver.head += 100;
/// assert_eq!(sender.next(receiver.head), Next::Packet);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Coalescer {
    /// Number of bytes coalesced so far.
    pub tail: u64,
    /// Number of coalesced bytes that the receiver has taken, as far as the sender knows.
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
    Coalesce,
}

impl Coalescer {
    /// Returns the destination of the sender's next bytes. `taken` is the number of coalesced bytes that the
    /// receiver claims to have taken. A number above `self.tail` counts as `self.tail`.
    #[inline]
    pub fn next(&mut self, taken: u64) -> Next {
        self.taken = taken.clamp(self.taken, self.tail);
        if self.taken == self.tail { Next::Packet } else { Next::Coalesce }
    }

    /// Returns true if the receiver has not taken all coalesced bytes, as far as the sender knows.
    #[inline]
    pub const fn is_coalescing(&self) -> bool {
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
    /// Coalesced bytes, this many.
    Coalesced(u64),
}

/// Counts by which the receiver orders packets and coalesced bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Taker {
    /// Number of coalesced bytes that the receiver has taken so far.
    pub head: u64,
    /// Number of ordered packets consumed so far.
    pub packets: u32,
}

impl Taker {
    /// Returns the next item for the receiver to take. `tail` is the sender's published number of coalesced bytes.
    /// `after` is the number of ordered packets before the coalesced bytes. The caller loads `after` later than
    /// `tail`.
    ///
    /// A FIN or ToTcp that arrives after the load of `tail` may follow newer coalesced bytes. So before the caller
    /// takes FIN or ToTcp, it loads `tail` again and calls this function again. A data packet cannot follow newer
    /// coalesced bytes: the sender sends data packets only while no coalesced bytes wait.
    #[inline]
    pub const fn next(&self, tail: u64, after: u32) -> Take {
        if tail != self.head && after == self.packets {
            Take::Coalesced(tail.wrapping_sub(self.head))
        } else {
            Take::Packet
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalescing_lasts_until_everything_is_taken() {
        let mut coalescer = Coalescer::default();
        assert_eq!(coalescer.next(0), Next::Packet);
        coalescer.tail = 10;
        assert!(coalescer.is_coalescing());
        assert_eq!(coalescer.next(9), Next::Coalesce);
        assert_eq!(coalescer.waiting(), 1);
        assert_eq!(coalescer.next(10), Next::Packet);
        assert!(!coalescer.is_coalescing());
    }

    #[test]
    fn receiver_that_lies_about_taken_bytes_gains_nothing() {
        let mut coalescer = Coalescer { tail: 10, taken: 5, packets: 0 };
        assert_eq!(coalescer.next(3), Next::Coalesce);
        assert_eq!(coalescer.waiting(), 5);
        assert_eq!(coalescer.next(u64::MAX), Next::Packet);
        assert_eq!(coalescer.waiting(), 0);
    }

    #[test]
    fn coalesced_bytes_come_after_the_packets_before_them() {
        let mut taker = Taker::default();
        assert_eq!(taker.next(0, 0), Take::Packet);
        assert_eq!(taker.next(7, 1), Take::Packet);
        taker.packets = 1;
        assert_eq!(taker.next(7, 1), Take::Coalesced(7));
        taker.head = 7;
        assert_eq!(taker.next(7, 1), Take::Packet);
    }
}
