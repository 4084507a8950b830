//! Content of a connection's record.

use super::{References, Schema, Word};
use crate::{NicName, Reason, Traffic};
use core::net::{Ipv6Addr, SocketAddr};

/// Declares an enum of the values that a word of a record can have, each with its number.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vmeta])* $variant = $value,)*
        }

        impl $name {
            /// All values.
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
    /// State of a connection.
    Phase {
        /// The slot is not in use.
        Free = 0,
        /// The connection is on TCP, and not yet accelerated.
        Eligible = 1,
        /// The connection has a VI.
        Attached = 2,
        /// The connection is on TCP for good.
        Plain = 3,
    }
}

numbered! {
    /// Path of the bytes that this end sends.
    Sends {
        /// TCP.
        Tcp = 0,
        /// The VI.
        Vi = 1,
        /// TCP, for good.
        Back = 2,
    }
}

numbered! {
    /// Path of the bytes that this end receives.
    Receives {
        /// TCP.
        Tcp = 0,
        /// TCP, up to the byte at which the sender switches to the VI.
        Granted = 1,
        /// The VI.
        Vi = 2,
        /// TCP, for good.
        Back = 3,
    }
}

numbered! {
    /// Thread that handles messages.
    Handling {
        /// A thread of the program, in its calls.
        Single = 0,
        /// A thread of Sovia.
        Handler = 1,
        /// A thread of Sovia, which then calls the program back.
        Notify = 2,
    }
}

numbered! {
    /// Way in which the NIC gets access to the program's bytes.
    Transfer {
        /// Sovia chooses the way.
        Auto = 0,
        /// Sovia registers the bytes' memory.
        Reg = 1,
        /// Sovia copies the bytes into registered memory.
        Copy = 2,
        /// Sovia copies short messages, and registers the memory of long ones.
        Hybrid = 3,
    }
}

/// Protocol settings of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Maximum number of packets that are not acknowledged.
    pub window: u16,
    /// Number of packets after which the receiver sends an acknowledgement.
    pub threshold: u16,
    /// Thread that handles messages.
    pub handling: Handling,
    /// Way in which the NIC gets access to the program's bytes.
    pub transfer: Transfer,
}

impl Configuration {
    /// Returns the settings as a word, which is never 0.
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

/// Returns an address as two words. An IPv4 address is mapped to IPv6.
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

/// Content of a connection's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Generation of the record's slot.
    pub generation: u32,
    /// State of the connection.
    pub phase: Phase,
    /// Path of the bytes that this end sends.
    pub sends: Sends,
    /// Path of the bytes that this end receives.
    pub receives: Receives,
    /// Process slots of the processes that have the connection.
    pub references: References,
    /// Cookie by which the kernel identifies the socket, or 0 if unknown.
    pub cookie: u64,
    /// Set if `connect` opened the connection.
    pub is_connector: bool,
    /// Local address and peer's address. `None` until the engine has read these addresses.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// NIC in software that carries the connection.
    pub nic: Option<NicName>,
    /// Protocol settings, once the connection has a VI.
    pub configuration: Option<Configuration>,
    /// Set if small messages are combined.
    pub combines: bool,
    /// Reason why the connection is on TCP for good.
    pub stays: Option<Reason>,
    /// Reason why this end moves the connection back to TCP.
    pub leaves: Option<Reason>,
    /// Reason why this end has refused the peer's process so far, while the rendezvous may still succeed.
    pub doubts: Option<Reason>,
    /// Set while the connection falls back to TCP.
    pub falls_back: bool,
    /// Set if a relay serves the connection.
    pub is_relayed: bool,
    /// Set if the program has shut down sending (first value) or receiving (second value).
    pub shut: (bool, bool),
    /// Number of calls that moved bytes before the rendezvous.
    pub transfers: u64,
    /// Number of bytes sent over TCP, and number of bytes received over TCP.
    pub tcp: (u64, u64),
    /// Number of times that a thread slept for the connection.
    pub sleeps: u64,
    /// Traffic on the VI. The fields `sleeps` and `rings` are 0.
    pub traffic: Traffic,
    /// Part of `traffic` that is not yet in the family's totals.
    pub unsettled: Traffic,
    /// Number of packets that the program has consumed, modulo 2^32.
    pub packets_taken: u32,
}

impl Record {
    /// Reads a record from the bytes that [`Schema::position_of`] gives. Returns `None` if the slot is free, or if its
    /// words have values that no connection has.
    pub fn read(schema: &Schema, bytes: &[u8]) -> Option<Record> {
        let get = |word| schema.value(bytes, word).unwrap_or(0);
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
        // The addresses may belong to an earlier connection of the slot.
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
            references: References::from_word(get(Word::References)),
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
            doubts: (phase == Phase::Eligible && is_known).then(|| reason(Word::Doubts)).flatten(),
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

    /// Returns true if both directions are on the VI.
    pub fn is_accelerated(&self) -> bool {
        self.phase == Phase::Attached && self.sends == Sends::Vi && self.receives == Receives::Vi
    }
}

/// Adds two counts of traffic. The sums wrap, because a faulty process may have written any values.
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
