//! The receive queue. The thread that polls it copies messages into the posted buffers.

use crate::card::Card;
use crate::completion::Overrun;
use crate::vi::access::{self, Gather, Queue};
use crate::vi::ahead::Ahead;
use crate::vi::attention::Attention;
use crate::vi::lane::{Piece, RxLane};
use crate::vi::notice::Notices;
use sovia_ring::Corrupt;
use via::descriptor::ControlSegment;
use via::error::Cause;
use via::memory::Ptag;
use via::queue::{Completion, Outcome};
use via::{Control, Reliability, Status};

/// The receive queue and the direction in which it receives.
#[derive(Debug)]
pub(crate) struct RecvSide {
    pub(crate) queue: Queue,
    /// `Some` from the start of a connection to the disconnect. A requester's connection starts before the peer's
    /// answer.
    lane: Option<RxLane>,
    pub(crate) level: Reliability,
    /// Set when no more messages may be received on the connection.
    ended: bool,
    /// Destination of the next message, if known in advance.
    ahead: Ahead,
    /// State of a message of several entries.
    partial: Partial,
    /// Set once the queue has found an error: the reason to break the connection.
    pub(crate) trouble: Option<Cause>,
    pub(crate) attention: Attention,
}

#[derive(Debug, Default)]
struct Partial {
    filled: u32,
    /// `Some` if the rest of the current message must be dropped, with the reason. Used at unreliable delivery
    /// only.
    lost: Option<Status>,
}

/// Control bits that are invalid in a receive descriptor.
pub(crate) const FOREIGN: Control = Control::RESERVED.union(Control::OP_MASK);

/// Result of a look for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookResult {
    Nothing,
    /// A message has been received, or a part of a message has arrived.
    Message,
    /// `trouble` is set: the connection must be broken.
    Trouble,
}

impl RecvSide {
    pub(crate) fn new(capacity: u32, level: Reliability, ptag: Ptag, notices: Notices) -> RecvSide {
        RecvSide {
            queue: Queue::new(capacity, ptag, notices),
            lane: None,
            level,
            ended: false,
            ahead: Ahead::default(),
            partial: Partial::default(),
            trouble: None,
            attention: Attention::default(),
        }
    }

    /// Returns the direction in which this queue receives.
    pub(crate) fn lane(&self) -> Option<&RxLane> {
        self.lane.as_ref()
    }

    /// Resets the state for a new connection, or (with `None`) at the end of a connection.
    pub(crate) fn attach(&mut self, lane: Option<RxLane>) {
        self.lane = lane;
        self.ended = false;
        self.partial = Partial::default();
        // Forget the error of an earlier connection.
        self.trouble = None;
        self.attention.armed = false;
        self.publish();
    }

    /// Publishes the number of posted receives to the peer.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.publish(self.queue.work.outstanding());
        }
    }

    /// Receives one message, if one has arrived, and completes the oldest descriptor.
    pub(crate) fn progress(&mut self, nic: &Card) -> LookResult {
        match self.meet_all(nic).and_then(|outcome| self.complete(nic, outcome)) {
            Ok(()) => LookResult::Message,
            Err(result) => result,
        }
    }

    /// Completes the oldest descriptor, and notifies the completion queue or the callbacks.
    #[inline]
    fn complete(&mut self, nic: &Card, outcome: Outcome) -> Result<(), LookResult> {
        self.queue.work.complete(outcome);
        let notified = self.queue.notices.completed(&mut self.queue.work, nic);
        notified.map_err(|Overrun| self.overrun())
    }

    /// Like [`RecvSide::progress`], but also takes the completed descriptor off the queue. The queue must hold no
    /// other completed descriptor.
    #[inline]
    pub(crate) fn take_next(&mut self, nic: &Card) -> Result<Completion, LookResult> {
        let outcome = self.meet_or_get_ready(nic)?;
        let completion = self.queue.work.pass(outcome);
        if self.queue.notices.passed().is_err() {
            // The completion queue has no room. This completion is still returned, and the caller then finds
            // `trouble`.
            self.overrun();
        }
        Ok(completion)
    }

    /// Like [`RecvSide::progress`], for a completion queue that looks for an entry. Returns true if the caller gets
    /// the entry directly and no entry is pushed to the queue. This happens only with `mine`, and only if no
    /// callback waits for the descriptor.
    #[inline]
    pub(crate) fn receive_for_cq(&mut self, nic: &Card, mine: bool) -> Result<bool, LookResult> {
        let outcome = self.meet_or_get_ready(nic)?;
        if mine && !self.queue.notices.has_callbacks() {
            self.queue.work.complete(outcome);
            return Ok(true);
        }
        self.complete(nic, outcome)?;
        Ok(false)
    }

    /// Like [`RecvSide::meet_all`], but if no message has arrived, looks up the destination of the next one.
    #[inline(always)]
    fn meet_or_get_ready(&mut self, nic: &Card) -> Result<Outcome, LookResult> {
        let met = self.meet_all(nic);
        if met == Err(LookResult::Nothing) {
            self.ahead.look(&mut self.queue, nic);
        }
        met
    }

    /// Like [`RecvSide::meet`], but continues with further parts of the message that have arrived.
    #[inline(always)]
    fn meet_all(&mut self, nic: &Card) -> Result<Outcome, LookResult> {
        loop {
            match self.meet(nic) {
                Err(LookResult::Message) if self.lane.as_ref().is_some_and(RxLane::has_events) => {}
                result => return result,
            }
        }
    }

    /// Receives the next ring entry into the memory of the oldest descriptor. The caller must complete this
    /// descriptor in the queue.
    #[inline(always)]
    fn meet(&mut self, nic: &Card) -> Result<Outcome, LookResult> {
        let Some(lane) = &mut self.lane else { return Err(LookResult::Nothing) };
        let piece = match lane.head() {
            Ok(Some(piece)) => piece,
            Ok(None) => return Err(self.quiet()),
            Err(corrupt) => return Err(self.corrupt(corrupt)),
        };
        if piece.more || piece.written || self.partial.filled != 0 || self.partial.lost.is_some() {
            return self.meet_part(nic, piece);
        }
        let length = piece.len;
        if let Some(place) = self.ahead.take(&self.queue, nic)
            && length <= place.room
        {
            // SAFETY: `place.to` is valid for `place.room` bytes while the queue's lock is held, and `length <=
            // place.room`.
            unsafe { lane.copy(&piece, 0, place.to, length) };
            // SAFETY: the queue's lock has been held since `Ahead::take` returned `place`.
            let control = unsafe { place.control() };
            let taken = take(lane, self.level, &piece, control);
            return taken.map_err(|corrupt| self.corrupt(corrupt));
        }
        self.meet_now(nic, piece)
    }

    /// Like [`RecvSide::meet`], for a message of one entry whose destination is not known in advance.
    #[inline]
    fn meet_now(&mut self, nic: &Card, piece: Piece) -> Result<Outcome, LookResult> {
        let Some(lane) = &mut self.lane else { return Err(LookResult::Nothing) };
        let length = piece.len;
        let Queue { work, descriptors, data, ptag, .. } = &mut self.queue;
        let Some(front) = work.front() else {
            return Err(self.corrupt(Corrupt("a message for which no receive is posted")));
        };
        let Some(descriptor) = access::descriptor(descriptors, nic, *ptag, front) else {
            // The program has deregistered the descriptor's memory after the post.
            return self.fail(nic, &piece, Status::PROTECTION_ERROR);
        };
        let delivered = (|| {
            let count = access::form(&descriptor, descriptor.control(), FOREIGN)?;
            if count == 1 {
                let (to, room) = access::segment(&descriptor, 0, length, data, nic, *ptag)?;
                if length > room {
                    return Err(Status::LENGTH_ERROR);
                }
                // SAFETY: `segment` has checked that the `length` bytes at `to` are registered memory, because `length
                // <= room`. Deregistering waits for the queue's lock.
                unsafe { lane.copy(&piece, 0, to, length) };
                return Ok(());
            }
            let gather = Gather { descriptor, nic, ptag: *ptag, first: 0, count };
            scatter(&gather, data, lane, &piece, 0)
        })();
        if let Err(status) = delivered {
            return self.fail(nic, &piece, status);
        }
        let taken = take(lane, self.level, &piece, descriptor.control_segment());
        taken.map_err(|corrupt| self.corrupt(corrupt))
    }

    /// Like [`RecvSide::meet`], for a part of a longer message, or for the report of an RDMA write.
    #[inline(never)]
    fn meet_part(&mut self, nic: &Card, piece: Piece) -> Result<Outcome, LookResult> {
        let Some(lane) = &mut self.lane else { return Err(LookResult::Nothing) };
        let Queue { work, descriptors, data, ptag, .. } = &mut self.queue;
        let Some(front) = work.front() else {
            return Err(self.corrupt(Corrupt("a message for which no receive is posted")));
        };
        let filled = self.partial.filled;
        if piece.written && filled != 0 {
            return Err(self.corrupt(Corrupt("an RDMA within a message")));
        }
        let descriptor = access::descriptor(descriptors, nic, *ptag, front);
        let delivered = (|| {
            if let Some(status) = self.partial.lost {
                return Err(status);
            }
            let descriptor = descriptor.ok_or(Status::PROTECTION_ERROR)?;
            let count = access::form(&descriptor, descriptor.control(), FOREIGN)?;
            if piece.written {
                return Ok(());
            }
            let gather = Gather { descriptor, nic, ptag: *ptag, first: 0, count };
            scatter(&gather, data, lane, &piece, filled)
        })();
        if let Err(status) = delivered {
            return self.fail(nic, &piece, status);
        }
        if lane.consume(&piece).is_err() {
            return Err(self.corrupt(Corrupt("a message at an invalid position")));
        }
        let length = filled.saturating_add(piece.len);
        self.partial.filled = if piece.more { length } else { 0 };
        if piece.more {
            return Err(LookResult::Message);
        }
        let status = if piece.written { Status::OP_REMOTE_RDMA_WRITE } else { Status::OP_RECEIVE };
        if let Some(descriptor) = descriptor {
            descriptor.complete(status, length, piece.immediate);
        }
        if self.level == Reliability::RELIABLE_RECEPTION {
            lane.deliver();
        }
        Ok(Outcome { status, length, immediate: piece.immediate })
    }

    /// Checks if the peer has closed the connection. Called when no message has arrived.
    #[inline]
    fn quiet(&mut self) -> LookResult {
        match self.lane.as_ref().and_then(RxLane::peer_closed) {
            None => LookResult::Nothing,
            Some(cause) => self.closed(cause),
        }
    }

    #[cold]
    fn closed(&mut self, cause: Cause) -> LookResult {
        // The peer may have sent its last message after this thread looked for messages, and then closed the
        // connection. So look for messages once more.
        match self.lane.as_ref().map(RxLane::head) {
            Some(Ok(Some(_))) => LookResult::Message,
            Some(Err(corrupt)) => self.corrupt(corrupt),
            Some(Ok(None)) | None => {
                self.trouble = Some(cause);
                LookResult::Trouble
            }
        }
    }

    #[cold]
    fn corrupt(&mut self, corrupt: Corrupt) -> LookResult {
        self.ended = true;
        self.trouble = Some(Cause::Corrupt(corrupt.0));
        LookResult::Trouble
    }

    #[cold]
    fn overrun(&mut self) -> LookResult {
        self.trouble = Some(Cause::CqOverrun);
        LookResult::Trouble
    }

    /// Handles a message that cannot be stored in the posted receive. A reliable connection breaks; an unreliable
    /// connection loses the message.
    #[cold]
    fn fail(&mut self, nic: &Card, piece: &Piece, status: Status) -> Result<Outcome, LookResult> {
        if self.level == Reliability::UNRELIABLE {
            return self.lose(nic, piece, status);
        }
        self.ended = true;
        let partial = self.partial.filled != 0;
        let status = if partial { status | Status::PARTIAL_ERROR } else { status };
        let outcome = Outcome::error(Status::OP_RECEIVE | status);
        let _ = self.queue.complete(nic, outcome);
        self.trouble = Some(Cause::Descriptor(status));
        Err(LookResult::Trouble)
    }

    #[cold]
    fn lose(&mut self, nic: &Card, piece: &Piece, status: Status) -> Result<Outcome, LookResult> {
        let Some(lane) = &mut self.lane else { return Err(LookResult::Nothing) };
        if lane.consume(piece).is_err() {
            return Err(self.corrupt(Corrupt("a message at an invalid position")));
        }
        self.partial = Partial { filled: 0, lost: piece.more.then_some(status) };
        if piece.more {
            return Err(LookResult::Message);
        }
        let status = Status::OP_RECEIVE | status;
        let Queue { work, descriptors, ptag, .. } = &mut self.queue;
        if let Some(front) = work.front()
            && let Some(descriptor) = access::descriptor(descriptors, nic, *ptag, front)
        {
            descriptor.complete(status, 0, None);
        }
        Ok(Outcome::error(status))
    }

    /// Refuses an RDMA of the peer. If a message was to report the RDMA (`notified`), the receive for this message
    /// reports the error.
    pub(super) fn refuse_write(&mut self, nic: &Card, notified: bool, cause: Cause) {
        // First receive the messages that the peer sent before the RDMA.
        while self.queue.work.outstanding() > 0 && self.progress(nic) == LookResult::Message {}
        if notified && self.trouble.is_none() {
            let status = Status::OP_REMOTE_RDMA_WRITE | Status::RDMA_PROT_ERROR;
            if self.queue.work.outstanding() > 0 {
                let _ = self.queue.complete(nic, Outcome::error(status));
            }
        }
        self.ended = true;
        self.trouble.get_or_insert(cause);
    }

    /// Ends the queue of a broken connection. Receives the peer's earlier messages, unless a receive has failed, and
    /// flushes the other descriptors.
    #[cold]
    pub(crate) fn wind_up(&mut self, nic: &Card) {
        if !self.ended {
            while self.queue.work.outstanding() > 0 && self.progress(nic) == LookResult::Message {}
            self.ended = true;
        }
        self.flush(nic);
    }

    /// Flushes all outstanding descriptors.
    pub(crate) fn flush(&mut self, nic: &Card) {
        self.queue.flush(nic, |_| Status::OP_RECEIVE);
    }
}

/// Takes a message of one entry off the ring, after its bytes have been copied. Marks the descriptor as done. At
/// reliable reception, also reports the message to the sender.
#[inline(always)]
fn take(
    lane: &mut RxLane,
    level: Reliability,
    piece: &Piece,
    control: &ControlSegment,
) -> Result<Outcome, Corrupt> {
    let &Piece { len: length, immediate, .. } = piece;
    lane.consume(piece).map_err(|_| Corrupt("a message at an invalid position"))?;
    control.complete(Status::OP_RECEIVE, length, immediate);
    if level == Reliability::RELIABLE_RECEPTION {
        lane.deliver();
    }
    Ok(Outcome { status: Status::OP_RECEIVE, length, immediate })
}

/// Copies `piece` to the descriptor's data segments, from byte `at` of these segments on. Checks all segments
/// before the first copy.
fn scatter(
    gather: &Gather<'_>,
    data: &mut via::memory::RegionCache,
    lane: &RxLane,
    piece: &Piece,
    at: u32,
) -> Result<(), Status> {
    gather.check(data, at, piece.len)?;
    gather.parts(data, at, piece.len, |to, from, len| {
        // SAFETY: the part is `len` bytes of registered memory, valid under the queue's lock. The source range lies in
        // the piece, because the parts cover exactly `piece.len` bytes from `at` on.
        unsafe { lane.copy(piece, from - at, to, len) };
        Ok(())
    })
}
