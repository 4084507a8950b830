//! What an identifier of the connection manager is for.

use crate::state::{Accepted, ViShared};
use crate::wire::{Hello, Question};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::{NetAddress, ViAttributes};

/// A VI that connects.
pub(super) struct Attempt {
    pub(super) vi: Arc<ViShared>,
    pub(super) local: NetAddress,
    pub(super) remote: NetAddress,
    pub(super) to: SocketAddr,
    pub(super) until: Option<Instant>,
    pub(super) is_peer: bool,
}

/// What an identifier is for.
pub(super) enum Role {
    /// To ask for a connection.
    Requests(Attempt),
    /// A request, which the program or a peer's attempt answers.
    Asked(Hello, SocketAddr),
    /// It has been accepted; the far side has not said yet that it knows.
    Accepting(Arc<ViShared>, ViAttributes, Option<Accepted>),
    /// A connection.
    Connected(Weak<ViShared>),
    /// To ask a question.
    Asks(Question, Errand),
    /// Its connection has ended, and the far side is being told.
    Ends,
}

/// What the answer is for.
pub(super) enum Errand {
    /// A VI that waits for a key, on that connection.
    Key(u64, u64),
    /// The end of that connection, told to the NIC there; so often it has been told without an answer.
    Close(u64, SocketAddr, u32),
}
