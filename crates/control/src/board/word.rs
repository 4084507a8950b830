//! The words of a record.

/// Declares the words with their numbers, which are part of what a file says.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $value:literal,)*) => {
        /// What a word of a record says. A number is never used again for another word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Word {
            $($(#[$meta])* $name = $value,)*
        }

        impl Word {
            /// Every word, in the order of the numbers.
            pub const ALL: &[Word] = &[$(Word::$name,)*];

            /// The word with that number; `None` for one of a later version.
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
    /// Which life the record's slot lives.
    Generation = 1,
    /// A [`Phase`](super::Phase) as a number.
    Phase = 2,
    /// A [`Sends`](super::Sends) as a number.
    Sends = 3,
    /// A [`Receives`](super::Receives) as a number.
    Receives = 4,
    /// A bit for each place of a process that has the connection.
    Holders = 5,
    /// Calls that moved bytes before the two ends met.
    Transfers = 6,
    /// Bytes received over TCP.
    TcpReceived = 7,
    /// Bytes sent over TCP.
    TcpSent = 8,
    /// The kernel's number of the socket.
    Cookie = 9,
    /// Why it is on TCP for good: a [`Reason`](crate::Reason) plus one; 0 if it is not.
    Stays = 10,
    /// Why this end takes it back to TCP, likewise.
    Leaves = 11,
    /// How often threads have slept for it, or thereabouts.
    Sleeps = 12,
    /// It was opened by `connect`.
    IsConnector = 20,
    /// It has, or had, a VI: what was counted on that is this connection's.
    HasMet = 21,
    /// Small messages are combined.
    Combines = 22,
    /// A thread of Sovia's handles messages.
    Handled = 23,
    /// It is called back for each message.
    Notified = 24,
    /// The other side of the segment is a NIC in software.
    Reflected = 25,
    /// It is being taken back to TCP.
    FallsBack = 26,
    /// A relay has it.
    Relayed = 27,
    /// The program has shut its sending side.
    ShutsSending = 28,
    /// The program has shut its receiving side.
    ShutsReceiving = 29,
    /// The local address (IPv4 mapped), its upper half.
    LocalHigh = 40,
    /// Its lower half.
    LocalLow = 41,
    /// The peer's address, likewise.
    PeerHigh = 42,
    /// Its lower half.
    PeerLow = 43,
    /// The local port, and the peer's in the upper half of 32 bits.
    Ports = 44,
    /// Of which life the addresses are: the generation plus one; 0: they are not known.
    AddressesOf = 45,
    /// What it does of the protocol ([`Configuration`](super::Configuration)).
    Configuration = 46,
    /// The name of the NIC in software that carries it, the first eight bytes.
    Nic0 = 47,
    /// The next eight.
    Nic1 = 48,
    /// The next eight.
    Nic2 = 49,
    /// The last eight.
    Nic3 = 50,
    /// Why the other end's process has been refused so far: as [`Word::Stays`].
    Doubts = 51,
    /// Bytes sent on the VI that are not in the totals yet.
    BytesSent = 60,
    /// Messages that carried them.
    MessagesSent = 61,
    /// Bytes received on the VI that are not in the totals yet.
    BytesReceived = 62,
    /// Messages that a thread of Sovia's has handled.
    MessagesHandled = 63,
    /// Messages sent from registered memory.
    MessagesRegistered = 64,
    /// As [`Word::BytesSent`], of what is in the totals already.
    PastBytesSent = 70,
    /// As [`Word::MessagesSent`].
    PastMessagesSent = 71,
    /// As [`Word::BytesReceived`].
    PastBytesReceived = 72,
    /// As [`Word::MessagesHandled`].
    PastMessagesHandled = 73,
    /// As [`Word::MessagesRegistered`].
    PastMessagesRegistered = 74,
    /// Packets that the program has consumed, the lower 32 bits.
    PacketsTaken = 80,
}

/// How much of a word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Half,
    /// 64 bits.
    Whole,
    /// That bit of 32 bits.
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

    /// How many bytes are read.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Width::Half | Width::Bit(_) => 4,
            Width::Whole => 8,
        }
    }
}

/// Where in a record a word lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Which word.
    pub word: Word,
    /// How much of what lies there.
    pub width: Width,
    /// Its offset in the record.
    pub at: u32,
}

impl Field {
    /// The bit of a word of 32 bits that is set in `mask`.
    pub const fn bit(word: Word, at: usize, mask: u32) -> Field {
        Field { word, width: Width::Bit(mask.trailing_zeros() as u8), at: at as u32 }
    }

    /// A word of 32 bits.
    pub const fn half(word: Word, at: usize) -> Field {
        Field { word, width: Width::Half, at: at as u32 }
    }

    /// A word of 64 bits.
    pub const fn whole(word: Word, at: usize) -> Field {
        Field { word, width: Width::Whole, at: at as u32 }
    }

    pub(super) const fn encode(self) -> u64 {
        (self.word as u64) << 48 | self.width.code() << 32 | self.at as u64
    }

    /// `None` if it is of a word that is not known here, or nonsense.
    pub(super) fn decode(code: u64) -> Option<Field> {
        let width = Width::of(code >> 32 & 0xffff)?;
        Some(Field { word: Word::of((code >> 48) as u16)?, width, at: code as u32 })
    }

    /// What lies there, in a record's bytes.
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
