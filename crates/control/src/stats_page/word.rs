//! The words of a record.

/// Declares the enum [`Word`]. The numbers of the words are part of a file's schema.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $value:literal,)*) => {
        /// Word of a record. If a word is removed, no other word gets its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Word {
            $($(#[$meta])* $name = $value,)*
        }

        impl Word {
            /// All words, in the order of their numbers.
            pub const ALL: &[Word] = &[$(Word::$name,)*];

            /// Returns the word with this number. `None` for a word of a later version.
            pub fn of(number: u16) -> Option<Word> {
                match number {
                    $($value => Some(Word::$name),)*
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// Generation of the record's slot. It changes with each connection that uses the slot.
    Generation = 1,
    /// State of the connection: a [`Phase`](super::Phase) as a number.
    Phase = 2,
    /// Path of sent bytes: a [`Sends`](super::Sends) as a number.
    Sends = 3,
    /// Path of received bytes: a [`Receives`](super::Receives) as a number.
    Receives = 4,
    /// Processes that have the connection, as [`References`](super::References).
    References = 5,
    /// Number of calls that moved bytes before the rendezvous.
    Transfers = 6,
    /// Number of bytes received over TCP.
    TcpReceived = 7,
    /// Number of bytes sent over TCP.
    TcpSent = 8,
    /// Cookie by which the kernel identifies the socket.
    Cookie = 9,
    /// Reason why the connection is on TCP for good: a [`Reason`](crate::Reason) plus one, or 0.
    Stays = 10,
    /// Reason why this end moves the connection back to TCP: a [`Reason`](crate::Reason) plus one, or 0.
    Leaves = 11,
    /// Approximate number of times that a thread slept for the connection.
    Sleeps = 12,
    /// Set if `connect` opened the connection.
    IsConnector = 20,
    /// Set once the connection has had a VI. The counts of traffic on the VI are valid only then.
    HasMet = 21,
    /// Set if small messages are combined.
    Combines = 22,
    /// Set if a thread of Sovia handles messages.
    HasHandler = 23,
    /// Set if a thread of Sovia calls the program back for each message.
    Notified = 24,
    /// Set if the connection shares its segment with a NIC in software, and not with the peer.
    Reflected = 25,
    /// Set while the connection falls back to TCP.
    FallsBack = 26,
    /// Set if a relay serves the connection.
    Relayed = 27,
    /// Set if the program has shut down sending.
    ShutsSending = 28,
    /// Set if the program has shut down receiving.
    ShutsReceiving = 29,
    /// Upper half of the local address. An IPv4 address is mapped to IPv6.
    LocalHigh = 40,
    /// Lower half of the local address.
    LocalLow = 41,
    /// Upper half of the peer's address. An IPv4 address is mapped to IPv6.
    PeerHigh = 42,
    /// Lower half of the peer's address.
    PeerLow = 43,
    /// Local port in the lower 16 bits, peer's port in the upper 16 bits.
    Ports = 44,
    /// Value of [`Word::Generation`] for which the addresses are valid, plus one. 0 if the addresses are unknown.
    AddressesOf = 45,
    /// Protocol settings ([`Configuration`](super::Configuration)).
    Configuration = 46,
    /// Bytes 0 to 7 of the name of the NIC in software that carries the connection.
    Nic0 = 47,
    /// Bytes 8 to 15 of the NIC's name.
    Nic1 = 48,
    /// Bytes 16 to 23 of the NIC's name.
    Nic2 = 49,
    /// Bytes 24 to 31 of the NIC's name.
    Nic3 = 50,
    /// Reason why this end has refused the peer's process so far: a [`Reason`](crate::Reason) plus one, or 0.
    Doubts = 51,
    /// Number of bytes sent on the VI that are not yet in the family's totals.
    BytesSent = 60,
    /// Number of messages that carried the bytes of [`Word::BytesSent`].
    MessagesSent = 61,
    /// Number of bytes received on the VI that are not yet in the family's totals.
    BytesReceived = 62,
    /// Number of messages that a thread of Sovia has handled and that are not yet in the family's totals.
    MessagesHandled = 63,
    /// Number of messages sent from registered memory that are not yet in the family's totals.
    MessagesRegistered = 64,
    /// Number of bytes sent on the VI that are already in the family's totals.
    PastBytesSent = 70,
    /// Number of messages that carried the bytes of [`Word::PastBytesSent`].
    PastMessagesSent = 71,
    /// Number of bytes received on the VI that are already in the family's totals.
    PastBytesReceived = 72,
    /// Number of messages that a thread of Sovia has handled and that are already in the family's totals.
    PastMessagesHandled = 73,
    /// Number of messages sent from registered memory that are already in the family's totals.
    PastMessagesRegistered = 74,
    /// Number of packets that the program has consumed, modulo 2^32.
    PacketsTaken = 80,
}

/// Size of a word, or the position of a one-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Half,
    /// 64 bits.
    Whole,
    /// One bit, with this number, of 32 bits.
    Bit(u8),
}

impl Width {
    const BIT: u64 = 0x80;

    const fn code(self) -> u64 {
        match self {
            Width::Half => 4,
            Width::Whole => 8,
            Width::Bit(bit) => Width::BIT | bit as u64,
        }
    }

    fn of(code: u64) -> Option<Width> {
        match code {
            4 => Some(Width::Half),
            8 => Some(Width::Whole),
            bit @ 0x80..0xa0 => Some(Width::Bit((bit - Width::BIT) as u8)),
            _ => None,
        }
    }

    /// Returns the number of bytes that a reader needs for the word.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Width::Half | Width::Bit(_) => 4,
            Width::Whole => 8,
        }
    }
}

/// Position of a word in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The word.
    pub word: Word,
    /// Size of the word, or the position of its bit.
    pub width: Width,
    /// Offset of the word in the record.
    pub at: u32,
}

impl Field {
    /// Returns a field of one bit: the bit that `mask` has set, in the 32 bits at `at`.
    pub const fn bit(word: Word, at: usize, mask: u32) -> Field {
        Field { word, width: Width::Bit(mask.trailing_zeros() as u8), at: at as u32 }
    }

    /// Returns a field of 32 bits at `at`.
    pub const fn half(word: Word, at: usize) -> Field {
        Field { word, width: Width::Half, at: at as u32 }
    }

    /// Returns a field of 64 bits at `at`.
    pub const fn whole(word: Word, at: usize) -> Field {
        Field { word, width: Width::Whole, at: at as u32 }
    }

    pub(super) const fn encode(self) -> u64 {
        (self.word as u64) << 48 | self.width.code() << 32 | self.at as u64
    }

    /// Decodes a field of a schema. Returns `None` if the word or its size is unknown.
    pub(super) fn decode(code: u64) -> Option<Field> {
        let width = Width::of(code >> 32 & 0xffff)?;
        Some(Field { word: Word::of((code >> 48) as u16)?, width, at: code as u32 })
    }

    /// Returns the value of this field in a record's bytes.
    pub(super) fn value(self, record: &[u8]) -> u64 {
        let at = self.at as usize;
        let half = || record.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let whole = || record.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        match self.width {
            Width::Half => half().map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes))),
            Width::Whole => whole().map_or(0, u64::from_ne_bytes),
            Width::Bit(bit) => {
                half().map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes) >> bit & 1))
            }
        }
    }
}
