//! A VI's attempt to connect.

use crate::medium::Deadline;
use sovia_link::wire::EndId;
use via::NetAddress;
use via::connection::{Model, Requester};

/// An attempt of a VI to connect.
#[derive(Debug)]
pub(crate) struct Attempt<N> {
    pub(crate) number: u64,
    pub(crate) node: N,
    pub(crate) local: NetAddress,
    pub(crate) remote: NetAddress,
    pub(crate) deadline: Deadline,
    pub(crate) role: Role,
    /// State of the request.
    pub(crate) asked: Requester,
    /// The request that this attempt has sent.
    pub(crate) request: Option<EndId>,
    /// Set if another request must follow when the current one finds no VI.
    pub(crate) again: bool,
    /// Number of pokes sent; `None` if no more are needed.
    pub(crate) pokes: Option<u32>,
}

/// Role of the VI in the rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Requests from a server.
    Client,
    /// Requests from a peer, which accepts without a program's call.
    Asking,
    /// Waits for a peer's request.
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
