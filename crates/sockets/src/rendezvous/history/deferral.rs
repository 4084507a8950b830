//! Deferral of first rendezvous, after first rendezvous that led to no VI.

/// Outcome of a first rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rendezvous) enum FirstOutcome {
    /// The connection got a VI.
    Met,
    /// The rules do not trust the other end's user.
    Refused,
    /// The connection was closed before the two processes had found each other.
    Unfinished,
}

/// Minimum number of transfers before a first rendezvous that is deferred. If this first rendezvous also fails, it
/// costs less than 2 % as much as these transfers.
pub(super) const DEFERRED: u32 = 256;

/// Deferral of first rendezvous at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deferral {
    /// The most recent first rendezvous was refused. Deferred until one leads to a VI.
    Refused,
    /// `unfinished`: number of first rendezvous in turn that did not end before their connections, up to
    /// [`UNFINISHED_MOST`]. `connections`: number of connections for which the next one is deferred. A first rendezvous
    /// costs a third of a short connection.
    For { unfinished: u8, connections: u8 },
}

/// Number of unfinished first rendezvous in turn after which the deferral grows no more.
const UNFINISHED_MOST: u8 = 5;
/// Number of connections for which a first rendezvous is deferred after [`UNFINISHED_MOST`] unfinished ones, or after
/// one for the benefit of later connections.
pub(super) const CONNECTIONS_MOST: u8 = 15;

impl Deferral {
    pub(super) fn from_word(word: u8) -> Deferral {
        match word {
            u8::MAX => Deferral::Refused,
            _ => Deferral::For { unfinished: word >> 4, connections: word & 15 },
        }
    }

    pub(super) fn word(self) -> u8 {
        match self {
            Deferral::Refused => u8::MAX,
            Deferral::For { unfinished, connections } => unfinished << 4 | connections,
        }
    }

    /// Returns the deferral after a first rendezvous with this outcome.
    pub(super) fn after(self, outcome: FirstOutcome) -> Deferral {
        let (unfinished, connections) = match self {
            Deferral::Refused => (0, 0),
            Deferral::For { unfinished, connections } => (unfinished, connections),
        };
        match (outcome, self) {
            (FirstOutcome::Refused, _) | (FirstOutcome::Unfinished, Deferral::Refused) => {
                Deferral::Refused
            }
            (FirstOutcome::Met, _) => Deferral::For { unfinished: 0, connections },
            (FirstOutcome::Unfinished, _) => {
                // None after the first, then 1, 3, 7 and 15.
                let more = (1u8 << unfinished) - 1;
                let unfinished = (unfinished + 1).min(UNFINISHED_MOST);
                let connections = connections.max(more.min(CONNECTIONS_MOST));
                Deferral::For { unfinished, connections }
            }
        }
    }

    /// Returns the minimum number of transfers before the next connection begins a first rendezvous, and the deferral
    /// after this connection. If `is_for_later`, the connections after this one do not begin one at once.
    pub(super) fn next(self, is_for_later: bool) -> (u32, Deferral) {
        match self {
            Deferral::Refused => (DEFERRED, self),
            Deferral::For { connections: 0, .. } if !is_for_later => (0, self),
            Deferral::For { unfinished, connections: 0 } => {
                (0, Deferral::For { unfinished, connections: CONNECTIONS_MOST })
            }
            Deferral::For { unfinished, connections } => {
                (DEFERRED, Deferral::For { unfinished, connections: connections - 1 })
            }
        }
    }
}
