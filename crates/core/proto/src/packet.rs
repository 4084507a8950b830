//! Kinds of packets, and the immediate data that holds a packet's kind.
//!
//! The kind and the number of delayed acknowledgements travel in 32 bits beside the packet (ICS section 4.2).

use crate::Violation;

/// Kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Bytes of the stream.
    Data = 1,
    /// Acknowledgements without data.
    Ack = 2,
    /// End of the sender's stream.
    Fin = 3,
    /// Answer to [`Kind::Fin`].
    FinAck = 4,
    /// Last packet on the VI: the stream continues on kernel TCP. The papers have no such packet, because their
    /// streams stay on the VI.
    ToTcp = 5,
    /// First packet on a new connection. It carries the sender's limits, such as its window ([`crate::wakeup`]).
    Wakeup = 6,
    /// Request for permission to send a message (three-way handshake).
    Req = 7,
}

impl Kind {
    /// Returns true if the receiver must handle packets of this kind in the order of the stream. The receiver
    /// handles packets of other kinds as soon as it sees them.
    #[inline]
    pub const fn is_ordered(self) -> bool {
        matches!(self, Kind::Data | Kind::Fin | Kind::ToTcp)
    }
}

/// Decoded immediate data of a packet.
///
/// ```
/// use sovia_proto::packet::{Immediate, Kind};
///
/// let bits = Immediate { kind: Kind::Data, acks: 3 }.encode();
/// assert_eq!(Immediate::decode(bits)?.acks, 3);
/// assert!(Immediate::decode(0xff << 24).is_err());
/// # Ok::<(), sovia_proto::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Immediate {
    /// Kind of the packet.
    pub kind: Kind,
    /// Number of data packets that this packet acknowledges.
    pub acks: u16,
}

impl Immediate {
    /// Encodes the immediate data as 32 bits.
    #[inline]
    pub const fn encode(self) -> u32 {
        (self.kind as u32) << 24 | self.acks as u32
    }

    /// Decodes 32 received bits.
    ///
    /// # Errors
    /// [`Violation`] for an unknown kind.
    #[inline]
    pub const fn decode(bits: u32) -> Result<Immediate, Violation> {
        let kind = match bits >> 24 {
            1 => Kind::Data,
            2 => Kind::Ack,
            3 => Kind::Fin,
            4 => Kind::FinAck,
            5 => Kind::ToTcp,
            6 => Kind::Wakeup,
            7 => Kind::Req,
            _ => return Err(Violation("unknown packet kind")),
        };
        Ok(Immediate { kind, acks: bits as u16 })
    }
}

/// Immediate data of a message that the sender writes by RDMA. The receiver's permission has named the memory for
/// the message.
///
/// A NIC need not report to the receiver how many bytes an RDMA write has written. So the immediate data carries
/// the length.
///
/// ```
/// use sovia_proto::packet::{Immediate, Written};
///
/// let written = Written { len: 65_536, acks: 1 };
/// assert_eq!(Written::decode(written.encode()), Some(written));
/// assert!(Immediate::decode(written.encode()).is_err(), "no packet of another configuration");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Length of the message in bytes, at most [`CHUNK_MAX`](crate::configuration::CHUNK_MAX).
    pub len: u32,
    /// Number of data packets that this message acknowledges. A stream that requests permission has at most one
    /// unacknowledged data packet.
    pub acks: u16,
}

impl Written {
    const KIND: u32 = 8;
    /// Number of bits for the length.
    const LEN: u32 = 17;

    /// Encodes the immediate data as 32 bits.
    #[inline]
    pub const fn encode(self) -> u32 {
        Written::KIND << 24 | (self.acks as u32 & 0x7f) << Written::LEN | self.len
    }

    /// Decodes 32 received bits. Returns `None` if the bits have another kind.
    #[inline]
    pub const fn decode(bits: u32) -> Option<Written> {
        if bits >> 24 != Written::KIND {
            return None;
        }
        let acks = (bits >> Written::LEN & 0x7f) as u16;
        Some(Written { len: bits & ((1 << Written::LEN) - 1), acks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let kinds = [Kind::Data, Kind::Ack, Kind::Fin, Kind::FinAck, Kind::ToTcp, Kind::Wakeup];
        for kind in kinds.into_iter().chain([Kind::Req]) {
            for acks in [0, 1, 16, u16::MAX] {
                let immediate = Immediate { kind, acks };
                assert_eq!(Immediate::decode(immediate.encode()), Ok(immediate));
            }
        }
        assert!(Immediate::decode(0).is_err());
        assert!(Immediate::decode(u32::MAX).is_err());
    }
}
