//! Failover: a direction's move to TCP after the carrier of its VI has died.
//!
//! If a NIC in software is between the two ends, the sender's segment keeps the bytes that the sender has put on
//! the VI. It keeps them until the sender knows that the receiver has consumed them. So no byte is lost if a NIC
//! dies, or if the two NICs lose each other for good. Each sender puts on TCP all bytes that may not have arrived,
//! and then continues on TCP:
//!
//! 1. The sender freezes the direction. It finds the tail of the stream, which it still has in its segment
//!    ([`kept`]).
//! 2. The sender puts a [`Record`] on TCP. The record gives the position of the tail in the VI's stream, and the
//!    tail's length. The tail follows, and then the program's new bytes.
//! 3. The receiver reads everything that has arrived on the VI, and then the record. It skips the bytes of the tail
//!    that it has already read ([`skip`]).
//!
//! The record needs no answer. Each direction fails over by itself, when its sender finds that the carrier has
//! died. If both ends know of the switch, TCP carries nothing else behind the byte of the switch. So the receiver
//! cannot take the record for data. If TCP ends before all bytes that the record announces, the receiver reports an
//! error.
//!
//! # During the rendezvous
//!
//! A receiver reads nothing on the VI until its claim of the switch is confirmed, and the sender's segment decides
//! the claim. So if no claim has arrived, the sender knows that the receiver has read nothing on the VI. The sender
//! then takes the switch back, and puts all bytes of the VI on TCP without a record ([`Sending::TakeBack`]). A
//! receiver that
//!
//! - has not claimed a switch continues to read TCP ([`Receiving::Doubtful`]), as if there were no switch.
//! - has claimed a switch does not know whether the claim has arrived. It looks whether there is a record at the
//!   byte of the switch ([`Receiving::RecordOrNot`]).
//!
//! Without a record, the receiver does not know how many bytes of the VI the sender puts on TCP. A sender that had
//! closed before puts none there. So for such a receiver the end of TCP is an error.
//!
//! Positions count the bytes on the VI, in packets and coalesced. They wrap: two ends are never 2^31 bytes apart.

#[cfg(test)]
mod tests;

use crate::path::{Rx, Switch, Tx};
use crate::{Violation, word};

/// Length of a record in bytes.
pub const LEN: usize = 32;

/// Marks a record. No program writes these bytes by chance.
const MAGIC: [u8; 16] = *b"\x9b\xd1\x07\xe4sovia-vi\xf6\x2c\x00\x1a";
const VERSION: u32 = 1;

/// Header that the sender puts on TCP before the bytes that may not have arrived on the VI (the tail).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Position of the tail's first byte in the VI's stream.
    pub position: u32,
    /// Length of the tail in bytes.
    pub bytes: u32,
}

impl Record {
    /// Encodes the record.
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..16].copy_from_slice(&MAGIC);
        let words = [VERSION, self.position, self.bytes, self.check()];
        for (place, word) in out[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`Violation`] if `bytes` are not a record.
    pub fn decode(bytes: &[u8; LEN]) -> Result<Record, Violation> {
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes[16..].chunks_exact(4)) {
            *word = place.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        }
        let [version, position, bytes_behind, check] = words;
        let record = Record { position, bytes: bytes_behind };
        match bytes.starts_with(&MAGIC) && version == VERSION && check == record.check() {
            true => Ok(record),
            false => Err(Violation("bytes on TCP that are not a failover record")),
        }
    }

    fn check(&self) -> u32 {
        !(self.position.rotate_left(7) ^ self.bytes)
    }
}

/// Action of a sender after the carrier of its direction has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Repeats no byte. The direction is on TCP, or has ended.
    Plain,
    /// Puts a record on TCP.
    Record,
    /// Takes the switch back, and puts the bytes of the VI on TCP. If the receiver has claimed the switch by then,
    /// the sender puts a record on TCP instead.
    TakeBack,
    /// Resets the connection: the receiver waits for an answer that it did not get.
    Lost,
}

/// Returns the action for the direction in which an end sends. `switch` is the word in its segment. `owes` is true
/// if the sender has gone back to TCP before, and may still have to drain bytes that the receiver returns.
pub const fn sending(tx: Tx, switch: u64, fin_sent: bool, owes: bool) -> Sending {
    match tx {
        Tx::Tcp => Sending::Plain,
        // The bytes behind a switch that the sender took back go on TCP in any case.
        Tx::Back if owes && !matches!(Switch::from_word(switch), Switch::Cancelled) => {
            Sending::Lost
        }
        Tx::Back => Sending::Plain,
        // The kernel socket takes no more bytes. The receiver finds out whether the FIN has arrived.
        Tx::Vi if fin_sent => Sending::Plain,
        Tx::Vi => match Switch::from_word(switch) {
            Switch::Entered(_) => Sending::Record,
            Switch::At(_) | Switch::Cancelled => Sending::TakeBack,
            Switch::Not => Sending::Lost,
        },
    }
}

/// Action of a receiver after the carrier of its direction has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiving {
    /// Continues on TCP.
    Plain,
    /// Continues on TCP, and takes TCP's end for an error. The sender may have ended its part on the VI. Or it may
    /// die before it has put all bytes on TCP that it takes back.
    Doubtful,
    /// Reads TCP up to the switch, then the VI up to the FIN, which has arrived.
    ToFin,
    /// Reads TCP up to the switch, then all bytes that have arrived on the VI. Then it expects a record on TCP.
    Record,
    /// Reads TCP up to the switch. Then either a record follows, or the program's next bytes. The receiver has read
    /// nothing on the VI before. As in [`Receiving::Doubtful`], TCP's end is an error.
    RecordOrNot,
    /// Resets the connection: the sender may have put returned bytes on TCP.
    Lost,
}

/// A receiver's knowledge of the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// State of the receiver.
    pub rx: Rx,
    /// The sender's switch word, as far as the receiver knows.
    pub switch: u64,
    /// Set if the receiver has claimed the switch.
    pub claimed: bool,
    /// Number of bytes that the receiver has read from TCP.
    pub read: u64,
    /// The word [`word::FIN`], as far as the receiver knows.
    pub fin: u64,
    /// Set if the FIN on the VI has arrived, or if the receiver has read the end of the stream.
    pub finished: bool,
    /// Set if all bytes behind a switch that the sender took back are on TCP ([`word::TAKEN`]).
    pub taken_back: bool,
    /// Set if the receiver has returned its unread bytes.
    pub returning: bool,
}

/// Returns the action for the direction in which an end receives.
pub const fn receiving(known: Known) -> Receiving {
    match known.rx {
        _ if known.returning => Receiving::Lost,
        Rx::Tcp | Rx::Back => Receiving::Plain,
        Rx::Vi if known.finished => Receiving::ToFin,
        Rx::Vi => Receiving::Record,
        Rx::Granted => match Switch::from_word(known.switch) {
            // The sender has ended on TCP, and has never switched.
            Switch::Not if known.fin == word::FIN_ON_TCP => Receiving::Plain,
            Switch::Cancelled if known.taken_back => Receiving::Plain,
            // Everything that the sender put on the VI has arrived, and its TCP stream has ended at the switch.
            Switch::At(n) | Switch::Entered(n) if known.finished && known.read <= n => {
                Receiving::ToFin
            }
            Switch::Entered(n) if known.claimed && known.read <= n => Receiving::Record,
            Switch::At(n) if known.claimed && known.read <= n => Receiving::RecordOrNot,
            Switch::Entered(_) => Receiving::Lost,
            Switch::Not | Switch::Cancelled | Switch::At(_) => Receiving::Doubtful,
        },
    }
}

/// Meaning of the first bytes at the byte of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// They may be the beginning of a record. More bytes must come.
    Perhaps,
    /// They are a record.
    Record(Record),
    /// They are the program's bytes.
    Data,
}

/// Returns the meaning of `bytes`, the first bytes at the byte of a switch. More bytes may follow.
pub fn begins(bytes: &[u8]) -> Begins {
    let n = bytes.len().min(MAGIC.len());
    match bytes.first_chunk().map(Record::decode) {
        Some(Ok(record)) => Begins::Record(record),
        None if bytes[..n] == MAGIC[..n] => Begins::Perhaps,
        _ => Begins::Data,
    }
}

/// Counts of a sender's messages on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Number of entries of the ring.
    pub entries: u32,
    /// Number of ordered packets among these entries.
    pub packets: u32,
    /// Number of bytes in the ordered packets.
    pub bytes: u32,
    /// Number of ordered packets before the coalesced bytes in the overflow buffer.
    pub after: u32,
    /// Position of the first coalesced byte in the overflow buffer. Positions count coalesced bytes only.
    pub start: u64,
    /// Position of the end of the coalesced bytes.
    pub tail: u64,
}

/// Least progress of the receiver, as far as the sender knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Number of bytes in packets that the receiver has read completely.
    pub bytes: u32,
    /// Number of coalesced bytes that the receiver has taken.
    pub head: u64,
}

/// An entry that is still in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Length of its message in bytes.
    pub len: u32,
    /// True if the entry is an ordered packet.
    pub is_ordered: bool,
}

/// Tail of the stream, as far as the sender still has it: messages, then coalesced bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Tail {
    /// Position of the tail in the stream.
    pub position: u32,
    /// Length of the tail in bytes.
    pub bytes: u32,
    /// Number of the first entry of the ring that belongs to the tail.
    pub first: u32,
    /// Number of entries in the tail.
    pub entries: u32,
    /// Position of the tail's first coalesced byte. Positions count coalesced bytes only.
    pub head: u64,
    /// Number of coalesced bytes. They follow all messages.
    pub gathered: u64,
}

/// Returns the tail of the stream that the sender still has. `entry` returns an entry of the ring, or `None` if
/// another entry has overwritten it.
///
/// An unread message may be missing here. A short message travels in its entry. The receiver may have taken the
/// entry off the ring, and posted the receive again, before its program read the message. So the receiver has every
/// message that is missing here. Conversely, the receiver may have read bytes of the tail: the sender's knowledge
/// of the receiver may be old.
///
/// # Errors
/// [`Violation`] if `heard` says that the receiver has consumed bytes that it cannot have consumed.
pub fn kept(
    sent: &Sent,
    heard: &Heard,
    entry: impl Fn(u32) -> Option<Kept>,
) -> Result<Tail, Violation> {
    let total = sent.bytes.wrapping_add(sent.tail as u32);
    let has_gathered = sent.tail != sent.start;
    if heard.head > sent.tail {
        return Err(Violation("more coalesced bytes taken than there are"));
    }
    let gathered = sent.tail - heard.head;
    // The receiver has consumed all bytes before `start`. Otherwise the sender would not have begun to coalesce
    // again.
    let gathered =
        if gathered > sent.tail - sent.start { sent.tail - sent.start } else { gathered };
    let head = sent.tail - gathered;
    // The sender sends packets after coalesced bytes only if the receiver has consumed all of these. Then the
    // receiver has also consumed the packets before them.
    let least = match has_gathered && gathered == 0 {
        true => sent.after,
        false => sent.packets.wrapping_sub(sent.entries),
    };
    let untaken = sent.bytes.wrapping_sub(heard.bytes);
    let (mut bytes, mut number, mut packets) = (0u32, sent.entries, sent.packets);
    while bytes != untaken && packets != least {
        let before = number.wrapping_sub(1);
        let Some(kept) = entry(before) else { break };
        if kept.len > untaken - bytes {
            return Err(Violation("half a packet taken"));
        }
        number = before;
        bytes += kept.len;
        packets = packets.wrapping_sub(u32::from(kept.is_ordered));
    }
    let all = bytes.wrapping_add(gathered as u32);
    Ok(Tail {
        position: total.wrapping_sub(all),
        bytes: all,
        first: number,
        entries: sent.entries.wrapping_sub(number),
        head,
        gathered,
    })
}

/// Returns the number of bytes of the tail that the receiver has already read. `consumed` is the number of bytes of
/// the VI's stream that it has consumed.
///
/// # Errors
/// [`Violation`] if bytes are missing between the two.
pub fn skip(record: &Record, consumed: u32) -> Result<u32, Violation> {
    let had = consumed.wrapping_sub(record.position);
    if had <= record.bytes {
        Ok(had)
    } else {
        Err(Violation("bytes are missing before the record"))
    }
}
