//! The receive queue: messages are scattered into posted buffers when the program looks.

use crate::Damaged;
use crate::nic::Shared;
use crate::vi::access::{self, Queue};
use crate::vi::lane::{Message, RxLane};
use via::error::Cause;
use via::memory::{Ptag, RegionCache};
use via::queue::{Completion, Outcome};
use via::{DescriptorRef, Status};

/// The receive queue and its direction of the connection.
#[derive(Debug)]
pub(crate) struct RecvSide {
    pub(crate) queue: Queue,
    /// There from a connection's beginning, before it is answered, to the disconnect.
    lane: Option<RxLane>,
    /// No more messages are to be taken from it.
    ended: bool,
    /// Why the connection is to be broken, once that is found out.
    pub(crate) trouble: Option<Cause>,
    ptag: Ptag,
}

impl RecvSide {
    pub(crate) fn new(capacity: u32, ptag: Ptag) -> RecvSide {
        RecvSide { queue: Queue::new(capacity), lane: None, ended: false, trouble: None, ptag }
    }

    /// Where messages come from.
    pub(crate) fn lane(&self) -> Option<&RxLane> {
        self.lane.as_ref()
    }

    /// Begins with a connection, or ends with it.
    pub(crate) fn attach(&mut self, lane: Option<RxLane>) {
        self.lane = lane;
        self.ended = false;
        self.publish();
    }

    /// Tells the peer how many receives are posted.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.publish(self.queue.work.outstanding());
        }
    }

    /// Receives one message, if one is there; its descriptor is done.
    pub(crate) fn progress(&mut self, nic: &Shared) -> News {
        match self.meet(nic) {
            Ok(outcome) => {
                self.queue.work.complete(outcome);
                News::Message
            }
            Err(news) => news,
        }
    }

    /// As [`RecvSide::progress`], and the descriptor is taken. For a queue in which none waits to
    /// be taken.
    #[inline]
    pub(crate) fn take_next(&mut self, nic: &Shared) -> Result<Completion, News> {
        let outcome = self.meet(nic)?;
        Ok(self.queue.work.pass(outcome))
    }

    /// The next message and the next descriptor meet; the queue is still to be told.
    #[inline(always)]
    fn meet(&mut self, nic: &Shared) -> Result<Outcome, News> {
        let Some(lane) = &mut self.lane else { return Err(News::Nothing) };
        let message = match lane.head() {
            Ok(Some(message)) => message,
            Ok(None) => return Err(self.quiet()),
            Err(damaged) => return Err(self.damaged(damaged)),
        };
        let ptag = self.ptag;
        let Queue { work, descriptors, data } = &mut self.queue;
        let Some(front) = work.front() else {
            return Err(self.damaged(Damaged("a message for which no receive is posted")));
        };
        let Some(descriptor) = access::descriptor(descriptors, nic, ptag, front) else {
            // Its memory was deregistered after it was posted.
            return Err(self.fail(nic, Status::PROTECTION_ERROR));
        };
        let receive = Receive { descriptor, nic, ptag };
        if let Err(status) = receive.deliver(lane, data, &message) {
            return Err(self.fail(nic, status));
        }
        if lane.consume(&message, work.outstanding() - 1).is_err() {
            return Err(self.damaged(Damaged("a message at an impossible place")));
        }
        let Message { len: length, immediate, .. } = message;
        descriptor.complete(Status::OP_RECEIVE, length, immediate);
        Ok(Outcome { status: Status::OP_RECEIVE, length, immediate })
    }

    /// No message is there: has the peer closed?
    #[inline]
    fn quiet(&mut self) -> News {
        match self.lane.as_ref().and_then(RxLane::peer_closed) {
            None => News::Nothing,
            Some(cause) => self.closed(cause),
        }
    }

    #[cold]
    fn closed(&mut self, cause: Cause) -> News {
        // What it sent before it closed may have come between the two looks.
        match self.lane.as_ref().map(RxLane::head) {
            Some(Ok(Some(_))) => News::Message,
            Some(Err(damaged)) => self.damaged(damaged),
            Some(Ok(None)) | None => {
                self.trouble = Some(cause);
                News::Trouble
            }
        }
    }

    #[cold]
    fn damaged(&mut self, damaged: Damaged) -> News {
        self.ended = true;
        self.trouble = Some(Cause::Damaged(damaged.0));
        News::Trouble
    }

    #[cold]
    fn fail(&mut self, nic: &Shared, status: Status) -> News {
        self.ended = true;
        self.queue.complete(nic, self.ptag, Outcome::error(Status::OP_RECEIVE | status));
        self.trouble = Some(Cause::Descriptor(status));
        News::Trouble
    }

    /// Ends the queue of a broken connection: receives what the peer sent before, unless it was a
    /// receive that went wrong, and flushes the rest.
    #[cold]
    pub(crate) fn wind_up(&mut self, nic: &Shared) {
        if !self.ended {
            while self.queue.work.outstanding() > 0 && self.progress(nic) == News::Message {}
            self.ended = true;
        }
        self.flush(nic);
    }

    /// Flushes what is not done.
    pub(crate) fn flush(&mut self, nic: &Shared) {
        self.queue.flush(nic, self.ptag, Status::OP_RECEIVE);
    }
}

/// What a look for messages has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Nothing,
    /// A message has been received, or is just coming.
    Message,
    /// The connection is to be broken.
    Trouble,
}

/// A receive that meets its message.
struct Receive<'a> {
    descriptor: DescriptorRef<'a>,
    nic: &'a Shared,
    ptag: Ptag,
}

impl Receive<'_> {
    /// Everything is checked before anything is moved.
    #[inline]
    fn deliver(
        &self,
        lane: &RxLane,
        data: &mut RegionCache,
        message: &Message,
    ) -> Result<(), Status> {
        let count = access::form(&self.descriptor, self.descriptor.control())?;
        if count == 1 {
            let (to, room) = access::segment(&self.descriptor, 0, data, self.nic, self.ptag)?;
            if message.len > room {
                return Err(Status::LENGTH_ERROR);
            }
            // SAFETY: `segment` vouches for `room` bytes.
            unsafe { lane.copy(message, 0, to, message.len) };
            return Ok(());
        }
        let mut room = 0u32;
        for i in 0..count {
            room = room.saturating_add(self.segment(i, data)?.1);
        }
        if message.len > room {
            return Err(Status::LENGTH_ERROR);
        }
        let mut done = 0;
        for i in 0..count {
            let (to, len) = self.segment(i, data)?;
            let len = len.min(message.len - done);
            // SAFETY: `segment` vouches for the target; `done + len` is at most the message.
            unsafe { lane.copy(message, done, to, len) };
            done += len;
        }
        Ok(())
    }

    fn segment(
        &self,
        i: usize,
        data: &mut RegionCache,
    ) -> Result<(core::ptr::NonNull<u8>, u32), Status> {
        access::segment(&self.descriptor, i, data, self.nic, self.ptag)
    }
}
