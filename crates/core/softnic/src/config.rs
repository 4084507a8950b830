//! Settings of the engine for its network.

use sovia_link::stream::{Control, Timing};
use sovia_link::wire::Checksum;

/// Settings for the transport of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Number of message bytes that one packet carries.
    pub mtu: u32,
    /// Set if paths may take other frame lengths than this side's network, so that the world probes them.
    pub probes: bool,
    /// Largest number of packets in flight in one direction of a connection.
    pub window: u32,
    /// Congestion control, which further limits the packets in flight.
    pub control: Control,
    /// Waits for acknowledgements and answers.
    pub timing: Timing,
    /// Checksum required of incoming frames, or none if the network drops corrupt frames.
    pub checksum: Checksum,
}

impl Config {
    /// Returns true if a frame that has been sent `tries` times must not be repeated.
    pub(crate) fn is_enough(&self, tries: u32) -> bool {
        self.timing.tries.is_some_and(|most| tries > most)
    }
}
