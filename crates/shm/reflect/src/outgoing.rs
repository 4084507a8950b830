//! The direction in which the NIC's own program sends.

use crate::message::{Consumed, Left, Message, Path, Receiver, State};
use crate::{Malformed, Sink, Told};
use core::sync::atomic::{Ordering, fence};
use sovia_proto::packet::Immediate;
use sovia_proto::path::{ENTERED, Grant, Switch};
use sovia_proto::word;
use sovia_ring::endpoint::{MESSAGE_MAX, OverflowBuffer};
use sovia_ring::layout::Direction;
use sovia_ring::pool::POOL;
use sovia_ring::ring::{Entry, INLINE, SLOTS};
use sovia_ring::segment::SideIndex;
use sovia_ring::{Corrupt, Segment};

/// Maximum number of coalesced bytes in one message.
const PIECE: usize = 32 << 10;
/// Maximum number of attempts at a snapshot while the program keeps publishing. After these attempts the NIC serves
/// other VIs.
const LOOKS: usize = 64;

/// State of the direction in which the program sends. Records the changes that have been sent to the remote NIC,
/// and the answers to the remote receiver.
#[derive(Debug)]
pub(crate) struct Outgoing {
    vi: u32,
    program: SideIndex,
    path: Path,
    state: State,
    /// Number of the next entry to send.
    next: u32,
    /// Number of ordered packets among the entries sent.
    ordered: u32,
    /// Number of coalesced bytes sent.
    tail: u64,
    /// The remote receiver's words, as of its last message.
    receiver: Receiver,
    /// Answers to the receiver that this NIC has decided, as bits of `word::ANSWER`. `answered` are the bits that
    /// it has sent.
    decided: u64,
    answered: u64,
    /// Value of `word::GONE` that says how the program has left the VI; 0 if it has not left.
    ended: u64,
    has_ended: bool,
}

/// How much of a program's bytes a NIC has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Number of ordered packets.
    ordered: u32,
    /// Number of coalesced bytes.
    tail: u64,
}

impl Sent {
    /// Returns the number of messages sent since `before`. Coalesced bytes count as one message.
    pub fn messages_since(&self, before: Sent) -> u32 {
        self.ordered.wrapping_sub(before.ordered) + u32::from(self.tail != before.tail)
    }
}

fn state(direction: &Direction) -> State {
    // Load the ledger first. The program stores the ledger after it has published the packets that the ledger
    // counts, so later loads find these packets.
    State {
        ledger: direction.writer.load(word::LEDGER),
        fin: direction.writer.load(word::FIN),
        drained: direction.path.load(word::DRAINED),
        taken: direction.path.load(word::TAKEN),
        asked: direction.path.load(word::ASKED),
    }
}

impl Outgoing {
    pub(crate) fn new(vi: u32, program: SideIndex) -> Outgoing {
        Outgoing {
            vi,
            program,
            path: Path::default(),
            state: State::default(),
            next: 0,
            ordered: 0,
            tail: 0,
            receiver: Receiver::default(),
            decided: 0,
            answered: 0,
            ended: 0,
            has_ended: false,
        }
    }

    pub(crate) fn end(&mut self, how: u64) {
        self.ended = how;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns how much has been sent.
    pub(crate) fn sent(&self) -> Sent {
        Sent { ordered: self.ordered, tail: self.tail }
    }

    /// Sends all changes that the program has published. Returns false if the sink had no room for all of them.
    pub(crate) fn collect(
        &mut self,
        segment: &Segment,
        sink: &mut impl Sink,
    ) -> Result<bool, Corrupt> {
        if self.has_ended {
            // `Message::Gone`, which has been sent, also answers a pending revoke or return.
            return Ok(true);
        }
        let direction = segment.direction(self.vi, self.program);
        // Load `decided` and `ended` before the snapshot. If an answer or the end comes later, a later call sends
        // it, after the changes in that call's snapshot.
        let (decided, ended) = (self.decided, self.ended);
        let Some((state, tail, end)) = self.snapshot(segment, direction) else { return Ok(false) };
        if !self.tell_path(direction, sink) {
            return Ok(false);
        }
        let after = direction.writer.load(word::AFTER);
        let coalesced = tail != self.tail;
        let before = |outgoing: &Outgoing| !coalesced || outgoing.ordered != after as u32;
        while self.next != end && before(self) {
            if !self.tell_entry(segment, sink)? {
                return Ok(false);
            }
        }
        if coalesced {
            if self.ordered != after as u32 {
                return Err(Corrupt("coalesced bytes after packets that have not been sent"));
            }
            if !self.send_coalesced(segment, direction, after, tail, sink)? {
                return Ok(false);
            }
        }
        while self.next != end {
            if !self.tell_entry(segment, sink)? {
                return Ok(false);
            }
        }
        if state != self.state {
            if !sink.has_room() {
                return Ok(false);
            }
            sink.put(&Message::State(state));
            self.state = state;
        }
        if decided != self.answered {
            if !sink.has_room() {
                return Ok(false);
            }
            sink.put(&Message::Answer(decided));
            self.answered = decided;
        }
        if ended != 0 {
            if !sink.has_room() {
                return Ok(false);
            }
            sink.put(&Message::Gone(ended));
            self.has_ended = true;
        }
        Ok(true)
    }

    /// Returns a consistent snapshot: the sender's state, the position behind the last coalesced byte, and the
    /// number behind the last entry. If the snapshot has a change, it also has all changes that the program
    /// published earlier. Returns `None` if the program keeps publishing.
    fn snapshot(&self, segment: &Segment, direction: &Direction) -> Option<(State, u64, u32)> {
        let slots = segment.slots(self.vi, self.program);
        let mut end = self.next;
        for _ in 0..LOOKS {
            let state = state(direction);
            let tail = direction.writer.load(word::TAIL);
            // Stop after one ring of entries, because the program's credit is at most one ring.
            while end.wrapping_sub(self.next) < SLOTS && slots[(end % SLOTS) as usize].holds(end) {
                end = end.wrapping_add(1);
            }
            if direction.writer.load(word::TAIL) == tail && self::state(direction) == state {
                return Some((state, tail, end));
            }
        }
        None
    }

    /// Sends the words of the path, if they have changed. Returns false if the sink has no room.
    fn tell_path(&mut self, direction: &Direction, sink: &mut impl Sink) -> bool {
        // Load the switch first. The program wrote the other words before the switch, so the later loads find them.
        let switch = direction.path.load(word::SWITCH);
        let path = Path {
            window: direction.writer.load(word::WINDOW),
            from: direction.path.load(word::FROM),
            switch,
        };
        if path == self.path {
            return true;
        }
        if !sink.has_room() {
            return false;
        }
        sink.put(&Message::Path(path));
        self.path = path;
        true
    }

    /// Sends the next entry. Returns false if the sink has no room.
    fn tell_entry(&mut self, segment: &Segment, sink: &mut impl Sink) -> Result<bool, Corrupt> {
        let n = self.next;
        let slot = &segment.slots(self.vi, self.program)[(n % SLOTS) as usize];
        let entry = slot.read(n).ok_or(Corrupt("an entry overwritten"))?;
        let kind =
            Immediate::decode(entry.immediate).map_err(|_| Corrupt("an unknown packet"))?.kind;
        if !sink.has_room() {
            return Ok(false);
        }
        let len = entry.len as usize;
        match entry.pool_offset {
            None if len <= INLINE => {
                let mut inline = [0; INLINE];
                let bytes = &mut inline[..len];
                slot.copy_out(0, bytes);
                sink.put(&Message::Entry(n, entry, bytes));
            }
            Some(at) if len <= MESSAGE_MAX && u64::from(at) + u64::from(entry.len) <= POOL => {
                self.put_bulk(segment, &Message::Entry(n, entry, &[]), (at as usize, len), sink);
            }
            _ => return Err(Corrupt("an entry with too many bytes")),
        }
        self.next = n.wrapping_add(1);
        self.ordered = self.ordered.wrapping_add(u32::from(kind.is_ordered()));
        Ok(true)
    }

    /// Sends coalesced bytes up to `tail`. Returns false if the sink has no room for all of them.
    fn send_coalesced(
        &mut self,
        segment: &Segment,
        direction: &Direction,
        after: u64,
        tail: u64,
        sink: &mut impl Sink,
    ) -> Result<bool, Corrupt> {
        if tail.wrapping_sub(self.tail) > OverflowBuffer::LEN as u64 {
            return Err(Corrupt("more coalesced bytes than there is room for"));
        }
        let start = direction.writer.load(word::START);
        while self.tail != tail {
            if !sink.has_room() {
                return Ok(false);
            }
            let at = (self.tail.wrapping_sub(start) % OverflowBuffer::LEN as u64) as usize;
            let left = tail.wrapping_sub(self.tail) as usize;
            let len = left.min(PIECE).min(OverflowBuffer::LEN - at);
            let head = Message::Coalesced { after, start, position: self.tail, bytes: &[] };
            self.put_bulk(segment, &head, (POOL as usize + at, len), sink);
            self.tail = self.tail.wrapping_add(len as u64);
        }
        Ok(true)
    }

    /// Sends `head`, followed by bytes of the pool or the overflow buffer. Copies the bytes directly into the sink's
    /// buffer.
    fn put_bulk(
        &self,
        segment: &Segment,
        head: &Message<'_>,
        (at, len): (usize, usize),
        sink: &mut impl Sink,
    ) {
        sink.append(&mut |out| {
            head.encode(out);
            let begin = out.len();
            out.resize(begin + len, 0);
            segment.read_bulk(self.vi, self.program, at, &mut out[begin..]);
        });
    }

    /// Publishes the remote receiver's progress and words.
    pub(crate) fn apply(
        &mut self,
        segment: &Segment,
        message: &Message<'_>,
    ) -> Result<Told, Malformed> {
        let direction = segment.direction(self.vi, self.program);
        match message {
            Message::Consumed(consumed) => self.consumed(direction, consumed),
            Message::Undelivered(undelivered, front, left) => {
                self.undelivered(segment, left)?;
                direction.reader.store(word::FRONT, *front);
                direction.reader.store(word::UNDELIVERED, *undelivered);
                Ok(Told::default())
            }
            Message::Receiver(receiver) => Ok(self.decide(direction, *receiver)),
            _ => Err(Malformed("a message of the other direction")),
        }
    }

    fn consumed(&self, direction: &Direction, consumed: &Consumed) -> Result<Told, Malformed> {
        if consumed.posted.wrapping_sub(self.next) > SLOTS {
            return Err(Malformed("more receives posted than there are"));
        }
        let unread = self.tail.wrapping_sub(consumed.head);
        if unread > OverflowBuffer::LEN as u64 {
            return Err(Malformed("more coalesced bytes taken than were reported"));
        }
        direction.credit.release(consumed.released);
        let has_taken = direction.reader.load(word::HEAD) != consumed.head;
        let has_read = direction.reader.load(word::TAKEN_BYTES) != consumed.taken_bytes;
        direction.reader.store(word::TAKEN_BYTES, consumed.taken_bytes);
        direction.reader.store(word::HEAD, consumed.head);
        direction.credit.post(consumed.posted);
        // Notify the writer in the cases in which a receiver on the same host would notify it. One case is that
        // half of the overflow buffer is free. The other case is that the receiver has read packets that come
        // before coalesced bytes.
        let writer =
            has_taken && unread <= OverflowBuffer::LEN as u64 / 2 || has_read && unread != 0;
        Ok(Told { writer, ..Told::default() })
    }

    fn undelivered(&self, segment: &Segment, left: &[Left<'_>]) -> Result<(), Malformed> {
        let slots = segment.undelivered(self.vi, self.program);
        if left.len() > slots.len() {
            return Err(Malformed("more undelivered messages than a ring has"));
        }
        for (n, (slot, left)) in slots.iter().zip(left).enumerate() {
            let (len, pool_offset) = match *left {
                Left::Pooled(at, len) => (len, Some(at)),
                Left::Inline(bytes) => {
                    slot.copy_in(bytes);
                    (bytes.len() as u32, None)
                }
            };
            slot.publish(n as u32, Entry { immediate: 0, len, pool_offset });
        }
        Ok(())
    }

    /// Publishes the receiver's words, and executes the compare-exchanges that the receiver itself would execute within
    /// a host.
    fn decide(&mut self, direction: &Direction, receiver: Receiver) -> Told {
        let before = core::mem::replace(&mut self.receiver, receiver);
        if receiver.shut != before.shut {
            direction.path.store(word::SHUT, receiver.shut);
        }
        if receiver.grant != before.grant {
            direction.path.store(word::GRANT, receiver.grant);
        }
        if Grant::from_word(receiver.grant) == Grant::Revoked {
            // SYNC: pairs with the fence between the program's switch and its second load of the grant. There are two
            // cases. A later `collect` sees the switch and sends it before the answer. Or the program sees the revoke
            // and takes the switch back.
            fence(Ordering::SeqCst);
            self.decided |= word::CONFIRMED;
        }
        let switch = &direction.path.0[word::SWITCH];
        let seen = switch.load(Ordering::Acquire);
        if receiver.claim != 0 && matches!(Switch::from_word(seen), Switch::At(_)) {
            // The exchange fails if the program has just taken the switch back.
            let _ =
                switch.compare_exchange(seen, seen | ENTERED, Ordering::AcqRel, Ordering::Acquire);
        }
        let was_answered = self.decided & (word::ACCEPTED | word::REFUSED) != 0;
        if receiver.returned != 0 && !was_answered {
            let returned = &direction.path.0[word::RETURNED];
            let exchanged = returned.compare_exchange(
                0,
                receiver.returned,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            self.decided |= if exchanged.is_ok() { word::ACCEPTED } else { word::REFUSED };
        }
        let asks = receiver.ended != before.ended;
        Told { writer: true, progress: true, reader: false, asks }
    }
}
