//! The layers that are compared: ways to move bytes from one process to another.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::task::{Cpus, Scenario, Wait};

/// A way for bytes from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layer {
    /// Bare ring in shared memory, spinning, no protocol: the hardware's limit
    Ring,
    /// One eventfd each way, no data: the limit if both ends sleep
    Eventfd,
    /// Native Virtual Interface, used through descriptors: the base of Sovia's sockets
    Via,
    /// Native Virtual Interface on the NIC of `--nic`
    Nic,
    /// The kernel's TCP over loopback
    Tcp,
    /// The kernel's Unix stream sockets
    Unix,
    /// The programs of `tcp` with Sovia's library
    Sovia,
}

impl Layer {
    /// Returns all layers that make sense for a scenario, in the order of the tables.
    pub(super) fn all_for(scenario: Scenario, wait: Wait) -> Vec<Self> {
        let mut layers = match (scenario, wait) {
            (Scenario::Connect, _) => return vec![Self::Tcp, Self::Sovia],
            (Scenario::Load, _) => return vec![Self::Tcp, Self::Unix, Self::Sovia],
            // These layers cannot sleep at once without polling first.
            (_, Wait::Sleep) => vec![],
            (_, Wait::Poll | Wait::Block) => vec![Self::Ring, Self::Via, Self::Nic],
        };
        if scenario == Scenario::Latency && wait != Wait::Poll {
            layers.push(Self::Eventfd);
        }
        layers.extend([Self::Tcp, Self::Unix, Self::Sovia]);
        layers
    }

    /// Returns the name of the carrier of the bytes.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::Ring => "memory",
            Self::Eventfd | Self::Tcp | Self::Unix => "kernel",
            Self::Via | Self::Sovia => "shm",
            Self::Nic => "nic",
        }
    }

    /// Returns how this layer waits if `wait` is requested. A bare ring cannot block.
    pub(super) fn wait(self, wait: Wait) -> Wait {
        if self == Self::Ring { Wait::Poll } else { wait }
    }

    /// Returns where this layer's ends run if `cpus` is requested. Ends that spin need one processor each.
    pub(super) fn cpus(self, cpus: Cpus) -> Cpus {
        if self == Self::Ring { Cpus::Apart } else { cpus }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "ring",
            Self::Eventfd => "eventfd",
            Self::Via => "via",
            Self::Nic => "nic",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Sovia => "sovia",
        })
    }
}
