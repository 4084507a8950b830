//! What a record says of a connection.

use super::{Holders, Legend, Word};
use crate::{NicName, Reason, Traffic};
use core::net::{Ipv6Addr, SocketAddr};

/// Declares an enum of what a word may say, by numbers.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vmeta])* $variant = $value,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            fn of(number: u64) -> Option<Self> {
                match number {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// How far a connection has come.
    Phase {
        /// The slot is not in use.
        Free = 0,
        /// On TCP; the two ends may yet meet.
        Candidate = 1,
        /// It has a VI.
        Attached = 2,
        /// On TCP for good.
        Plain = 3,
    }
}

numbered! {
    /// Where what this end sends goes.
    Sends {
        /// To TCP.
        Tcp = 0,
        /// To the VI.
        Vi = 1,
        /// To TCP, for good.
        Back = 2,
    }
}

numbered! {
    /// Where what this end receives comes from.
    Receives {
        /// From TCP.
        Tcp = 0,
        /// From TCP, up to the byte at which the sender changes to the VI.
        Granted = 1,
        /// From the VI.
        Vi = 2,
        /// From TCP, for good.
        Back = 3,
    }
}

numbered! {
    /// Which thread handles messages.
    Handling {
        /// The program's, in its calls.
        Single = 0,
        /// One of Sovia's.
        Handler = 1,
        /// One of Sovia's, which is called back.
        Notify = 2,
    }
}

numbered! {
    /// How a program's bytes become memory that the NIC reads.
    Transfer {
        /// As is best.
        Auto = 0,
        /// They are registered.
        Reg = 1,
        /// They are copied.
        Copy = 2,
        /// Short messages are copied, long ones registered.
        Hybrid = 3,
    }
}

/// What a connection does of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Packets that may be under way.
    pub window: u16,
    /// Packets after which they are acknowledged.
    pub threshold: u16,
    /// Which thread handles messages.
    pub handling: Handling,
    /// How bytes become memory that the NIC reads.
    pub transfer: Transfer,
}

impl Configuration {
    /// As a word, which is never 0.
    pub const fn word(self) -> u64 {
        1 << 63
            | self.window as u64
            | (self.threshold as u64) << 16
            | (self.handling as u64) << 32
            | (self.transfer as u64) << 40
    }

    fn of(word: u64) -> Option<Configuration> {
        (word >> 63 == 1).then_some(())?;
        Some(Configuration {
            window: word as u16,
            threshold: (word >> 16) as u16,
            handling: Handling::of(word >> 32 & 0xff)?,
            transfer: Transfer::of(word >> 40 & 0xff)?,
        })
    }
}

/// An address as two words: an IPv4 one is mapped.
pub fn pack_address(address: &SocketAddr) -> (u64, u64) {
    let ip = match address.ip() {
        core::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        core::net::IpAddr::V6(v6) => v6,
    };
    let bits = u128::from(ip);
    ((bits >> 64) as u64, bits as u64)
}

fn unpack_address(high: u64, low: u64, port: u16) -> SocketAddr {
    let ip = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
    SocketAddr::new(ip.to_canonical(), port)
}

/// A connection, as its record shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which life the record's slot lives.
    pub generation: u32,
    /// How far it has come.
    pub phase: Phase,
    /// Where what this end sends goes.
    pub sends: Sends,
    /// Where what this end receives comes from.
    pub receives: Receives,
    /// The places of the processes that have it.
    pub holders: Holders,
    /// The kernel's number of the socket; 0: it is not known.
    pub cookie: u64,
    /// Whether `connect` opened it.
    pub is_connector: bool,
    /// The local address and the peer's, once the engine has looked at them.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The NIC in software that carries it.
    pub nic: Option<NicName>,
    /// What it does of the protocol, once it has a VI.
    pub configuration: Option<Configuration>,
    /// Whether small messages are combined.
    pub combines: bool,
    /// Why it is on TCP for good.
    pub stays: Option<Reason>,
    /// Why this end takes it back to TCP.
    pub leaves: Option<Reason>,
    /// Why the other end's process has been refused so far, while the two ends may yet meet.
    pub doubts: Option<Reason>,
    /// Whether it is being taken back.
    pub falls_back: bool,
    /// Whether a relay has it.
    pub is_relayed: bool,
    /// Whether the program has shut its sending side, and its receiving side.
    pub shut: (bool, bool),
    /// Calls that moved bytes before the two ends met.
    pub transfers: u64,
    /// Bytes sent and received over TCP.
    pub tcp: (u64, u64),
    /// How often threads have slept for it.
    pub sleeps: u64,
    /// What went over the VI. It says nothing of sleeps and rings.
    pub traffic: Traffic,
    /// The part of that which is not in the totals yet.
    pub unsettled: Traffic,
    /// Packets that the program has consumed, the lower 32 bits.
    pub packets_taken: u32,
}

impl Record {
    /// What the words of a record say ([`Legend::place_of`] says which bytes); `None` if the slot is free, or its words say what
    /// no connection's do.
    pub fn read(legend: &Legend, bytes: &[u8]) -> Option<Record> {
        let get = |word| legend.value(bytes, word).unwrap_or(0);
        let is = |word| get(word) != 0;
        let phase = Phase::of(get(Word::Phase)).filter(|&phase| phase != Phase::Free)?;
        let has_met = is(Word::HasMet);
        let traffic = |sent, messages, received, handled, registered| Traffic {
            bytes_sent: get(sent),
            messages_sent: get(messages),
            bytes_received: get(received),
            messages_handled: get(handled),
            messages_registered: get(registered),
            ..Traffic::default()
        };
        let (mut unsettled, mut past) = (Traffic::default(), Traffic::default());
        if has_met {
            unsettled = traffic(
                Word::BytesSent,
                Word::MessagesSent,
                Word::BytesReceived,
                Word::MessagesHandled,
                Word::MessagesRegistered,
            );
            past = traffic(
                Word::PastBytesSent,
                Word::PastMessagesSent,
                Word::PastBytesReceived,
                Word::PastMessagesHandled,
                Word::PastMessagesRegistered,
            );
        }
        let generation = get(Word::Generation) as u32;
        // The slot may have been another connection's when those were written.
        let is_known = get(Word::AddressesOf) == u64::from(generation) + 1;
        let addresses = is_known.then(|| {
            let ports = get(Word::Ports);
            let local = unpack_address(get(Word::LocalHigh), get(Word::LocalLow), ports as u16);
            let peer = get(Word::PeerHigh);
            (local, unpack_address(peer, get(Word::PeerLow), (ports >> 16) as u16))
        });
        let reason = |word| (get(word) as u32).checked_sub(1).and_then(Reason::of);
        Some(Record {
            generation,
            phase,
            sends: Sends::of(get(Word::Sends))?,
            receives: Receives::of(get(Word::Receives))?,
            holders: Holders::from_word(get(Word::Holders)),
            cookie: get(Word::Cookie),
            is_connector: is(Word::IsConnector),
            addresses,
            nic: (is_known && is(Word::Reflected))
                .then(|| nic([Word::Nic0, Word::Nic1, Word::Nic2, Word::Nic3].map(get)))
                .flatten(),
            configuration: Configuration::of(get(Word::Configuration)).filter(|_| has_met),
            combines: is(Word::Combines),
            stays: reason(Word::Stays),
            leaves: reason(Word::Leaves),
            doubts: (phase == Phase::Candidate && is_known).then(|| reason(Word::Doubts)).flatten(),
            falls_back: is(Word::FallsBack),
            is_relayed: is(Word::Relayed),
            shut: (is(Word::ShutsSending), is(Word::ShutsReceiving)),
            transfers: get(Word::Transfers),
            tcp: (get(Word::TcpSent), get(Word::TcpReceived)),
            sleeps: get(Word::Sleeps),
            traffic: sum(&unsettled, &past),
            unsettled,
            packets_taken: if has_met { get(Word::PacketsTaken) as u32 } else { 0 },
        })
    }

    /// Whether both directions are on the VI.
    pub fn is_accelerated(&self) -> bool {
        self.phase == Phase::Attached && self.sends == Sends::Vi && self.receives == Receives::Vi
    }
}

/// A page may say anything: no sum overflows.
fn sum(one: &Traffic, other: &Traffic) -> Traffic {
    Traffic {
        bytes_sent: one.bytes_sent.wrapping_add(other.bytes_sent),
        messages_sent: one.messages_sent.wrapping_add(other.messages_sent),
        bytes_received: one.bytes_received.wrapping_add(other.bytes_received),
        sleeps: 0,
        rings: 0,
        messages_handled: one.messages_handled.wrapping_add(other.messages_handled),
        messages_registered: one.messages_registered.wrapping_add(other.messages_registered),
    }
}

fn nic(words: [u64; 4]) -> Option<NicName> {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    NicName::parse(core::str::from_utf8(&bytes[..len]).ok()?)
}
