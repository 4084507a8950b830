//! Encodes and decodes the messages that start a connection.
//!
//! The waiting side sends Welcome, the requester sends Request, and the waiting side sends Answer.

use super::{DISCRIMINATOR_MAX, HOST_LEN};
use crate::link::Token;
use via::error::ConnectError;
use via::{NetAddress, Reliability, ViAttributes};

/// Magic number of the protocol. The low byte counts incompatible versions.
const MAGIC: u32 = 0x5649_5303;
/// Maximum length of a message in bytes.
pub(crate) const MESSAGE_MAX: usize = 512;

/// A request for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) token: Token,
    /// Address of the token in the requester's memory.
    pub(crate) token_at: u64,
    /// Number of the link in which the requester has taken a VI.
    pub(crate) link: u64,
    pub(crate) vi: u32,
    pub(crate) attributes: ViAttributes,
    pub(crate) local: NetAddress,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted(ViAttributes),
    Rejected,
    Reliability,
    MaxTransferSize,
    /// The request names an unknown link. The requester should create a new link.
    UnknownLink,
    /// No thread waits at the address any more, and no thread has read the request.
    NobodyWaits,
}

impl Answer {
    /// Returns the requester's error for an answer other than an acceptance.
    pub(crate) fn error(self) -> ConnectError {
        match self {
            Answer::Accepted(_) | Answer::Rejected => ConnectError::Rejected,
            Answer::Reliability => ConnectError::Reliability,
            Answer::MaxTransferSize => ConnectError::MaxTransferSize,
            Answer::NobodyWaits => ConnectError::NoMatch,
            Answer::UnknownLink => {
                ConnectError::NotReachable("the peer does not share the segment")
            }
        }
    }
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u8(mut self, v: u8) -> Out {
        self.0.push(v);
        self
    }
    fn u32(mut self, v: u32) -> Out {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn u64(mut self, v: u64) -> Out {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn bytes(mut self, v: &[u8]) -> Out {
        self.0.extend(v);
        self
    }
    fn counted(self, v: &[u8]) -> Out {
        self.u8(v.len() as u8).bytes(v)
    }
    fn attributes(self, a: &ViAttributes) -> Out {
        let flags = u8::from(a.enable_rdma_write) | u8::from(a.enable_rdma_read) << 1;
        self.u32(u32::from(a.reliability.bits())).u32(a.max_transfer_size).u8(flags)
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[v]| v)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// Reads a part of an address. Returns `None` if the part is longer than `max` bytes, because programs have no
    /// room for more bytes.
    fn counted(&mut self, max: usize) -> Option<&'a [u8]> {
        let n = usize::from(self.u8()?);
        if n <= max { self.bytes(n) } else { None }
    }
    fn attributes(&mut self) -> Option<ViAttributes> {
        let reliability = Reliability::from_bits(u16::try_from(self.u32()?).ok()?)?;
        let max_transfer_size = self.u32()?;
        let flags = self.u8()?;
        Some(ViAttributes {
            reliability,
            max_transfer_size,
            ptag: None,
            enable_rdma_write: flags & 1 != 0,
            enable_rdma_read: flags & 2 != 0,
        })
    }
    /// Begins to read a message. Returns `None` if the message belongs to another protocol or version.
    fn begin(message: &'a [u8]) -> Option<In<'a>> {
        let mut input = In(message);
        (input.u32()? == MAGIC).then_some(input)
    }
    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Encodes Welcome: the waiting process's token, and the token's address in this process's memory.
pub(crate) fn welcome(token: &Token, token_at: u64) -> Vec<u8> {
    Out::default().u32(MAGIC).bytes(token).u64(token_at).0
}

pub(crate) fn read_welcome(message: &[u8]) -> Option<(Token, u64)> {
    let mut input = In::begin(message)?;
    let token = input.array()?;
    let token_at = input.u64()?;
    input.end((token, token_at))
}

impl Request {
    pub(crate) fn write(&self) -> Vec<u8> {
        let out = Out::default().u32(MAGIC).bytes(&self.token).u64(self.token_at);
        let out = out.u64(self.link).u32(self.vi);
        let out = out.attributes(&self.attributes);
        out.counted(&self.local.host).counted(&self.local.discriminator).0
    }

    pub(crate) fn read(message: &[u8]) -> Option<Request> {
        let mut input = In::begin(message)?;
        let token = input.array()?;
        let token_at = input.u64()?;
        let link = input.u64()?;
        let vi = input.u32()?;
        let attributes = input.attributes()?;
        let host = input.counted(HOST_LEN)?;
        let discriminator = input.counted(DISCRIMINATOR_MAX)?;
        let local = NetAddress::new(host, discriminator);
        input.end(Request { token, token_at, link, vi, attributes, local })
    }
}

impl Answer {
    pub(crate) fn write(&self) -> Vec<u8> {
        let out = Out::default().u32(MAGIC);
        match self {
            Answer::Accepted(attributes) => out.u8(0).attributes(attributes),
            Answer::Rejected => out.u8(1),
            Answer::Reliability => out.u8(2),
            Answer::MaxTransferSize => out.u8(3),
            Answer::UnknownLink => out.u8(4),
            Answer::NobodyWaits => out.u8(5),
        }
        .0
    }

    pub(crate) fn read(message: &[u8]) -> Option<Answer> {
        let mut input = In::begin(message)?;
        let answer = match input.u8()? {
            0 => Answer::Accepted(input.attributes()?),
            1 => Answer::Rejected,
            2 => Answer::Reliability,
            3 => Answer::MaxTransferSize,
            4 => Answer::UnknownLink,
            5 => Answer::NobodyWaits,
            _ => return None,
        };
        input.end(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        Request {
            token: [7; 16],
            token_at: 1 << 46,
            link: 1 << 40,
            vi: 12,
            attributes: ViAttributes { enable_rdma_read: true, ..ViAttributes::default() },
            local: NetAddress::new(&[1, 2, 3], b"discriminator"),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let request = request();
        assert_eq!(Request::read(&request.write()), Some(request.clone()));
        assert_eq!(read_welcome(&welcome(&[3; 16], 5)), Some(([3; 16], 5)));
        for answer in [
            Answer::Accepted(request.attributes),
            Answer::Rejected,
            Answer::Reliability,
            Answer::MaxTransferSize,
            Answer::UnknownLink,
            Answer::NobodyWaits,
        ] {
            assert_eq!(Answer::read(&answer.write()), Some(answer));
        }
    }

    /// `VipConnectWait` stores the requester's address in memory for the NIC's longest address.
    #[test]
    fn requests_with_addresses_longer_than_the_nic_allows_are_refused() {
        let longest = NetAddress::new(&[1; HOST_LEN], &[2; DISCRIMINATOR_MAX]);
        let with = |local: NetAddress| Request::read(&Request { local, ..request() }.write());
        assert_eq!(with(longest.clone()).unwrap().local, longest);
        assert_eq!(with(NetAddress::new(&[1; HOST_LEN + 1], &longest.discriminator)), None);
        assert_eq!(with(longest.with_discriminator(&[2; DISCRIMINATOR_MAX + 1])), None);
    }

    proptest! {
        #[test]
        fn junk_is_no_message(
            at in 0usize..80,
            junk in any::<u8>(),
            cut in 0usize..80,
            random in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut bytes = request().write();
            let len = bytes.len();
            // Check the cut message before changing a byte: the changed byte may be a length that matches the cut.
            prop_assert_eq!(Request::read(&bytes[..len.saturating_sub(1 + cut)]), None);
            if let Some(byte) = bytes.get_mut(at) { *byte = junk; }
            let _ = Request::read(&bytes);
            let _ = (Request::read(&random), Answer::read(&random), read_welcome(&random));
        }
    }
}
