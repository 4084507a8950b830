//! Jobs for the NIC's thread.

use crate::slot::Slot;
use crate::state::ViShared;
use crate::wire::{Question, Refusal};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::NetAddress;
use via::error::ConnectError;

/// Reports the result of an accept to the thread that waits for it. Dropping this value without an answer reports
/// `Timeout`: the VI or the request has changed meanwhile.
pub(crate) struct Accepted(Slot<Result<(), ConnectError>>);

impl Accepted {
    /// Returns the sending part, for the NIC's thread, and the slot for the answer.
    pub(crate) fn new() -> (Accepted, Slot<Result<(), ConnectError>>) {
        let slot = Slot::new();
        (Accepted(slot.clone()), slot)
    }

    /// Reports the result.
    pub(crate) fn answer(self, outcome: Result<(), ConnectError>) {
        self.0.put(outcome);
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        // Has no effect after an answer.
        self.0.put(Err(ConnectError::Timeout));
    }
}

/// A job for the NIC's thread.
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
    /// Accept a request that the program holds.
    Accept { name: u64, vi: Arc<ViShared>, accepted: Accepted },
    /// Refuse a request.
    Reject { name: u64, refusal: Refusal },
    /// Forget an attempt that is over.
    Forget { name: u64 },
    /// Ask the peer for a key.
    Ask { to: SocketAddr, question: Question, vi: u64, name: u64 },
    /// Close a connection, and notify the peer if `tell` is given.
    Close { name: u64, tell: Option<(SocketAddr, Question)> },
    /// Check later whether the program still polls this VI, which has had an event.
    Polled(Weak<ViShared>),
    /// End the thread, because the NIC is closed.
    End,
}
