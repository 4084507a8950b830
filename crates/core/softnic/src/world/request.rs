//! Requests for connections.

use crate::ids::ViId;
use sovia_link::wire::{Answer, EndId, Request};
use via::NetAddress;
use via::connection::Acceptor;

/// A request that has come.
#[derive(Debug)]
pub(crate) struct Incoming<N> {
    /// The node that is asked.
    pub(crate) node: N,
    /// The node that asks.
    pub(crate) from: N,
    /// What is asked, until it is settled.
    pub(crate) request: Option<Request>,
    /// How far it is. It is accepted when the requester is known to have heard of it.
    pub(crate) acceptor: Acceptor,
    /// What the requester is told, once that is known.
    pub(crate) answer: Option<Answer>,
    /// Whether a connection has come of it; `None` until it is known whether the requester has the answer.
    pub(crate) settled: Option<bool>,
    /// The requester has said that it has the answer, or never will.
    pub(crate) told: bool,
    /// Times that the answer has been sent.
    pub(crate) tries: u32,
}

impl<N> Incoming<N> {
    /// Whether it waits for an answer.
    pub(crate) fn is_open(&self) -> bool {
        self.answer.is_none() && !self.acceptor.phase().is_over()
    }

    /// Whether nothing is to come of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.told || self.answer.is_none() && self.acceptor.phase().is_over()
    }

    /// Whether an acceptance is still open, and if not, how it ended.
    pub(crate) fn acceptance(&self) -> Option<bool> {
        match self.settled {
            None if self.answer.is_none() => Some(false),
            settled => settled,
        }
    }
}

/// A request that has been sent and not answered.
#[derive(Debug)]
pub(crate) struct Outgoing<N> {
    pub(crate) vi: ViId,
    pub(crate) node: N,
    pub(crate) to: N,
    pub(crate) request: Request,
    /// A program has it; it will be answered.
    pub(crate) pending: bool,
    /// Times that it has been sent.
    pub(crate) tries: u32,
}

/// A program's wait for one request.
#[derive(Debug)]
pub(crate) struct Waiter<N> {
    pub(crate) node: N,
    pub(crate) address: NetAddress,
    /// The request that has come.
    pub(crate) request: Option<EndId>,
}
