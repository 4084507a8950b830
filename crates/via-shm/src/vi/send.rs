//! The send queue: a send executes in the thread that posts it.

use crate::Damaged;
use crate::endpoint::MESSAGE_MAX;
use crate::nic::Shared;
use crate::ring::INLINE;
use crate::vi::access::{self, Queue};
use crate::vi::lane::{Permit, TxLane};
use core::ptr::NonNull;
use via::error::{Cause, PostError};
use via::memory::{Ptag, RegionCache};
use via::queue::{Outcome, WorkQueue};
use via::{DescriptorAddress, DescriptorRef, Status, ViAttributes};

/// The send queue and its direction of the connection.
#[derive(Debug)]
pub(crate) struct SendSide {
    pub(crate) queue: Queue,
    /// There while the VI is connected, or in error and not yet disconnected.
    pub(crate) lane: Option<TxLane>,
    /// Why the connection is to be broken, once that is found out.
    pub(crate) trouble: Option<Cause>,
    ptag: Ptag,
    max_transfer: u32,
}

/// Why nothing was sent. Small, so that it travels in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// There is no room for it now.
    NoRoom,
    /// Its descriptor is at fault.
    Descriptor(Status),
    /// The peer has posted no receive for it.
    NoReceive,
    /// The peer has ended the connection.
    Ended,
    /// The segment makes no sense.
    Damaged,
}

impl From<Status> for Obstacle {
    fn from(error: Status) -> Obstacle {
        Obstacle::Descriptor(error)
    }
}

impl From<Damaged> for Obstacle {
    fn from(_: Damaged) -> Obstacle {
        Obstacle::Damaged
    }
}

impl SendSide {
    pub(crate) fn new(capacity: u32, attributes: &ViAttributes, ptag: Ptag) -> SendSide {
        let max_transfer = attributes.max_transfer_size.min(MESSAGE_MAX as u32);
        SendSide { queue: Queue::new(capacity), lane: None, trouble: None, ptag, max_transfer }
    }

    /// Posts a descriptor, and sends it if nothing is before it. If the connection is broken, it
    /// is flushed. False if there is trouble.
    ///
    /// # Errors
    /// Why it is not taken.
    #[inline]
    pub(crate) fn post(
        &mut self,
        nic: &Shared,
        at: DescriptorAddress,
        broken: bool,
    ) -> Result<bool, PostError> {
        let ptag = self.ptag;
        let Queue { work, descriptors, data } = &mut self.queue;
        let descriptor =
            access::descriptor(descriptors, nic, ptag, at).ok_or(PostError::Descriptor)?;
        let first = work.outstanding() == 0;
        work.post(at).map_err(|_| PostError::QueueFull)?;
        if broken {
            self.flush(nic);
            return Ok(true);
        }
        let Some(lane) = self.lane.as_mut().filter(|_| first) else {
            descriptor.clear_status();
            return Ok(self.progress(nic));
        };
        let send = Send { descriptor, nic, ptag, max_transfer: self.max_transfer };
        Ok(match send.attempt(lane, data) {
            Ok(length) => {
                send.complete(work, length);
                true
            }
            Err(Obstacle::NoRoom) => {
                descriptor.clear_status();
                true
            }
            Err(obstacle) => self.fail(nic, obstacle),
        })
    }

    /// Sends what is posted, in order, as far as there is room. False if there is trouble.
    pub(crate) fn progress(&mut self, nic: &Shared) -> bool {
        while let Some(front) = self.queue.work.front() {
            let Some(lane) = &mut self.lane else { return true };
            let ptag = self.ptag;
            let Queue { work, descriptors, data } = &mut self.queue;
            let Some(descriptor) = access::descriptor(descriptors, nic, ptag, front) else {
                // Its memory was deregistered after it was posted.
                return self.fail(nic, Obstacle::Descriptor(Status::PROTECTION_ERROR));
            };
            let send = Send { descriptor, nic, ptag, max_transfer: self.max_transfer };
            match send.attempt(lane, data) {
                Ok(length) => send.complete(work, length),
                Err(Obstacle::NoRoom) => return true,
                Err(obstacle) => return self.fail(nic, obstacle),
            }
        }
        true
    }

    /// The oldest send ends in error, unless it is to be flushed with the others. Returns false.
    #[cold]
    fn fail(&mut self, nic: &Shared, obstacle: Obstacle) -> bool {
        let (status, cause) = match obstacle {
            Obstacle::NoRoom | Obstacle::Ended => {
                self.trouble = self.lane.as_ref().and_then(TxLane::peer_closed);
                return false;
            }
            Obstacle::Descriptor(error) => (error, Cause::Descriptor(error)),
            Obstacle::NoReceive => (Status::TRANSPORT_ERROR, Cause::ReceiveQueueEmpty),
            Obstacle::Damaged => {
                (Status::TRANSPORT_ERROR, Cause::Damaged("a credit that cannot be true"))
            }
        };
        self.queue.complete(nic, self.ptag, Outcome::error(Status::OP_SEND | status));
        self.trouble = Some(cause);
        false
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
    /// It is sent, and done with that.
    #[inline]
    fn complete(&self, work: &mut WorkQueue, length: u32) {
        let status = Status::OP_SEND;
        self.descriptor.complete(status, length, None);
        work.complete(Outcome { status, length, immediate: None });
    }

    /// Everything is checked before anything is moved.
    #[inline]
    fn attempt(&self, lane: &mut TxLane, data: &mut RegionCache) -> Result<u32, Obstacle> {
        if lane.peer_closed().is_some() {
            return Err(Obstacle::Ended);
        }
        let control = self.descriptor.control();
        let count = access::form(&self.descriptor, control)?;
        let immediate =
            control.contains(via::Control::IMMEDIATE).then(|| self.descriptor.immediate());
        if count == 1 {
            let (at, len) = self.segment(0, data)?;
            if len > self.max_transfer {
                return Err(Status::LENGTH_ERROR.into());
            }
            permit(lane)?;
            if len as usize <= INLINE {
                // SAFETY: `segment` vouches for the bytes, and the program leaves them alone
                // until the send is done (`via::Memory`).
                let bytes = unsafe { core::slice::from_raw_parts(at.as_ptr(), len as usize) };
                lane.send_inline(bytes, immediate);
                return Ok(len);
            }
            let Some((offset, place)) = lane.place(len)? else { return Err(Obstacle::NoRoom) };
            // SAFETY: `segment` vouches for the source, `place` for the target.
            unsafe { copy(at, place, len) };
            lane.publish(len, immediate, Some(offset));
            return Ok(len);
        }
        self.gather(lane, data, count, immediate)
    }

    #[inline(always)]
    fn segment(&self, i: usize, data: &mut RegionCache) -> Result<(NonNull<u8>, u32), Obstacle> {
        Ok(access::segment(&self.descriptor, i, data, self.nic, self.ptag)?)
    }

    fn gather(
        &self,
        lane: &mut TxLane,
        data: &mut RegionCache,
        count: usize,
        immediate: Option<u32>,
    ) -> Result<u32, Obstacle> {
        let mut total = 0u32;
        for i in 0..count {
            let (_, len) = self.segment(i, data)?;
            total = total.saturating_add(len);
        }
        if total > self.max_transfer {
            return Err(Status::LENGTH_ERROR.into());
        }
        permit(lane)?;
        if total as usize <= INLINE {
            let mut bytes = [0; INLINE];
            self.collect(data, count, total, NonNull::from(&mut bytes).cast())?;
            lane.send_inline(&bytes[..total as usize], immediate);
        } else {
            let Some((offset, place)) = lane.place(total)? else { return Err(Obstacle::NoRoom) };
            self.collect(data, count, total, place)?;
            lane.publish(total, immediate, Some(offset));
        }
        Ok(total)
    }

    /// Copies all segments to one place that is good for `total` bytes. The program may have
    /// changed the descriptor since they were counted: no more than that is copied.
    fn collect(
        &self,
        data: &mut RegionCache,
        count: usize,
        total: u32,
        place: NonNull<u8>,
    ) -> Result<(), Obstacle> {
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

/// Whether there is a receive and an entry for another message.
#[inline]
fn permit(lane: &mut TxLane) -> Result<(), Obstacle> {
    match lane.permit()? {
        Permit::Yes => Ok(()),
        Permit::RingFull => Err(Obstacle::NoRoom),
        Permit::NoReceive => Err(Obstacle::NoReceive),
    }
}

/// # Safety
/// Both must be good for `len` bytes, and not overlap: one lies in a segment, or on the stack.
#[inline]
unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len: u32) {
    // SAFETY: by contract.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), len as usize) }
}
