//! Packets: their kinds, and the immediate data that tells them apart (ICS section 4.2: the type
//! of a packet and the number of delayed acknowledgements travel in the 32 bits beside it).

use crate::Violation;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Bytes of the stream.
    Data = 1,
    /// Acknowledgements alone.
    Ack = 2,
    /// The sender has no more to send.
    Fin = 3,
    /// Answers [`Kind::Fin`].
    FinAck = 4,
    /// The stream goes on in the kernel's TCP from here (Sovia's; the papers' streams stay put).
    ToTcp = 5,
    /// First on a new connection: the sender's terms ([`crate::wakeup`]).
    Wakeup = 6,
    /// The sender has a message and asks for leave to send it (three-way handshake).
    Req = 7,
}

impl Kind {
    /// Whether the packet has a place in the stream (the others are taken when seen).
    #[inline]
    pub const fn is_ordered(self) -> bool {
        matches!(self, Kind::Data | Kind::Fin | Kind::ToTcp)
    }
}

/// A packet's immediate data, taken apart.
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
    /// The kind.
    pub kind: Kind,
    /// Data packets acknowledged.
    pub acks: u16,
}

impl Immediate {
    /// The 32 bits.
    #[inline]
    pub const fn encode(self) -> u32 {
        (self.kind as u32) << 24 | self.acks as u32
    }

    /// Takes 32 received bits apart.
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

/// The immediate data of a message that the sender has written by RDMA to where its leave said. The bytes do not
/// come in the packet, and a NIC need not say how many it has written: so the packet does.
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
    /// Bytes, at most [`CHUNK_MAX`](crate::configuration::CHUNK_MAX).
    pub len: u32,
    /// Data packets acknowledged: a stream that asks for leave has one on its way.
    pub acks: u16,
}

impl Written {
    const KIND: u32 = 8;
    /// Bits of the length.
    const LEN: u32 = 17;

    /// The 32 bits.
    #[inline]
    pub const fn encode(self) -> u32 {
        Written::KIND << 24 | (self.acks as u32 & 0x7f) << Written::LEN | self.len
    }

    /// Takes 32 received bits apart; `None` if they are of another kind.
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
