//! Purpose of an identifier of the connection manager.

use crate::state::{Accepted, ViShared};
use crate::wire::{Hello, Question};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::{NetAddress, ViAttributes};

/// A VI's attempt to connect.
pub(super) struct Attempt {
    pub(super) vi: Arc<ViShared>,
    pub(super) local: NetAddress,
    pub(super) remote: NetAddress,
    pub(super) to: SocketAddr,
    pub(super) until: Option<Instant>,
    pub(super) is_peer: bool,
}

/// Purpose of an identifier.
pub(super) enum Role {
    /// Requests a connection.
    Requests(Attempt),
    /// A request of a peer, which the program or a peer-to-peer attempt answers.
    Asked(Hello, SocketAddr),
    /// An accepted request, until the peer confirms the connection.
    Accepting(Arc<ViShared>, ViAttributes, Option<Accepted>),
    /// A connection.
    Connected(Weak<ViShared>),
    /// Asks a question.
    Asks(Question, Errand),
    /// A connection that has ended, while the peer is being notified.
    Ends,
}

/// Use of an answer.
pub(super) enum Errand {
    /// A key for a VI: names of the VI and of the connection.
    Key(u64, u64),
    /// The end of the connection with this token, reported to the NIC at this address; and the number of reports
    /// without an answer.
    Close(u64, SocketAddr, u32),
}
