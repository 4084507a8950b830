//! What the engine is told about its network.

use sovia_link::stream::{Control, Timing};

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a message that one packet carries.
    pub mtu: u32,
    /// Packets of one direction of a connection that may be on their way.
    pub window: u32,
    /// How long an acknowledgement or an answer is awaited.
    pub timing: Timing,
    /// What limits a connection beside its window.
    pub control: Control,
}

impl Config {
    /// Whether something that has been said `tries` times is said no more.
    pub(crate) fn is_enough(&self, tries: u32) -> bool {
        self.timing.tries.is_some_and(|most| tries > most)
    }
}
