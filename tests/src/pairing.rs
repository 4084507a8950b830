//! The stack of each end.

use crate::turn::Turn;
use std::fmt;
use std::panic::Location;

/// Carrier of a program's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The kernel's TCP; the program is started as it is.
    Kernel,
    /// The program is started by `sovia run`.
    Sovia,
    /// The program is built against libsovia.
    Native,
}

/// The stacks of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The end that accepts.
    pub server: Stack,
    /// The end that connects.
    pub client: Stack,
}

impl Pairing {
    /// The reference: no end is accelerated.
    pub const KERNEL: Self = Self { server: Stack::Kernel, client: Stack::Kernel };
    /// Both ends are accelerated.
    pub const SOVIA: Self = Self { server: Stack::Sovia, client: Stack::Sovia };
    /// Every pairing with an accelerated end.
    pub const OTHERS: [Self; 3] = [
        Self::SOVIA,
        Self { server: Stack::Sovia, client: Stack::Kernel },
        Self { server: Stack::Kernel, client: Stack::Sovia },
    ];

    /// Both ends use libsovia.
    pub const NATIVE: Self = Self { server: Stack::Native, client: Stack::Native };
    /// libsovia with itself, with preloaded programs, and with the kernel.
    pub const NATIVES: [Self; 5] = [
        Self::NATIVE,
        Self { server: Stack::Native, client: Stack::Sovia },
        Self { server: Stack::Sovia, client: Stack::Native },
        Self { server: Stack::Native, client: Stack::Kernel },
        Self { server: Stack::Kernel, client: Stack::Native },
    ];

    /// Returns the pairings for a test of a real program: both ends on Sovia, and of the others those that have their turn.
    #[track_caller]
    pub fn others() -> Vec<Self> {
        Self::in_turn(&Self::OTHERS, Turn::of(Location::caller()))
    }

    /// Returns the pairings for a test of a program that is built against libsovia, likewise.
    #[track_caller]
    pub fn natives() -> Vec<Self> {
        Self::in_turn(&Self::NATIVES, Turn::of(Location::caller()))
    }

    /// Returns the first pairing, and of each two that differ in which end is which the one that has its turn.
    pub(crate) fn in_turn(all: &[Self], turn: Turn) -> Vec<Self> {
        let (first, others) = all.split_at(1);
        let drawn = others.chunks(2).flat_map(|two| turn.some_of(two, 1));
        first.iter().copied().chain(drawn).collect()
    }

    /// Returns true if both ends use Sovia.
    pub fn is_accelerated(self) -> bool {
        self.server != Stack::Kernel && self.client != Stack::Kernel
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Sovia => "sovia",
            Self::Native => "libsovia",
        })
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server on {}, client on {}", self.server, self.client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pairing_has_its_turn() {
        for all in [&Pairing::OTHERS[..], &Pairing::NATIVES] {
            let drawn = [0, 1].map(|draw| Pairing::in_turn(all, Turn(Some(draw))));
            assert!(drawn.iter().all(|some| some[0] == all[0]));
            assert!(all.iter().all(|one| drawn.iter().flatten().any(|other| other == one)));
        }
    }
}
