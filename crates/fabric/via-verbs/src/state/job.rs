//! What the NIC's thread is asked to do.

use crate::slot::Slot;
use crate::state::ViShared;
use crate::wire::{Question, Refusal};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::NetAddress;
use via::error::ConnectError;

/// How a thread that accepts is told what has become of it. It sleeps until it is told: where this is dropped without an answer, the VI or
/// the request is no longer what it was.
pub(crate) struct Accepted(Slot<Result<(), ConnectError>>);

impl Accepted {
    /// For the NIC's thread, and where the answer comes.
    pub(crate) fn new() -> (Accepted, Slot<Result<(), ConnectError>>) {
        let slot = Slot::new();
        (Accepted(slot.clone()), slot)
    }

    /// What has become of it.
    pub(crate) fn answer(self, outcome: Result<(), ConnectError>) {
        self.0.put(outcome);
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        // Nothing, where there is an answer.
        self.0.put(Err(ConnectError::Timeout));
    }
}

/// What the thread is asked to do.
pub(crate) enum Job {
    /// Connect a VI.
    Connect {
        vi: Arc<ViShared>,
        name: u64,
        local: NetAddress,
        remote: NetAddress,
        to: SocketAddr,
        until: Option<Instant>,
        is_peer: bool,
    },
    /// Accept a request that the program has.
    Accept { name: u64, vi: Arc<ViShared>, accepted: Accepted },
    /// Refuse it.
    Reject { name: u64, refusal: Refusal },
    /// An attempt is over.
    Forget { name: u64 },
    /// Ask the far side for a key.
    Ask { to: SocketAddr, question: Question, vi: u64, name: u64 },
    /// A connection is over; the far side may have to be told.
    Close { name: u64, tell: Option<(SocketAddr, Question)> },
    /// There was news of a VI that the program polls: look whether it goes on.
    Polled(Weak<ViShared>),
    /// The NIC is closed.
    End,
}
