//! Failover: a direction's move to TCP after the carrier of its VI has died.
//!
//! If NICs in software connect the two ends, the sender's segment keeps the bytes of the VI. It keeps each byte
//! until the sender knows that the receiver has consumed this byte. So no byte is lost if a NIC dies, or if the two
//! NICs lose each other for good. Each sender puts on TCP all bytes that may not have arrived, and then continues
//! on TCP:
//!
//! 1. The sender stops sending on the VI. It finds the tail of the stream, which are the last bytes that its
//!    segment still has ([`tail_of`]).
//! 2. The sender puts a [`FailoverRecord`] on TCP. The record gives the position of the tail in the VI's stream, and
//!    the tail's length. After the record the sender puts the tail on TCP, and then the program's new bytes.
//! 3. The receiver reads everything that has arrived on the VI, and then the record. It skips the bytes of the tail
//!    that it has already read ([`skip`]).
//!
//! The receiver does not answer the record. Each direction fails over independently, when its sender finds that the
//! carrier has died. If both ends know of the switch, TCP has no byte of the program between the switch and the
//! record. So the receiver cannot take the record for data. If TCP ends before all bytes that the record announces,
//! the receiver reports an error.
//!
//! # During the rendezvous
//!
//! A receiver reads nothing on the VI until its claim of the switch has reached the sender's segment and is
//! confirmed. So if no claim has arrived, the sender knows that the receiver has read nothing on the VI. The sender
//! then takes the switch back, and puts all bytes of the VI on TCP without a record ([`SenderAction::TakeBack`]). The
//! receiver acts by what it knows:
//!
//! - A receiver that has not claimed a switch continues to read TCP, as if there were no switch
//!   ([`ReceiverAction::Doubtful`]).
//! - A receiver that has claimed a switch does not know if the claim has arrived. This receiver reads TCP up to the
//!   switch, and then checks for a record there ([`ReceiverAction::RecordOrNot`]).
//!
//! Without a record, the receiver does not know how many bytes the sender had put on the VI. A sender that closed
//! before the failover does not put these bytes on TCP. So without a record the receiver reports the end of TCP as
//! an error.
//!
//! Positions count all bytes on the VI, both in packets and coalesced. A position has 32 bits and wraps. This is
//! safe, because the two ends' positions never differ by 2^31 or more.

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
pub struct FailoverRecord {
    /// Position of the tail's first byte in the VI's stream.
    pub position: u32,
    /// Length of the tail in bytes.
    pub bytes: u32,
}

impl FailoverRecord {
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
    pub fn decode(bytes: &[u8; LEN]) -> Result<FailoverRecord, Violation> {
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes[16..].chunks_exact(4)) {
            *word = place.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        }
        let [version, position, bytes_behind, check] = words;
        let record = FailoverRecord { position, bytes: bytes_behind };
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
pub enum SenderAction {
    /// Repeats no byte. The direction is on TCP, or has ended.
    Plain,
    /// Puts a record and the tail of the stream on TCP.
    FailoverRecord,
    /// Takes the switch back, and puts the bytes of the VI on TCP. If the receiver has already claimed the switch,
    /// the sender puts a record on TCP instead.
    TakeBack,
    /// Resets the connection, because the receiver may wait for an answer that was lost with the carrier.
    Lost,
}

/// Returns the action for the direction in which an end sends. `switch` is the switch word in the end's segment.
/// `owes` is true if the end has already sent ToTcp, and may still have to drain bytes that the receiver returns.
pub const fn sending(tx: Tx, switch: u64, fin_sent: bool, owes: bool) -> SenderAction {
    match tx {
        Tx::Tcp => SenderAction::Plain,
        // A sender that has taken its switch back puts the VI's bytes on TCP in any case.
        Tx::Back if owes && !matches!(Switch::from_word(switch), Switch::Cancelled) => {
            SenderAction::Lost
        }
        Tx::Back => SenderAction::Plain,
        // After a FIN the kernel socket takes no more bytes. The receiver checks if the FIN has arrived on the VI.
        Tx::Vi if fin_sent => SenderAction::Plain,
        Tx::Vi => match Switch::from_word(switch) {
            Switch::Entered(_) => SenderAction::FailoverRecord,
            Switch::At(_) | Switch::Cancelled => SenderAction::TakeBack,
            Switch::Not => SenderAction::Lost,
        },
    }
}

/// Action of a receiver after the carrier of its direction has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverAction {
    /// Continues on TCP.
    Plain,
    /// Continues on TCP, and reports TCP's end as an error. The sender may have ended its stream on the VI. Or the
    /// sender may die before it has put all bytes of the VI on TCP.
    Doubtful,
    /// Reads TCP up to the switch, then the VI up to the FIN, which has arrived.
    ToFin,
    /// Reads TCP up to the switch, then all bytes that have arrived on the VI. Then the receiver expects a record
    /// on TCP.
    FailoverRecord,
    /// Reads TCP up to the switch. Then TCP has either a record, or the program's next bytes. The receiver has read
    /// nothing on the VI so far. As in [`ReceiverAction::Doubtful`], TCP's end is an error.
    RecordOrNot,
    /// Resets the connection, because the sender may already have put returned bytes on TCP.
    Lost,
}

/// A receiver's knowledge of the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverKnowledge {
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
    /// Set if the sender, which took its switch back, has put all bytes of the VI on TCP ([`word::TAKEN`]).
    pub taken_back: bool,
    /// Set if the receiver has returned its unread bytes.
    pub returning: bool,
}

/// Returns the action for the direction in which an end receives.
pub const fn receiving(known: ReceiverKnowledge) -> ReceiverAction {
    match known.rx {
        _ if known.returning => ReceiverAction::Lost,
        Rx::Tcp | Rx::Back => ReceiverAction::Plain,
        Rx::Vi if known.finished => ReceiverAction::ToFin,
        Rx::Vi => ReceiverAction::FailoverRecord,
        Rx::Granted => match Switch::from_word(known.switch) {
            // The sender has ended its stream on TCP, and has never switched.
            Switch::Not if known.fin == word::FIN_ON_TCP => ReceiverAction::Plain,
            Switch::Cancelled if known.taken_back => ReceiverAction::Plain,
            // All bytes that the sender put on the VI have arrived, and the sender's TCP stream ends at the switch.
            Switch::At(n) | Switch::Entered(n) if known.finished && known.read <= n => {
                ReceiverAction::ToFin
            }
            Switch::Entered(n) if known.claimed && known.read <= n => {
                ReceiverAction::FailoverRecord
            }
            Switch::At(n) if known.claimed && known.read <= n => ReceiverAction::RecordOrNot,
            Switch::Entered(_) => ReceiverAction::Lost,
            Switch::Not | Switch::Cancelled | Switch::At(_) => ReceiverAction::Doubtful,
        },
    }
}

/// Meaning of the first bytes that TCP has behind a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBytes {
    /// The bytes may be the beginning of a record. The receiver needs more bytes to decide.
    Perhaps,
    /// The bytes are a record.
    FailoverRecord(FailoverRecord),
    /// The bytes are data of the program.
    Data,
}

/// Returns the meaning of `bytes`, the first bytes that TCP has behind a switch. `bytes` need not be a whole
/// record.
pub fn begins(bytes: &[u8]) -> FirstBytes {
    let n = bytes.len().min(MAGIC.len());
    match bytes.first_chunk().map(FailoverRecord::decode) {
        Some(Ok(record)) => FirstBytes::FailoverRecord(record),
        None if bytes[..n] == MAGIC[..n] => FirstBytes::Perhaps,
        _ => FirstBytes::Data,
    }
}

/// Counts of a sender's messages on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentCounts {
    /// Number of entries that the sender has put in the ring so far.
    pub entries: u32,
    /// Number of ordered packets among these entries.
    pub packets: u32,
    /// Number of bytes in the ordered packets.
    pub bytes: u32,
    /// Number of ordered packets before the coalesced bytes in the overflow buffer.
    pub after: u32,
    /// Number of coalesced bytes before the first byte that is now in the overflow buffer.
    pub start: u64,
    /// Number of bytes coalesced so far.
    pub tail: u64,
}

/// Progress of the receiver, as far as the sender knows. The receiver may have read more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverProgress {
    /// Number of bytes in packets that the receiver has read completely.
    pub bytes: u32,
    /// Number of coalesced bytes that the receiver has taken.
    pub head: u64,
}

/// An entry that is still in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingEntry {
    /// Length of the entry's message in bytes.
    pub len: u32,
    /// True if the entry is an ordered packet.
    pub is_ordered: bool,
}

/// Tail of the stream, which the sender still has: messages in the ring, then coalesced bytes.
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
    /// Number of coalesced bytes before the tail's first coalesced byte.
    pub head: u64,
    /// Number of coalesced bytes in the tail, which follow all its messages.
    pub coalesced: u64,
}

/// Returns the tail of the stream, which the sender still has. `entry` returns the ring's entry with a given
/// number, or `None` if a later entry has overwritten it.
///
/// The tail may lack a message that the receiver's program has not read. A short message travels in its entry. If
/// the receiver has taken such an entry off the ring, the sender may overwrite the entry. But then the receiver
/// already has the message. The tail may also have bytes that the receiver has already read, because `progress` may be
/// old.
///
/// # Errors
/// [`Violation`] if `progress` says that the receiver has consumed bytes that it cannot have consumed.
pub fn tail_of(
    sent: &SentCounts,
    progress: &ReceiverProgress,
    entry: impl Fn(u32) -> Option<RingEntry>,
) -> Result<Tail, Violation> {
    let total = sent.bytes.wrapping_add(sent.tail as u32);
    let has_coalesced = sent.tail != sent.start;
    if progress.head > sent.tail {
        return Err(Violation("more coalesced bytes taken than there are"));
    }
    let coalesced = sent.tail - progress.head;
    // The receiver has consumed all coalesced bytes before `start`. If not, the sender would not have begun to
    // coalesce again.
    let coalesced =
        if coalesced > sent.tail - sent.start { sent.tail - sent.start } else { coalesced };
    let head = sent.tail - coalesced;
    // If the receiver has consumed all coalesced bytes, it has also consumed the packets that come before these
    // bytes.
    let least = match has_coalesced && coalesced == 0 {
        true => sent.after,
        false => sent.packets.wrapping_sub(sent.entries),
    };
    let untaken = sent.bytes.wrapping_sub(progress.bytes);
    let (mut bytes, mut number, mut packets) = (0u32, sent.entries, sent.packets);
    while bytes != untaken && packets != least {
        let before = number.wrapping_sub(1);
        let Some(found) = entry(before) else { break };
        if found.len > untaken - bytes {
            return Err(Violation("half a packet taken"));
        }
        number = before;
        bytes += found.len;
        packets = packets.wrapping_sub(u32::from(found.is_ordered));
    }
    let all = bytes.wrapping_add(coalesced as u32);
    Ok(Tail {
        position: total.wrapping_sub(all),
        bytes: all,
        first: number,
        entries: sent.entries.wrapping_sub(number),
        head,
        coalesced,
    })
}

/// Returns the number of bytes of the tail that the receiver has already read. `consumed` is the number of bytes
/// that the receiver has consumed on the VI.
///
/// # Errors
/// [`Violation`] if the tail begins after the next byte that the receiver needs.
pub fn skip(record: &FailoverRecord, consumed: u32) -> Result<u32, Violation> {
    let had = consumed.wrapping_sub(record.position);
    if had <= record.bytes {
        Ok(had)
    } else {
        Err(Violation("bytes are missing before the record"))
    }
}
