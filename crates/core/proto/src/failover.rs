//! A direction whose carrier has died, and that goes on on TCP.
//!
//! Where a NIC in software is between the two ends, the bytes that a sender has put on the VI lie in its own segment
//! until the receiver is known to have consumed them. So a NIC may die, or the two NICs may lose each other for good, and no
//! byte is lost: each sender puts on TCP what may not have arrived, and then goes on there.
//!
//! 1. The sender freezes the direction. What it keeps is the end of the stream so far ([`kept`]).
//! 2. It puts a [`Record`] on TCP, which says at which byte of the VI's stream that begins and how long it is; then those
//!    bytes; then whatever the program writes.
//! 3. The receiver reads what has come on the VI to its end, then the record, and passes over the bytes that it has had
//!    ([`skip`]).
//!
//! The record goes one way, and no answer is awaited: each direction does this by itself, when its sender finds that the
//! carrier has died. TCP carries nothing else behind the byte of the switch, so the record cannot be taken for data, as long
//! as both ends know of the switch. Where TCP ends before all has come that the record has announced, that is an error.
//!
//! # While the ends are just meeting
//!
//! A receiver reads nothing on the VI before its claim of the switch has been confirmed, and that is decided where the sender is.
//! So a sender whose switch has not been claimed knows that nothing on the VI has been read. It takes the switch back, and puts
//! all of it on TCP without a record ([`Sending::TakeBack`]). The receiver
//!
//! - has not claimed a switch: reads on on TCP ([`Receiving::Doubtful`]), as if there had been none;
//! - has claimed one, and does not know whether the sender has heard of that: looks, at the byte of the switch, whether a record
//!   is there ([`Receiving::RecordOrNot`]).
//!
//! What such a sender puts on TCP is not announced, and one that had closed before puts nothing there. So the end of TCP proves nothing to
//! such a receiver, and is an error.
//!
//! Positions count the bytes on the VI, in packets and gathered, and wrap: no two ends are ever 2^31 apart.

#[cfg(test)]
mod tests;

use crate::path::{Rx, Switch, Tx};
use crate::{Violation, word};

/// Bytes of a record.
pub const LEN: usize = 32;

/// No program writes this by chance.
const MAGIC: [u8; 16] = *b"\x9b\xd1\x07\xe4sovia-vi\xf6\x2c\x00\x1a";
const VERSION: u32 = 1;

/// What goes on TCP before the bytes that may not have arrived on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The byte of the VI's stream with which they begin.
    pub position: u32,
    /// How many there are.
    pub bytes: u32,
}

impl Record {
    /// As bytes.
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..16].copy_from_slice(&MAGIC);
        let words = [VERSION, self.position, self.bytes, self.check()];
        for (place, word) in out[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// The record that `bytes` are.
    ///
    /// # Errors
    /// [`Violation`] if they are none.
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

/// What a sender does with its direction when the carrier has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Nothing of it is on the VI, or all that will ever be: it goes on, or has ended, on TCP.
    Plain,
    /// It puts a record on TCP.
    Record,
    /// It takes the switch back, which the receiver has not claimed, and puts on TCP what it has put on the VI. If the receiver
    /// has claimed it by then: a record.
    TakeBack,
    /// The receiver waits for an answer that has not come: the connection is over.
    Lost,
}

/// What becomes of the direction in which an end sends. `switch`: the word in its segment; `owes`: it has gone back to TCP
/// before, and may have to put there what the receiver returns.
pub const fn sending(tx: Tx, switch: u64, fin_sent: bool, owes: bool) -> Sending {
    match tx {
        Tx::Tcp => Sending::Plain,
        // What a switch that was taken back had put on the VI goes on TCP in any case.
        Tx::Back if owes && !matches!(Switch::from_word(switch), Switch::Cancelled) => {
            Sending::Lost
        }
        Tx::Back => Sending::Plain,
        // Its TCP takes nothing any more. The receiver finds out whether the FIN has come.
        Tx::Vi if fin_sent => Sending::Plain,
        Tx::Vi => match Switch::from_word(switch) {
            Switch::Entered(_) => Sending::Record,
            Switch::At(_) | Switch::Cancelled => Sending::TakeBack,
            Switch::Not => Sending::Lost,
        },
    }
}

/// What a receiver does with its direction when the carrier has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiving {
    /// It goes on on TCP.
    Plain,
    /// The same; but the sender may have ended its part on the VI, or die before all is on TCP that it takes back. So TCP's end is
    /// an error.
    Doubtful,
    /// It reads TCP up to the switch, and on the VI up to the FIN, which is there.
    ToFin,
    /// It reads TCP up to the switch, then what is there on the VI, and then expects a record on TCP.
    Record,
    /// It reads TCP up to the switch, and goes by what comes then: a record, before which nothing on the VI has been read, or the
    /// program's next bytes. As for [`Receiving::Doubtful`] TCP's end is an error.
    RecordOrNot,
    /// The sender may have put on TCP what it was asked for: the connection is over.
    Lost,
}

/// What a receiver knows of the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Where it reads.
    pub rx: Rx,
    /// The sender's switch, as it is here.
    pub switch: u64,
    /// It has claimed that.
    pub claimed: bool,
    /// What it has read of TCP.
    pub read: u64,
    /// `word::FIN`, as it is here.
    pub fin: u64,
    /// The FIN on the VI has come, or the end of the stream has been read.
    pub finished: bool,
    /// `word::TAKEN`: all bytes of a switch that was taken back are on TCP.
    pub taken_back: bool,
    /// It has returned what is unread.
    pub returning: bool,
}

/// What becomes of the direction in which an end receives.
pub const fn receiving(known: Known) -> Receiving {
    match known.rx {
        _ if known.returning => Receiving::Lost,
        Rx::Tcp | Rx::Back => Receiving::Plain,
        Rx::Vi if known.finished => Receiving::ToFin,
        Rx::Vi => Receiving::Record,
        Rx::Granted => match Switch::from_word(known.switch) {
            // It never switched.
            Switch::Not if known.fin == word::FIN_ON_TCP => Receiving::Plain,
            Switch::Cancelled if known.taken_back => Receiving::Plain,
            // All that it has put on the VI is here, and its TCP has ended at the switch.
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

/// What the beginning of what has come at the byte of a switch can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// A record, once more of it has come.
    Perhaps,
    /// A record.
    Record(Record),
    /// The program's bytes.
    Data,
}

/// What `bytes` begin, of which more may come.
pub fn begins(bytes: &[u8]) -> Begins {
    let n = bytes.len().min(MAGIC.len());
    match bytes.first_chunk().map(Record::decode) {
        Some(Ok(record)) => Begins::Record(record),
        None if bytes[..n] == MAGIC[..n] => Begins::Perhaps,
        _ => Begins::Data,
    }
}

/// What a sender has sent on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Entries of the ring.
    pub entries: u32,
    /// Ordered packets among them.
    pub packets: u32,
    /// Bytes in those.
    pub bytes: u32,
    /// Ordered packets that go before what was gathered last.
    pub after: u32,
    /// Where that begins among all gathered bytes.
    pub start: u64,
    /// Where it ends.
    pub tail: u64,
}

/// What is known of the receiver: it has consumed that much at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Bytes of packets that it has read to their ends.
    pub bytes: u32,
    /// Gathered bytes.
    pub head: u64,
}

/// An entry of the ring that is there still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of its message.
    pub len: u32,
    /// Whether it is one of the ordered packets.
    pub is_ordered: bool,
}

/// The end of the stream, as far as the sender has it: messages, then gathered bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Tail {
    /// Where it begins in the stream.
    pub position: u32,
    /// Bytes of it.
    pub bytes: u32,
    /// The first entry of the ring that belongs to it.
    pub first: u32,
    /// How many entries there are.
    pub entries: u32,
    /// Where the gathered part begins among all gathered bytes.
    pub head: u64,
    /// How many gathered bytes there are, behind all messages.
    pub gathered: u64,
}

/// What the sender still has. `entry` finds an entry that has not been overwritten.
///
/// Not all that the receiver has not consumed need be there: what is short travels in its entry, and the receiver may have
/// taken that off the ring, and posted its receive again, before the program wanted it. What is not here it has. Nor need all
/// that is here be unread: what is known of the receiver may be old.
///
/// # Errors
/// [`Violation`] if the receiver is said to have consumed what it cannot have.
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
    // What was gathered before the last time is consumed, or that would not have begun.
    let gathered =
        if gathered > sent.tail - sent.start { sent.tail - sent.start } else { gathered };
    let head = sent.tail - gathered;
    // Packets are sent behind what is gathered once all of that is consumed, and those before it then are, too.
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

/// How many of the bytes behind a record a receiver has had that has consumed so much of the VI's stream.
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
