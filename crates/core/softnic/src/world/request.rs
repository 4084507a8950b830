//! Requests for connections.

use crate::ids::ViId;
use sovia_link::wire::{Answer, EndId, Request};
use via::NetAddress;
use via::connection::Acceptor;

/// A received request.
#[derive(Debug)]
pub(crate) struct Incoming<N> {
    /// Node of the acceptor.
    pub(crate) node: N,
    /// Node of the requester.
    pub(crate) from: N,
    /// The request's contents, until the request is settled.
    pub(crate) request: Option<Request>,
    /// State of the request. The state becomes accepted only when the requester has confirmed the answer.
    pub(crate) acceptor: Acceptor,
    /// The answer, once there is one.
    pub(crate) answer: Option<Answer>,
    /// Set to true if a connection was established, and to false if not. `None` until the fate of the answer is known.
    pub(crate) settled: Option<bool>,
    /// Set once the requester has confirmed the answer, or can never do so.
    pub(crate) told: bool,
    /// Number of times that the answer has been sent.
    pub(crate) tries: u32,
}

impl<N> Incoming<N> {
    /// Returns true if the request waits for an answer.
    pub(crate) fn is_open(&self) -> bool {
        self.answer.is_none() && !self.acceptor.phase().is_over()
    }

    /// Returns true if the request needs no more work.
    pub(crate) fn is_over(&self) -> bool {
        self.told || self.answer.is_none() && self.acceptor.phase().is_over()
    }

    /// Returns the result of an acceptance; `None` while it is open.
    pub(crate) fn acceptance(&self) -> Option<bool> {
        match self.settled {
            None if self.answer.is_none() => Some(false),
            settled => settled,
        }
    }
}

/// A sent request without an answer.
#[derive(Debug)]
pub(crate) struct Outgoing<N> {
    pub(crate) vi: ViId,
    pub(crate) node: N,
    pub(crate) to: N,
    pub(crate) request: Request,
    /// Set once a program at the acceptor's node has the request and will answer.
    pub(crate) pending: bool,
    /// Number of times that the request has been sent.
    pub(crate) tries: u32,
}

/// A program's wait for one request.
#[derive(Debug)]
pub(crate) struct Waiter<N> {
    pub(crate) node: N,
    pub(crate) address: NetAddress,
    /// The request that has arrived for this wait.
    pub(crate) request: Option<EndId>,
}
