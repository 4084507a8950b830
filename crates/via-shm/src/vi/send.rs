//! The send queue: a send executes in the thread that posts it.

use crate::Damaged;
use crate::endpoint::MESSAGE_MAX;
use crate::nic::Shared;
use crate::ring::INLINE;
use crate::vi::access::{self, Queue};
use crate::vi::lane::{Permit, TxLane};
use core::ptr::NonNull;
use via::error::Cause;
use via::memory::{Ptag, RegionCache};
use via::queue::Outcome;
use via::{DescriptorRef, Status, ViAttributes};

/// The send queue and its direction of the connection.
#[derive(Debug)]
pub(crate) struct SendSide {
    pub(crate) queue: Queue,
    /// There while the VI is connected, or in error and not yet disconnected.
    pub(crate) lane: Option<TxLane>,
    ptag: Ptag,
    max_transfer: u32,
}

/// What became of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// It is on its way: this many bytes.
    Sent(u32),
    /// There is no room for it now.
    NoRoom,
    /// It ends in an error, and the connection with it.
    Failed(Status, Cause),
}

impl From<Damaged> for Attempt {
    fn from(damaged: Damaged) -> Attempt {
        Attempt::Failed(Status::TRANSPORT_ERROR, Cause::Damaged(damaged.0))
    }
}

impl From<Status> for Attempt {
    fn from(error: Status) -> Attempt {
        Attempt::Failed(error, Cause::Descriptor(error))
    }
}

impl SendSide {
    pub(crate) fn new(capacity: u32, attributes: &ViAttributes, ptag: Ptag) -> SendSide {
        let max_transfer = attributes.max_transfer_size.min(MESSAGE_MAX as u32);
        SendSide { queue: Queue::new(capacity), lane: None, ptag, max_transfer }
    }

    /// Sends what is posted, in order, as far as there is room.
    ///
    /// # Errors
    /// Why the connection is to be broken.
    #[inline]
    pub(crate) fn progress(&mut self, nic: &Shared) -> Result<(), Cause> {
        while let Some(front) = self.queue.work.front() {
            let Some(lane) = &mut self.lane else { return Ok(()) };
            if let Some(cause) = lane.peer_closed() {
                return Err(cause);
            }
            let ptag = self.ptag;
            let Queue { work, descriptors, data } = &mut self.queue;
            let Some(descriptor) = access::descriptor(descriptors, nic, ptag, front) else {
                // Its memory was deregistered after it was posted.
                return Err(self.fail(nic, Status::PROTECTION_ERROR.into()));
            };
            let send = Send { descriptor, nic, ptag, max_transfer: self.max_transfer };
            match send.attempt(lane, data) {
                Ok(Attempt::Sent(length)) => {
                    let status = Status::OP_SEND;
                    descriptor.complete(status, length, None);
                    work.complete(Outcome { status, length, immediate: None });
                }
                Ok(Attempt::NoRoom) => return Ok(()),
                Ok(failed) | Err(failed) => return Err(self.fail(nic, failed)),
            }
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, nic: &Shared, attempt: Attempt) -> Cause {
        let Attempt::Failed(status, cause) = attempt else { return Cause::PeerBroke };
        self.queue.complete(nic, self.ptag, Outcome::error(Status::OP_SEND | status));
        cause
    }

    /// Flushes what is not done.
    pub(crate) fn flush(&mut self, nic: &Shared) {
        self.queue.flush(nic, self.ptag, Status::OP_SEND);
    }
}

/// A send that is being attempted.
struct Send<'a> {
    descriptor: DescriptorRef<'a>,
    nic: &'a Shared,
    ptag: Ptag,
    max_transfer: u32,
}

impl Send<'_> {
    /// Everything is checked before anything is moved.
    #[inline]
    fn attempt(&self, lane: &mut TxLane, data: &mut RegionCache) -> Result<Attempt, Attempt> {
        let control = self.descriptor.control();
        let count = access::form(&self.descriptor, control)?;
        let immediate =
            control.contains(via::Control::IMMEDIATE).then(|| self.descriptor.immediate());
        if count == 1 {
            let (at, len) = self.segment(0, data)?;
            if len > self.max_transfer {
                return Err(Status::LENGTH_ERROR.into());
            }
            if !permitted(lane)? {
                return Ok(Attempt::NoRoom);
            }
            if len as usize <= INLINE {
                // SAFETY: `segment` vouches for the bytes, and the program leaves them alone
                // until the send is done (`via::Memory`).
                let bytes = unsafe { core::slice::from_raw_parts(at.as_ptr(), len as usize) };
                lane.send_inline(bytes, immediate);
                return Ok(Attempt::Sent(len));
            }
            let Some((offset, place)) = lane.place(len)? else { return Ok(Attempt::NoRoom) };
            // SAFETY: `segment` vouches for the source, `place` for the target.
            unsafe { copy(at, place, len) };
            lane.publish(len, immediate, Some(offset));
            return Ok(Attempt::Sent(len));
        }
        self.gather(lane, data, count, immediate)
    }

    fn segment(&self, i: usize, data: &mut RegionCache) -> Result<(NonNull<u8>, u32), Attempt> {
        Ok(access::segment(&self.descriptor, i, data, self.nic, self.ptag)?)
    }

    fn gather(
        &self,
        lane: &mut TxLane,
        data: &mut RegionCache,
        count: usize,
        immediate: Option<u32>,
    ) -> Result<Attempt, Attempt> {
        let mut total = 0u32;
        for i in 0..count {
            let (_, len) = self.segment(i, data)?;
            total = total.saturating_add(len);
        }
        if total > self.max_transfer {
            return Err(Status::LENGTH_ERROR.into());
        }
        if !permitted(lane)? {
            return Ok(Attempt::NoRoom);
        }
        if total as usize <= INLINE {
            let mut bytes = [0; INLINE];
            self.collect(data, count, total, NonNull::from(&mut bytes).cast())?;
            lane.send_inline(&bytes[..total as usize], immediate);
        } else {
            let Some((offset, place)) = lane.place(total)? else { return Ok(Attempt::NoRoom) };
            self.collect(data, count, total, place)?;
            lane.publish(total, immediate, Some(offset));
        }
        Ok(Attempt::Sent(total))
    }

    /// Copies all segments to one place that is good for `total` bytes. The program may have
    /// changed the descriptor since they were counted: no more than that is copied.
    fn collect(
        &self,
        data: &mut RegionCache,
        count: usize,
        total: u32,
        place: NonNull<u8>,
    ) -> Result<(), Attempt> {
        let mut done = 0;
        for i in 0..count {
            let (at, len) = self.segment(i, data)?;
            let len = len.min(total - done);
            // SAFETY: `segment` vouches for the source; `done + len` is at most `total`.
            unsafe { copy(at, place.add(done as usize), len) };
            done += len;
        }
        Ok(())
    }
}

/// Whether there is a receive and an entry for another message; false while there is no entry.
#[inline]
fn permitted(lane: &mut TxLane) -> Result<bool, Attempt> {
    match lane.permit()? {
        Permit::Yes => Ok(true),
        Permit::RingFull => Ok(false),
        Permit::NoReceive => {
            Err(Attempt::Failed(Status::TRANSPORT_ERROR, Cause::ReceiveQueueEmpty))
        }
    }
}

/// # Safety
/// Both must be good for `len` bytes, and not overlap: one lies in a segment, or on the stack.
#[inline]
unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len: u32) {
    // SAFETY: by contract.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), len as usize) }
}
