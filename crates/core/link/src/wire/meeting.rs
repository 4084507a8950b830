//! Frames of the rendezvous, in which two VIs find each other.

use super::bytes::{Out, Reader, put_u32};
use super::{EndId, Malformed};
use via::{NetAddress, Reliability, ViAttributes};

/// A frame of the rendezvous of two VIs. `request` identifies the request in all these frames: the name of the
/// requester's end of the future connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meeting {
    /// A VI asks for a connection.
    Request(Box<Request>),
    /// A program has received the request and will answer later.
    Pending {
        /// The request.
        request: EndId,
    },
    /// The answer to a request.
    Answer {
        /// The request.
        request: EndId,
        /// The answer.
        answer: Answer,
    },
    /// The requester has received the answer.
    Settled {
        /// The request.
        request: EndId,
        /// True if the connection was established.
        connected: bool,
    },
    /// The requester has given up.
    Cancel {
        /// The request.
        request: EndId,
    },
    /// A peer accepts connections now, so `remote` may send a request.
    Poke {
        /// Address of the peer that accepts connections.
        local: NetAddress,
        /// Address of the VI that may send a request.
        remote: NetAddress,
    },
    /// Acknowledges a poke.
    Poked {
        /// Address from the poke.
        local: NetAddress,
        /// Address from the poke.
        remote: NetAddress,
    },
}

/// A request for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Name of the requester's end of the future connection.
    pub id: EndId,
    /// The requester's address. Each part of an address has at most 64 bytes.
    pub local: NetAddress,
    /// The requested address.
    pub remote: NetAddress,
    /// The requester's attributes, without the protection tag, which has a meaning only on its own NIC.
    pub attributes: ViAttributes,
    /// Set if the requester looks for a peer (peer-to-peer), not for a server.
    pub peer: bool,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The acceptor has accepted.
    Accepted {
        /// The acceptor's end.
        conn: EndId,
        /// The acceptor's attributes, without the protection tag.
        attributes: ViAttributes,
    },
    /// The address is not in use.
    NoMatch,
    /// The acceptor has rejected the request.
    Rejected,
    /// The VIs' reliability levels differ.
    Reliability,
    /// The VIs' maximum transfer sizes differ.
    MaxTransferSize,
}

/// Largest number of bytes of each part of an address.
const ADDRESS_PART: usize = 64;
const RDMA_WRITE: u8 = 1;
const RDMA_READ: u8 = 2;
const PEER: u8 = 4;

fn put_terms(out: &mut impl Out, attributes: &ViAttributes, peer: bool) {
    let flag = |bit, set| if set { bit } else { 0 };
    let flags = flag(RDMA_WRITE, attributes.enable_rdma_write)
        | flag(RDMA_READ, attributes.enable_rdma_read)
        | flag(PEER, peer);
    out.put(&[attributes.reliability.bits() as u8, flags, 0, 0]);
    put_u32(out, attributes.max_transfer_size);
}

/// Reads attributes, and the flag that asks for a peer.
fn terms(reader: &mut Reader<'_>) -> Result<(ViAttributes, bool), Malformed> {
    let (level, flags) = (reader.u8()?, reader.u8()?);
    reader.zeros::<2>()?;
    let reliability = Reliability::from_bits(level.into())
        .filter(|level| level.bits().count_ones() == 1)
        .ok_or(Malformed::Value("reliability level"))?;
    if flags & !(RDMA_WRITE | RDMA_READ | PEER) != 0 {
        return Err(Malformed::Value("flags of the terms"));
    }
    let attributes = ViAttributes {
        reliability,
        max_transfer_size: reader.u32()?,
        ptag: None,
        enable_rdma_write: flags & RDMA_WRITE != 0,
        enable_rdma_read: flags & RDMA_READ != 0,
    };
    Ok((attributes, flags & PEER != 0))
}

fn put_address(out: &mut impl Out, address: &NetAddress) {
    debug_assert!(address.host.len().max(address.discriminator.len()) <= ADDRESS_PART);
    let [host, discriminator] =
        [&address.host, &address.discriminator].map(|part| &part[..part.len().min(ADDRESS_PART)]);
    out.put(&[host.len() as u8, discriminator.len() as u8]);
    out.put(host);
    out.put(discriminator);
}

fn address(reader: &mut Reader<'_>) -> Result<NetAddress, Malformed> {
    let (host, discriminator) = (usize::from(reader.u8()?), usize::from(reader.u8()?));
    if host.max(discriminator) > ADDRESS_PART {
        return Err(Malformed::Value("length of an address"));
    }
    Ok(NetAddress::new(reader.bytes(host)?, reader.bytes(discriminator)?))
}

pub(super) const REQUEST: u8 = 16;
const PENDING: u8 = 17;
const ANSWER: u8 = 18;
const SETTLED: u8 = 19;
const CANCEL: u8 = 20;
const POKE: u8 = 21;
pub(super) const POKED: u8 = 22;

impl Meeting {
    /// Returns the frame's kind, its receiving end and its sending end.
    pub(super) fn header(&self) -> (u8, EndId, EndId) {
        match *self {
            Meeting::Request(ref request) => (REQUEST, EndId::NONE, request.id),
            Meeting::Pending { request } => (PENDING, request, EndId::NONE),
            Meeting::Answer { request, answer: Answer::Accepted { conn, .. } } => {
                (ANSWER, request, conn)
            }
            Meeting::Answer { request, .. } => (ANSWER, request, EndId::NONE),
            Meeting::Settled { request, .. } => (SETTLED, EndId::NONE, request),
            Meeting::Cancel { request } => (CANCEL, EndId::NONE, request),
            Meeting::Poke { .. } => (POKE, EndId::NONE, EndId::NONE),
            Meeting::Poked { .. } => (POKED, EndId::NONE, EndId::NONE),
        }
    }

    pub(super) fn emit_body(&self, out: &mut impl Out) {
        match self {
            Meeting::Request(request) => {
                put_terms(out, &request.attributes, request.peer);
                put_address(out, &request.local);
                put_address(out, &request.remote);
            }
            Meeting::Pending { .. } | Meeting::Cancel { .. } => {}
            Meeting::Answer { answer, .. } => {
                let verdict = match answer {
                    Answer::Accepted { .. } => 0,
                    Answer::NoMatch => 1,
                    Answer::Rejected => 2,
                    Answer::Reliability => 3,
                    Answer::MaxTransferSize => 4,
                };
                out.put(&[verdict, 0, 0, 0]);
                if let Answer::Accepted { attributes, .. } = answer {
                    put_terms(out, attributes, false);
                }
            }
            Meeting::Settled { connected, .. } => out.put(&[u8::from(*connected)]),
            Meeting::Poke { local, remote } | Meeting::Poked { local, remote } => {
                put_address(out, local);
                put_address(out, remote);
            }
        }
    }

    pub(super) fn parse(
        kind: u8,
        to: EndId,
        from: EndId,
        reader: &mut Reader<'_>,
    ) -> Result<Meeting, Malformed> {
        let meeting = match kind {
            REQUEST => {
                let (attributes, peer) = terms(reader)?;
                let (local, remote) = (address(reader)?, address(reader)?);
                let request = Request { id: from, local, remote, attributes, peer };
                Meeting::Request(Box::new(request))
            }
            PENDING => Meeting::Pending { request: to },
            ANSWER => Meeting::Answer { request: to, answer: answer(from, reader)? },
            SETTLED => {
                let connected = match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed::Value("connected flag")),
                };
                Meeting::Settled { request: from, connected }
            }
            CANCEL => Meeting::Cancel { request: from },
            POKE => Meeting::Poke { local: address(reader)?, remote: address(reader)? },
            POKED => Meeting::Poked { local: address(reader)?, remote: address(reader)? },
            _ => return Err(Malformed::Kind(kind)),
        };
        if meeting.header() != (kind, to, from) {
            return Err(Malformed::Value("ends"));
        }
        Ok(meeting)
    }
}

fn answer(conn: EndId, reader: &mut Reader<'_>) -> Result<Answer, Malformed> {
    let verdict = reader.u8()?;
    reader.zeros::<3>()?;
    match verdict {
        0 => match terms(reader)? {
            (attributes, false) => Ok(Answer::Accepted { conn, attributes }),
            _ => Err(Malformed::Value("flags of the terms")),
        },
        1 => Ok(Answer::NoMatch),
        2 => Ok(Answer::Rejected),
        3 => Ok(Answer::Reliability),
        4 => Ok(Answer::MaxTransferSize),
        _ => Err(Malformed::Value("answer")),
    }
}
