//! A VI that wants to be connected.

use crate::medium::Deadline;
use sovia_link::wire::EndId;
use via::NetAddress;
use via::connection::{Model, Requester};

/// What a VI does to be connected.
#[derive(Debug)]
pub(crate) struct Attempt<N> {
    pub(crate) number: u64,
    pub(crate) node: N,
    pub(crate) local: NetAddress,
    pub(crate) remote: NetAddress,
    pub(crate) deadline: Deadline,
    pub(crate) role: Role,
    /// How far it is.
    pub(crate) asked: Requester,
    /// The request that it has sent.
    pub(crate) request: Option<EndId>,
    /// Another request is to follow one that is not answered by a VI.
    pub(crate) again: bool,
    /// Pokes sent; none are to follow one that has been noticed.
    pub(crate) pokes: Option<u32>,
}

/// What it asks, if it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A server.
    Client,
    /// A peer, which accepts by itself.
    Asking,
    /// A peer, which it expects to ask.
    Asked,
}

impl Role {
    pub(crate) fn model(self) -> Model {
        match self {
            Role::Client => Model::ClientServer,
            Role::Asking | Role::Asked => Model::PeerToPeer,
        }
    }
}
