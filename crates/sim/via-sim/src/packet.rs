//! What travels through the simulated network.

use crate::ids::ConnId;
use std::sync::Arc;
use via::{NetAddress, ViAttributes};

/// Bytes of a packet's header, as far as bandwidth is concerned.
const HEADER: u32 = 48;

/// A packet between two nodes.
#[derive(Debug, Clone)]
pub(crate) enum Packet {
    /// Part of a connection's stream, with an acknowledgement of the other direction's.
    Stream { to: ConnId, from: ConnId, number: u64, ack: u64, frame: Frame },
    /// An acknowledgement alone: everything before this number has been received.
    Ack { to: ConnId, from: ConnId, ack: u64 },
    /// Part of a message of an unreliable connection.
    Datagram { to: ConnId, from: ConnId, message: u64, part: Part },
    /// There is no such connection, or not any more.
    Gone { to: ConnId },
    /// A word about a connection that is to be.
    Meeting(Meeting),
}

/// What a stream consists of.
#[derive(Debug, Clone)]
pub(crate) enum Frame {
    /// Part of a message. The parts of a message follow one another.
    Part(Part),
    /// An RDMA read begins; its frame's number names it.
    Read { address: u64, handle: u32, length: u32 },
    /// The connection is over, and why. The last frame.
    Close(Closing),
}

/// Part of a message.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) immediate: Option<u32>,
    /// The whole message, of which only the part's own bytes travel.
    pub(crate) message: Arc<[u8]>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What is done with a message at its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It meets a posted receive.
    Send,
    /// It is written to memory.
    Write { address: u64, handle: u32 },
    /// It answers the RDMA read of that number.
    ReadReply { read: u64 },
}

/// Why a connection is over, as the other end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The program has disconnected.
    Disconnected,
    /// Something went wrong that is not the other end's affair.
    Broke,
    /// The message whose last frame has that number met no receive.
    NoReceive(u64),
    /// The message whose last frame has that number met a receive in error.
    BadReceive(u64),
    /// The RDMA whose last frame has that number is not allowed.
    RdmaDenied(u64),
}

/// How two VIs find each other. `request` names the request in all that is said about it; it is
/// the requester's end of the connection to be.
#[derive(Debug, Clone)]
pub(crate) enum Meeting {
    /// Somebody wants to connect.
    Request(Box<Request>),
    /// The request has been handed to a program, which will answer in its own time.
    Pending { request: ConnId },
    /// The request's answer.
    Answer { request: ConnId, answer: Answer },
    /// The answer has been received; whether the connection has come about.
    Settled { request: ConnId, connected: bool },
    /// The requester has given up.
    Cancel { request: ConnId },
    /// A peer that can be connected to is there now: `remote` may ask it.
    Poke { local: NetAddress, remote: NetAddress },
    /// The poke has been received.
    Poked { local: NetAddress, remote: NetAddress },
}

/// Who wants to connect, and to whom.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: ConnId,
    pub(crate) local: NetAddress,
    pub(crate) remote: NetAddress,
    pub(crate) attributes: ViAttributes,
    /// It looks for a peer, not for a server.
    pub(crate) peer: bool,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes, with that end.
    Accepted { conn: ConnId, attributes: ViAttributes },
    /// Nobody is there.
    NoMatch,
    /// No.
    Rejected,
    /// The VIs' reliability levels differ.
    Reliability,
    /// The VIs' maximum transfer sizes differ.
    MaxTransferSize,
}

impl Part {
    /// The bytes that travel.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.message[self.start..self.end]
    }

    /// Whether no other part follows.
    pub(crate) fn is_last(&self) -> bool {
        self.end == self.message.len()
    }
}

impl Packet {
    /// Bytes that it occupies on a link.
    pub(crate) fn size(&self) -> u32 {
        let part = match self {
            Packet::Stream { frame: Frame::Part(part), .. } | Packet::Datagram { part, .. } => part,
            _ => return HEADER,
        };
        HEADER + (part.end - part.start) as u32
    }
}
