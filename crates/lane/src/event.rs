//! What a lane tells of itself, as it happens.

use sovia_sys::Errno;
use via::NetAddress;
use via::error::ConnectError;

/// Something that its owner may want to know. Its text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Event {
    /// Packets can be sent to that peer.
    #[error("{0} is connected")]
    There(String),
    /// No connection to that peer has come about; told once for each reason, until one has.
    #[error("cannot connect to {peer}: {why}; packets for this peer are dropped")]
    NotThere {
        /// What the peer is called.
        peer: String,
        /// Why not.
        why: String,
    },
    /// The connection to that peer has ended.
    #[error("{peer} is gone: {why}")]
    Gone {
        /// What the peer is called.
        peer: String,
        /// Why.
        why: String,
    },
    /// That station, which is no peer, requests a connection; told once for each lane.
    #[error("refused a connection request from {0}, which is not a peer")]
    Stranger(NetAddress),
    /// The lane does not go on.
    #[error("{0}")]
    Over(Failure),
}

/// Why a lane does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The device is gone.
    #[error("the device is gone: {}", sovia_sys::described(*.0))]
    Device(Errno),
    /// No peer can connect any more.
    #[error("cannot accept peers any more: {0}")]
    Waiting(ConnectError),
}
