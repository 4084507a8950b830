//! Messages of two NICs beside their VIs, in the connection manager's private data.
//!
//! All numbers are big-endian. A request for a connection has at most 56 bytes, and its answer at most 196. A question
//! has at most 180 bytes, and its answer at most 136. This module checks everything that a peer sends, once.

use via::{Reliability, ViAttributes};

/// Largest size of a discriminator in bytes. A request contains two discriminators.
pub const DISCRIMINATOR_MAX: usize = 16;
/// First bytes of each message: "VI" and the version.
const MARK: [u8; 3] = *b"VI\x01";

/// A request for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// True for a peer-to-peer request: both sides ask, and neither waits.
    pub is_peer: bool,
    /// Attributes of the requesting VI.
    pub attributes: ViAttributes,
    /// Token by which questions name the connection at the requesting VI.
    pub token: u64,
    /// Port at which the requesting NIC listens.
    pub port: u16,
    /// Discriminator of the requester.
    pub from: Box<[u8]>,
    /// Discriminator that the request is for.
    pub to: Box<[u8]>,
}

/// Answer of a VI that accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Attributes of the accepting VI.
    pub attributes: ViAttributes,
    /// Token by which questions name the connection at the accepting VI.
    pub token: u64,
}

/// Reason for the refusal of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The program has rejected the request.
    Rejected = 1,
    /// No program waits under the discriminator.
    NoMatch = 2,
    /// The VIs' reliability levels differ.
    Reliability = 3,
    /// The VIs' maximum transfer sizes differ.
    MaxTransferSize = 4,
    /// The peer has too few resources.
    Resource = 5,
}

/// Reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Closing {
    /// The program has disconnected.
    Disconnected = 1,
    /// An error has broken the connection.
    Broke = 2,
    /// A message found no posted receive.
    NoReceive = 3,
    /// A write was not allowed.
    WriteDenied = 4,
    /// A write with immediate data was not allowed.
    WriteWithImmediateDenied = 5,
    /// A read was not allowed.
    ReadDenied = 6,
}

/// A question to the other NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Asks for the key by which these bytes may be written or read.
    Key {
        /// Token of the connection at the side that is asked.
        token: u64,
        /// Handle of the region.
        handle: u32,
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        length: u32,
        /// True for a write, false for a read.
        write: bool,
        /// True if the write has immediate data.
        immediate: bool,
    },
    /// Reports that the connection ends.
    Close {
        /// Token of the connection at the side that receives the report.
        token: u64,
        /// Reason for the end.
        closing: Closing,
        /// Number of messages received. Their sends were successful.
        received: u32,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The key.
    Key(u32),
    /// The peer may not access the bytes.
    Denied,
    /// The report has been received.
    Heard,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], kind: u8) -> Option<Reader<'a>> {
        let mut reader = Reader(bytes);
        (reader.bytes(3)? == MARK && reader.byte()? == kind).then_some(reader)
    }

    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(now)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn attributes(&mut self) -> Option<ViAttributes> {
        let (level, rights) = (self.byte()?, self.byte()?);
        let reliability = Reliability::from_bits(level.into())?;
        if level.count_ones() != 1 || rights > 3 {
            return None;
        }
        Some(ViAttributes {
            reliability,
            max_transfer_size: self.word()?,
            ptag: None,
            enable_rdma_write: rights & 1 != 0,
            enable_rdma_read: rights & 2 != 0,
        })
    }
}

fn begin(kind: u8) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    bytes.push(kind);
    bytes
}

fn put(bytes: &mut Vec<u8>, attributes: &ViAttributes) {
    bytes.push(attributes.reliability.bits() as u8);
    let (write, read) = (attributes.enable_rdma_write, attributes.enable_rdma_read);
    bytes.push(u8::from(write) | u8::from(read) << 1);
    bytes.extend(attributes.max_transfer_size.to_be_bytes());
}

impl Hello {
    /// Encodes the request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = begin(if self.is_peer { 2 } else { 1 });
        put(&mut bytes, &self.attributes);
        bytes.extend(self.token.to_be_bytes());
        bytes.extend(self.port.to_be_bytes());
        bytes.push(self.from.len() as u8);
        bytes.push(self.to.len() as u8);
        bytes.extend(&self.from[..]);
        bytes.extend(&self.to[..]);
        bytes
    }

    /// Decodes a request. Ignores bytes after it.
    pub fn parse(bytes: &[u8]) -> Option<Hello> {
        let is_peer = *bytes.get(3)? == 2;
        let mut reader = Reader::new(bytes, if is_peer { 2 } else { 1 })?;
        let (attributes, token, port) = (reader.attributes()?, reader.long()?, reader.short()?);
        let (from, to) = (usize::from(reader.byte()?), usize::from(reader.byte()?));
        if from > DISCRIMINATOR_MAX || to > DISCRIMINATOR_MAX {
            return None;
        }
        let (from, to) = (reader.bytes(from)?.into(), reader.bytes(to)?.into());
        Some(Hello { is_peer, attributes, token, port, from, to })
    }
}

impl Welcome {
    /// Encodes the answer.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = begin(3);
        put(&mut bytes, &self.attributes);
        bytes.extend(self.token.to_be_bytes());
        bytes
    }

    /// Decodes an answer.
    pub fn parse(bytes: &[u8]) -> Option<Welcome> {
        let mut reader = Reader::new(bytes, 3)?;
        Some(Welcome { attributes: reader.attributes()?, token: reader.long()? })
    }
}

impl Refusal {
    /// Encodes the refusal.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = begin(4);
        bytes.push(self as u8);
        bytes
    }

    /// Decodes a refusal.
    pub fn parse(bytes: &[u8]) -> Option<Refusal> {
        use Refusal::*;
        let number = Reader::new(bytes, 4)?.byte()?;
        [Rejected, NoMatch, Reliability, MaxTransferSize, Resource]
            .into_iter()
            .find(|it| *it as u8 == number)
    }
}

impl Closing {
    fn parse(number: u8) -> Option<Closing> {
        use Closing::*;
        let all =
            [Disconnected, Broke, NoReceive, WriteDenied, WriteWithImmediateDenied, ReadDenied];
        all.into_iter().find(|it| *it as u8 == number)
    }
}

impl Question {
    /// Encodes the question.
    pub fn bytes(&self) -> Vec<u8> {
        match *self {
            Question::Key { token, handle, address, length, write, immediate } => {
                let mut bytes = begin(5);
                bytes.extend(token.to_be_bytes());
                bytes.extend(handle.to_be_bytes());
                bytes.extend(address.to_be_bytes());
                bytes.extend(length.to_be_bytes());
                bytes.extend([u8::from(write), u8::from(immediate)]);
                bytes
            }
            Question::Close { token, closing, received } => {
                let mut bytes = begin(6);
                bytes.extend(token.to_be_bytes());
                bytes.push(closing as u8);
                bytes.extend(received.to_be_bytes());
                bytes
            }
        }
    }

    /// Decodes a question.
    pub fn parse(bytes: &[u8]) -> Option<Question> {
        if *bytes.get(3)? == 5 {
            let mut reader = Reader::new(bytes, 5)?;
            return Some(Question::Key {
                token: reader.long()?,
                handle: reader.word()?,
                address: reader.long()?,
                length: reader.word()?,
                write: reader.flag()?,
                immediate: reader.flag()?,
            });
        }
        let mut reader = Reader::new(bytes, 6)?;
        Some(Question::Close {
            token: reader.long()?,
            closing: Closing::parse(reader.byte()?)?,
            received: reader.word()?,
        })
    }
}

impl Answer {
    /// Encodes the answer.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = begin(7);
        match self {
            Answer::Key(key) => {
                bytes.push(1);
                bytes.extend(key.to_be_bytes());
            }
            Answer::Denied => bytes.push(2),
            Answer::Heard => bytes.push(3),
        }
        bytes
    }

    /// Decodes an answer.
    pub fn parse(bytes: &[u8]) -> Option<Answer> {
        let mut reader = Reader::new(bytes, 7)?;
        match reader.byte()? {
            1 => Some(Answer::Key(reader.word()?)),
            2 => Some(Answer::Denied),
            3 => Some(Answer::Heard),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let attributes = ViAttributes { enable_rdma_read: true, ..ViAttributes::default() };
        let (from, to) = ([1; DISCRIMINATOR_MAX].into(), [2; DISCRIMINATOR_MAX].into());
        Hello { is_peer: true, attributes, token: 77, port: 7473, from, to }
    }

    #[test]
    fn messages_survive_encoding() {
        let hello = hello();
        assert!(hello.bytes().len() <= 56, "{}", hello.bytes().len());
        assert_eq!(Hello::parse(&hello.bytes()), Some(hello.clone()));
        let welcome = Welcome { attributes: hello.attributes, token: 5 };
        assert_eq!(Welcome::parse(&welcome.bytes()), Some(welcome));
        assert_eq!(Refusal::parse(&Refusal::NoMatch.bytes()), Some(Refusal::NoMatch));
        for question in [
            Question::Key {
                token: 1,
                handle: 2,
                address: 3,
                length: 4,
                write: true,
                immediate: false,
            },
            Question::Close { token: 1, closing: Closing::ReadDenied, received: 9 },
        ] {
            assert_eq!(Question::parse(&question.bytes()), Some(question));
        }
        for answer in [Answer::Key(7), Answer::Denied, Answer::Heard] {
            assert_eq!(Answer::parse(&answer.bytes()), Some(answer));
        }
    }

    /// The manager pads private data with zeroes, and any host may send arbitrary bytes.
    #[test]
    fn zeros_behind_do_not_matter_and_nonsense_is_refused() {
        let mut bytes = hello().bytes();
        for cut in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..cut]), None);
        }
        bytes.extend([0; 20]);
        assert_eq!(Hello::parse(&bytes), Some(hello()));
        for at in 0..6 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            assert_eq!(Hello::parse(&bytes), None, "byte {at}");
        }
        for nonsense in
            [&[][..], &[0; 200], b"VI\x02\x01", b"VI\x01\x06\0\0\0\0\0\0\0\0\x09\0\0\0\0"]
        {
            assert_eq!(Question::parse(nonsense), None);
            assert_eq!(Welcome::parse(nonsense), None);
            assert_eq!(Answer::parse(nonsense), None);
        }
    }
}
