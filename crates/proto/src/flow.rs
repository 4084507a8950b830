//! The sliding window and delayed acknowledgements (ICS section 4.2).
//!
//! A sender may have `w` data packets unacknowledged. The receiver acknowledges a packet once the
//! program has consumed it, and only counts at first: what it owes rides on its own next data
//! packet, or goes alone as soon as `t` are owed. At most `w` data packets and `w / t`
//! acknowledgements can then be on their way to a node, which is how many receives it must have
//! posted (plus a FIN, a FINACK and a switch of path, which no window holds back).

use crate::Violation;
use crate::packet::{Immediate, Kind};

/// The two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Window `w`: unacknowledged data packets allowed.
    pub window: u16,
    /// Threshold `t`: owed acknowledgements that are sent alone.
    pub threshold: u16,
}

/// The papers' choice for all but their simplest configurations.
pub const DACKS: Parameters = Parameters { window: 32, threshold: 16 };

impl Parameters {
    /// Receives that each end keeps posted: `w + w / t`, and one each for FIN, FINACK, ToTcp.
    pub const fn receives(self) -> u16 {
        self.window + self.window.div_ceil(self.threshold) + 3
    }
}

/// One end's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Flow {
    window: u16,
    threshold: u16,
    /// Data packets sent and not yet acknowledged.
    unacked: u16,
    /// Data packets consumed and not yet acknowledged to the peer.
    owed: u16,
    /// Data packets arrived and not yet consumed.
    held: u16,
}

impl Flow {
    /// An end with nothing on its way.
    pub const fn new(parameters: Parameters) -> Flow {
        let Parameters { window, threshold } = parameters;
        Flow { window, threshold, unacked: 0, owed: 0, held: 0 }
    }

    /// Whether the window has room for a data packet.
    #[inline]
    pub const fn can_send(&self) -> bool {
        self.unacked < self.window
    }

    /// How much of the window is in use.
    #[inline]
    pub const fn unacked(&self) -> u16 {
        self.unacked
    }

    /// Data packets that have arrived and wait for the program.
    #[inline]
    pub const fn held(&self) -> u16 {
        self.held
    }

    /// The immediate data of a packet that is sent now. Whatever is owed rides along.
    #[inline]
    pub const fn send(&mut self, kind: Kind) -> Immediate {
        debug_assert!(self.can_send() || !matches!(kind, Kind::Data));
        if matches!(kind, Kind::Data) {
            self.unacked += 1;
        }
        let acks = self.owed;
        self.owed = 0;
        Immediate { kind, acks }
    }

    /// A packet has arrived.
    ///
    /// # Errors
    /// [`Violation`] for acknowledgements of what was not sent, and for more data than the window
    /// allows.
    #[inline]
    pub const fn arrived(&mut self, packet: Immediate) -> Result<(), Violation> {
        if packet.acks > self.unacked {
            return Err(Violation("acknowledges more than was sent"));
        }
        self.unacked -= packet.acks;
        if matches!(packet.kind, Kind::Data) {
            if self.held + self.owed >= self.window {
                return Err(Violation("sends beyond the window"));
            }
            self.held += 1;
        }
        Ok(())
    }

    /// The program has consumed a data packet. True when acknowledgements must go out alone.
    #[inline]
    pub const fn consumed(&mut self) -> bool {
        self.held = self.held.saturating_sub(1);
        self.owed += 1;
        self.owed >= self.threshold
    }
}
