//! The ways for bytes to go from one process to another that are compared.

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
    /// All that make sense for a scenario, in the order of tables.
    pub(super) fn all_for(scenario: Scenario, wait: Wait) -> Vec<Self> {
        let mut layers = match (scenario, wait) {
            (Scenario::Connect, _) => return vec![Self::Tcp, Self::Sovia],
            (Scenario::Load, _) => return vec![Self::Tcp, Self::Unix, Self::Sovia],
            // Neither can be told to sleep at once.
            (_, Wait::Sleep) => vec![],
            (_, Wait::Poll | Wait::Block) => vec![Self::Ring, Self::Via, Self::Nic],
        };
        if scenario == Scenario::Latency && wait != Wait::Poll {
            layers.push(Self::Eventfd);
        }
        layers.extend([Self::Tcp, Self::Unix, Self::Sovia]);
        layers
    }

    /// What moves the bytes.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::Ring => "memory",
            Self::Eventfd | Self::Tcp | Self::Unix => "kernel",
            Self::Via | Self::Sovia => "shm",
            Self::Nic => "nic",
        }
    }

    /// How this layer waits where `wait` is asked for: a bare ring has nothing to block on.
    pub(super) fn wait(self, wait: Wait) -> Wait {
        if self == Self::Ring { Wait::Poll } else { wait }
    }

    /// Where this layer's ends run where `cpus` is asked for: those that spin need one each.
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
