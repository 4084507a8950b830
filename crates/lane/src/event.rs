//! Events that a lane reports to its owner.

use sovia_sys::Errno;
use via::NetAddress;
use via::error::ConnectError;

/// Event of a lane. Its text is for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Event {
    /// Packets can be sent to this peer.
    #[error("{0} is connected")]
    There(String),
    /// A connection to this peer could not be made. Reported again only for another reason, or after a connection.
    #[error("cannot connect to {peer}: {why}; packets for this peer are dropped")]
    NotThere {
        /// The peer's name in the configuration.
        peer: String,
        /// Reason of the failure.
        why: String,
    },
    /// The connection to this peer has ended.
    #[error("{peer} is gone: {why}")]
    Gone {
        /// The peer's name in the configuration.
        peer: String,
        /// Reason of the end.
        why: String,
    },
    /// A station that is not a peer has requested a connection. Reported once for each lane.
    #[error("refused a connection request from {0}, which is not a peer")]
    Stranger(NetAddress),
    /// The lane has stopped.
    #[error("{0}")]
    Over(Failure),
}

/// Reason why a lane has stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The device is gone.
    #[error("the device is gone: {}", sovia_sys::described(*.0))]
    Device(Errno),
    /// The NIC cannot accept connections any more.
    #[error("cannot accept peers any more: {0}")]
    Waiting(ConnectError),
}
