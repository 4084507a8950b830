//! What the engine is told about its network.

use sovia_link::stream::{Control, Timing};
use sovia_link::wire::Checksum;

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a message that one packet carries.
    pub mtu: u32,
    /// Whether a path may take less than the network of this side does, or more, so that it is asked what it takes.
    pub probes: bool,
    /// Packets of one direction of a connection that may be on their way.
    pub window: u32,
    /// What else limits them.
    pub control: Control,
    /// How long an acknowledgement or an answer is awaited.
    pub timing: Timing,
    /// Whether frames that come must have a checksum, or the network drops those that are corrupt.
    pub checksum: Checksum,
}

impl Config {
    /// Whether something that has been said `tries` times is said no more.
    pub(crate) fn is_enough(&self, tries: u32) -> bool {
        self.timing.tries.is_some_and(|most| tries > most)
    }
}
