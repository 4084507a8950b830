//! The direction in which the NIC's own program receives.

use crate::message::{Consumed, Left, Message, Path, Receiver, State};
use crate::{Malformed, Sink, Told};
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::word;
use sovia_ring::endpoint::OverflowBuffer;
use sovia_ring::layout::Direction;
use sovia_ring::pool::POOL;
use sovia_ring::ring::{Entry, INLINE, SLOTS};
use sovia_ring::segment::SideIndex;
use sovia_ring::{Corrupt, Segment};

/// State of the direction in which the program receives. Records the remote sender's changes that have been
/// published, and the program's changes that have been sent.
#[derive(Debug)]
pub(crate) struct Incoming {
    vi: u32,
    /// Side that sends in this direction: the NIC's side.
    from: SideIndex,
    /// Number of the next entry to publish.
    next: u32,
    /// Number of coalesced bytes published.
    tail: u64,
    state: State,
    consumed: Consumed,
    receiver: Receiver,
    has_come_to_end: bool,
}

impl Incoming {
    pub(crate) fn new(vi: u32, from: SideIndex) -> Incoming {
        // On a new VI, receives are posted for all slots.
        let consumed = Consumed { posted: SLOTS, ..Consumed::default() };
        Incoming {
            vi,
            from,
            next: 0,
            tail: 0,
            state: State::default(),
            consumed,
            receiver: Receiver::default(),
            has_come_to_end: false,
        }
    }

    pub(crate) fn has_come_to_end(&self) -> bool {
        self.has_come_to_end
    }

    /// Loads the program's words of the path. Later loads of the caller see everything that the program consumed or
    /// left unread before it wrote these words.
    pub(crate) fn words(&self, segment: &Segment) -> Receiver {
        let direction = segment.direction(self.vi, self.from);
        Receiver {
            returned: direction.path.load(word::RETURNED),
            grant: direction.path.load(word::GRANT),
            claim: direction.reader.load(word::CLAIM),
            shut: direction.path.load(word::SHUT),
            ended: direction.reader.load(word::ENDED_ON_TCP),
        }
    }

    /// Sends the program's progress, if it has changed. Returns false if the sink has no room.
    pub(crate) fn tell_consumed(&mut self, segment: &Segment, sink: &mut impl Sink) -> bool {
        let direction = segment.direction(self.vi, self.from);
        let consumed = Consumed {
            posted: direction.credit.posted(),
            released: direction.credit.released(),
            head: direction.reader.load(word::HEAD),
            taken_bytes: direction.reader.load(word::TAKEN_BYTES),
        };
        if consumed == self.consumed {
            return true;
        }
        if !sink.has_room() {
            return false;
        }
        sink.put(&Message::Consumed(consumed));
        self.consumed = consumed;
        true
    }

    /// Sends the program's words of the path. If the program returns bytes, first sends the undelivered messages.
    /// Returns false if the sink has no room.
    pub(crate) fn tell_words(
        &mut self,
        segment: &Segment,
        receiver: Receiver,
        sink: &mut impl Sink,
    ) -> Result<bool, Corrupt> {
        if receiver == self.receiver {
            return Ok(true);
        }
        if receiver.returned != self.receiver.returned {
            if !sink.has_room() {
                return Ok(false);
            }
            let direction = segment.direction(self.vi, self.from);
            self.tell_undelivered(segment, direction, sink)?;
        }
        if !sink.has_room() {
            return Ok(false);
        }
        sink.put(&Message::Receiver(receiver));
        self.receiver = receiver;
        Ok(true)
    }

    /// Sends the messages that the program leaves unread.
    fn tell_undelivered(
        &self,
        segment: &Segment,
        direction: &Direction,
        sink: &mut impl Sink,
    ) -> Result<(), Corrupt> {
        let undelivered = direction.reader.load(word::UNDELIVERED);
        let slots = segment.undelivered(self.vi, self.from);
        let count = undelivered as u32 as usize;
        if count > slots.len() {
            return Err(Corrupt("more undelivered messages than a ring has"));
        }
        let mut inline = vec![[0; INLINE]; count];
        let mut left = Vec::with_capacity(count);
        for (n, (slot, bytes)) in slots.iter().zip(&mut inline).enumerate() {
            let entry = slot.read(n as u32).ok_or(Corrupt("no undelivered message"))?;
            left.push(match entry.pool_offset {
                Some(at) => Left::Pooled(at, entry.len),
                None => {
                    let bytes = bytes.get_mut(..entry.len as usize);
                    let bytes = bytes.ok_or(Corrupt("undelivered message too long"))?;
                    slot.copy_out(0, bytes);
                    Left::Inline(bytes)
                }
            });
        }
        let front = direction.reader.load(word::FRONT);
        sink.put(&Message::Undelivered(undelivered, front, left));
        Ok(())
    }

    /// Publishes the changes in a message of the remote sender.
    pub(crate) fn apply(
        &mut self,
        segment: &Segment,
        message: &Message<'_>,
    ) -> Result<Told, Malformed> {
        if self.has_come_to_end {
            return Err(Malformed("a message after the last"));
        }
        let direction = segment.direction(self.vi, self.from);
        let reader = Told { reader: true, ..Told::default() };
        match message {
            Message::Path(path) => {
                publish_path(direction, path);
                // Also notify the progress thread, because the program may make no call.
                Ok(Told { progress: true, ..reader })
            }
            Message::Entry(n, entry, bytes) => self.publish(segment, direction, *n, *entry, bytes),
            Message::Coalesced { after, start, position, bytes } => {
                self.coalesce(segment, direction, [*after, *start, *position], bytes)?;
                Ok(reader)
            }
            Message::State(state) => Ok(self.publish_state(direction, *state)),
            Message::Answer(bits) => {
                direction.writer.store(word::ANSWER, *bits);
                Ok(Told { reader: true, progress: true, ..Told::default() })
            }
            Message::Gone(how) => {
                let how = if *how == word::ENDED { word::ENDED } else { word::DIED };
                direction.writer.store(word::GONE, how);
                self.has_come_to_end = true;
                Ok(Told { reader: true, writer: true, progress: true, asks: false })
            }
            _ => Err(Malformed("a message of the other direction")),
        }
    }

    fn publish(
        &mut self,
        segment: &Segment,
        direction: &Direction,
        n: u32,
        entry: Entry,
        bytes: &[u8],
    ) -> Result<Told, Malformed> {
        let credit = direction.credit.posted().wrapping_sub(n);
        if n != self.next || credit == 0 || credit > SLOTS {
            return Err(Malformed("an entry out of order, or without a receive"));
        }
        let slot = &segment.slots(self.vi, self.from)[(n % SLOTS) as usize];
        match entry.pool_offset {
            None => slot.copy_in(bytes),
            Some(at) => {
                let fits = u64::from(at) + bytes.len() as u64 <= POOL;
                if !fits || !segment.write_bulk(self.vi, self.from, at as usize, bytes) {
                    return Err(Malformed("an entry outside the pool"));
                }
            }
        }
        let kind = Immediate::decode(entry.immediate).map(|packet| packet.kind);
        slot.publish(n, entry);
        if kind == Ok(Kind::Fin) {
            // Store `word::FIN` after the FIN packet. A program that sees `word::FIN` acts on the end of TCP. If it
            // then finds no FIN packet on the VI, it concludes that its peer has died.
            direction.writer.store(word::FIN, word::FIN_ON_VI);
        }
        self.next = n.wrapping_add(1);
        // Notify the threads that a sender on the same host would notify. An acknowledgement is for the writer of
        // the other direction. An ordered packet is for the reader.
        let reader = kind.is_ok_and(Kind::is_ordered);
        Ok(Told { reader, writer: kind == Ok(Kind::Ack), ..Told::default() })
    }

    fn coalesce(
        &mut self,
        segment: &Segment,
        direction: &Direction,
        [after, start, position]: [u64; 3],
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        let tail = self.tail.wrapping_add(bytes.len() as u64);
        let head = direction.reader.load(word::HEAD);
        if position != self.tail || tail.wrapping_sub(head) > OverflowBuffer::LEN as u64 {
            return Err(Malformed("coalesced bytes out of order, or beyond the overflow buffer"));
        }
        let at = (position.wrapping_sub(start) % OverflowBuffer::LEN as u64) as usize;
        if !segment.write_bulk(self.vi, self.from, POOL as usize + at, bytes) {
            return Err(Malformed("coalesced bytes outside the overflow buffer"));
        }
        direction.writer.store(word::AFTER, after);
        direction.writer.store(word::START, start);
        direction.writer.store(word::TAIL, tail);
        self.tail = tail;
        Ok(())
    }

    fn publish_state(&mut self, direction: &Direction, state: State) -> Told {
        let before = core::mem::replace(&mut self.state, state);
        direction.path.store(word::DRAINED, state.drained);
        direction.path.store(word::TAKEN, state.taken);
        direction.path.store(word::ASKED, state.asked);
        direction.writer.store(word::LEDGER, state.ledger);
        if state.fin != word::FIN_ON_VI {
            direction.writer.store(word::FIN, state.fin);
        }
        let is_silent = State { ledger: before.ledger, ..state } == before;
        Told { reader: !is_silent, progress: !is_silent, ..Told::default() }
    }
}

fn publish_path(direction: &Direction, path: &Path) {
    direction.writer.store(word::WINDOW, path.window);
    direction.path.store(word::FROM, path.from);
    direction.path.store(word::SWITCH, path.switch);
}
