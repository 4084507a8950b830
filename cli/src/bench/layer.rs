//! The ways for bytes to go from one process to another that are compared.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::task::{Scenario, Wait};

/// A way for bytes from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layer {
    /// A bare ring in shared memory, spinning, no protocol: the hardware's limit
    Ring,
    /// An eventfd each way, no data: the limit where both ends sleep
    Eventfd,
    /// The kernel's TCP over loopback
    Tcp,
    /// The kernel's Unix stream sockets
    Unix,
    /// The processes of `tcp` with Sovia's library
    Sovia,
}

impl Layer {
    /// All that make sense for a scenario, in the order of tables.
    pub(super) fn all_for(scenario: Scenario, wait: Wait) -> Vec<Self> {
        match (scenario, wait) {
            (Scenario::Connect, _) => vec![Self::Tcp, Self::Sovia],
            (Scenario::Latency, Wait::Block) => {
                vec![Self::Ring, Self::Eventfd, Self::Tcp, Self::Unix, Self::Sovia]
            }
            _ => vec![Self::Ring, Self::Tcp, Self::Unix, Self::Sovia],
        }
    }

    /// What moves the bytes.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::Ring => "memory",
            Self::Eventfd | Self::Tcp | Self::Unix => "kernel",
            Self::Sovia => "shm",
        }
    }

    /// How this layer waits where `wait` is asked for: a bare ring has nothing to block on.
    pub(super) fn wait(self, wait: Wait) -> Wait {
        if self == Self::Ring { Wait::Poll } else { wait }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "ring",
            Self::Eventfd => "eventfd",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Sovia => "sovia",
        })
    }
}
