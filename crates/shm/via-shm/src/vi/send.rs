//! The send queue. A send executes in the thread that posts it.

mod failing;

use crate::card::Card;
use crate::vi::access::{self, Gather, Queue};
use crate::vi::lane::{FRAGMENT, Permit, TxLane};
use crate::vi::notice::Notices;
use crate::vi::rdma::{Limits, Rdma};
use core::ptr::NonNull;
use sovia_ring::Corrupt;
use sovia_ring::ring::INLINE;
use std::collections::VecDeque;
use via::error::{Cause, PostError};
use via::memory::Ptag;
use via::queue::Outcome;
use via::{Control, DescriptorAddress, DescriptorRef, Reliability, Status, ViAttributes};

/// The send queue and the direction in which it sends.
#[derive(Debug)]
pub(crate) struct SendSide {
    pub(crate) queue: Queue,
    /// `Some` while the VI is connected, and in the error state until the disconnect.
    pub(crate) lane: Option<TxLane>,
    /// Set once the queue has found an error: the reason to break the connection.
    pub(crate) trouble: Option<Cause>,
    level: Reliability,
    max_transfer: u32,
    may_read: bool,
    /// Progress of the oldest send.
    partial: Partial,
    /// Number and length of each message that this end has sent and the peer has not yet received. Used at reliable
    /// reception only.
    flight: VecDeque<(u32, u32)>,
    pub(super) rdma: Rdma,
    /// Set while the peer must wake this process's engine when it makes room for a waiting send.
    pub(super) awaits_room: bool,
}

#[derive(Debug, Default)]
struct Partial {
    sent: u32,
    total: u32,
}

/// Reason why a send has not executed completely. Small enough to be returned in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The ring or the pool has no room now, or the send must wait for earlier sends.
    NoRoom,
    /// The descriptor is invalid.
    Descriptor(Status),
    /// The peer has not posted a receive.
    NoReceive,
    /// The peer has closed the connection.
    Ended,
    /// The peer's process has ended.
    Gone,
    /// The segment holds an invalid value.
    Corrupt,
}

impl From<Status> for Obstacle {
    fn from(error: Status) -> Obstacle {
        Obstacle::Descriptor(error)
    }
}

impl From<Corrupt> for Obstacle {
    fn from(_: Corrupt) -> Obstacle {
        Obstacle::Corrupt
    }
}

impl SendSide {
    pub(crate) fn new(
        capacity: u32,
        attributes: &ViAttributes,
        ptag: Ptag,
        notices: Notices,
    ) -> SendSide {
        SendSide {
            queue: Queue::new(capacity, ptag, notices),
            lane: None,
            trouble: None,
            level: attributes.reliability,
            max_transfer: attributes.max_transfer_size,
            may_read: attributes.enable_rdma_read,
            partial: Partial::default(),
            flight: VecDeque::new(),
            rdma: Rdma::default(),
            awaits_room: false,
        }
    }

    /// Adopts new attributes of the VI, and the protection tag that belongs to them.
    pub(crate) fn set_attributes(&mut self, attributes: &ViAttributes, ptag: Ptag) {
        self.level = attributes.reliability;
        self.max_transfer = attributes.max_transfer_size;
        self.may_read = attributes.enable_rdma_read;
        self.queue.ptag = ptag;
    }

    /// Resets the state for a new connection, or (with `None`) at the end of a connection.
    pub(crate) fn attach(&mut self, lane: Option<TxLane>) {
        self.lane = lane;
        self.trouble = None;
        self.partial = Partial::default();
        self.flight.clear();
        self.rdma.reset();
        self.awaits_room = false;
    }

    /// Posts a descriptor, and sends the message at once if no other descriptor is outstanding. If the connection is
    /// broken, flushes the descriptor. Returns false if `trouble` has been set.
    ///
    /// # Errors
    /// [`PostError`] if the queue does not accept the descriptor.
    #[inline]
    pub(crate) fn post(
        &mut self,
        nic: &Card,
        at: DescriptorAddress,
        broken: bool,
    ) -> Result<bool, PostError> {
        let Queue { work, descriptors, data, ptag, .. } = &mut self.queue;
        let ptag = *ptag;
        let descriptor =
            access::descriptor(descriptors, nic, ptag, at).ok_or(PostError::Descriptor)?;
        let first = work.outstanding() == 0;
        work.post(at).map_err(|_| PostError::QueueFull)?;
        if broken {
            self.flush(nic);
            return Ok(true);
        }
        let plain = first
            && self.level == Reliability::RELIABLE_DELIVERY
            && descriptor.seg_count() == 1
            && !descriptor.control().intersects(NOT_PLAIN);
        let Some(lane) = self.lane.as_mut().filter(|_| plain) else {
            descriptor.clear_status();
            return Ok(self.progress(nic));
        };
        let limit = self.max_transfer.min(FRAGMENT as u32);
        let sent = (|| {
            if lane.peer_closed().is_some() {
                return Err(Obstacle::Ended);
            }
            let (from, len) = access::segment(&descriptor, 0, u32::MAX, data, nic, ptag)?;
            if len > limit {
                // Too long for this fast path; `progress` splits it or reports the error.
                return Err(Obstacle::NoRoom);
            }
            permit(lane)?;
            send_piece(lane, from, len, immediate_of(&descriptor))
        })();
        match sent {
            Ok(length) => {
                descriptor.complete(Status::OP_SEND, length, None);
                work.complete(Outcome { status: Status::OP_SEND, length, immediate: None });
                let notified = self.queue.notices.completed(&mut self.queue.work, nic);
                Ok(notified.is_ok() || self.overrun())
            }
            Err(obstacle) => {
                descriptor.clear_status();
                match obstacle {
                    Obstacle::NoRoom => Ok(self.progress(nic)),
                    obstacle => Ok(self.fail(nic, obstacle)),
                }
            }
        }
    }

    /// Executes the posted descriptors, in order, until the ring or the pool has no more room. Returns false if
    /// `trouble` has been set.
    pub(crate) fn progress(&mut self, nic: &Card) -> bool {
        if !self.flight.is_empty() && !self.land(nic) {
            return false;
        }
        while let Some(at) = self.queue.work.pending(self.flight.len() as u32) {
            if self.lane.is_none() {
                return true;
            }
            let worked = match self.attempt(nic, at) {
                Ok(Gone::Done(outcome)) => self.done(nic, outcome),
                Ok(Gone::InFlight(length)) => {
                    let number = self.lane.as_ref().map_or(0, TxLane::sent);
                    self.flight.push_back((number, length));
                    self.land(nic)
                }
                Err(Obstacle::NoRoom) => return true,
                // The earlier sends are still in flight, and must complete before this send fails.
                Err(_) if !self.flight.is_empty() => return self.check_ended(nic),
                Err(obstacle) => self.fail(nic, obstacle),
            };
            if !worked {
                return false;
            }
        }
        true
    }

    /// Completes the oldest descriptor. Returns false if `trouble` has been set.
    fn done(&mut self, nic: &Card, outcome: Outcome) -> bool {
        self.partial = Partial::default();
        self.queue.complete(nic, outcome).is_ok() || self.overrun()
    }

    /// Completes the sends whose messages the peer has received, at reliable reception. Returns false if `trouble`
    /// has been set.
    fn land(&mut self, nic: &Card) -> bool {
        match self.lane.as_ref().map(TxLane::delivered) {
            Some(Ok(delivered)) if !self.complete_up_to(nic, delivered) => false,
            Some(Ok(_)) => self.flight.is_empty() || self.check_ended(nic),
            Some(Err(corrupt)) => self.fail(nic, corrupt.into()),
            None => true,
        }
    }

    fn complete_up_to(&mut self, nic: &Card, delivered: u32) -> bool {
        while let Some(&(number, length)) = self.flight.front()
            && delivered.wrapping_sub(number) as i32 >= 0
        {
            self.flight.pop_front();
            let outcome = Outcome { status: Status::OP_SEND, length, immediate: None };
            if !(self.queue.complete(nic, outcome).is_ok() || self.overrun()) {
                return false;
            }
        }
        true
    }

    /// Returns true if the peer has not closed the connection. Otherwise fails the oldest send.
    fn check_ended(&mut self, nic: &Card) -> bool {
        match self.lane.as_ref().and_then(TxLane::peer_closed) {
            Some(_) => self.fail(nic, Obstacle::Ended),
            None => true,
        }
    }

    /// Executes the descriptor at `at`, as far as possible now. The caller must have executed all earlier
    /// descriptors.
    fn attempt(&mut self, nic: &Card, at: DescriptorAddress) -> Result<Gone, Obstacle> {
        let lane = self.lane.as_mut().ok_or(Obstacle::NoRoom)?;
        if lane.peer_closed().is_some() {
            return Err(Obstacle::Ended);
        }
        let Queue { descriptors, data, ptag, .. } = &mut self.queue;
        // The program may have deregistered the descriptor's memory after the post.
        let descriptor = access::descriptor(descriptors, nic, *ptag, at)
            .ok_or(Obstacle::Descriptor(Status::PROTECTION_ERROR))?;
        let control = descriptor.control();
        let count = access::form(&descriptor, control, Control::RESERVED)?;
        let operation = control.operation();
        let begun = if operation == Control::OP_SENDRECV {
            self.rdma.has_begun()
        } else {
            self.partial.sent != 0
        };
        if begun {
            // The program has changed the posted descriptor's operation.
            return Err(Status::FORMAT_ERROR.into());
        }
        if operation != Control::OP_SENDRECV {
            if operation == Control::OP_MASK || count == 0 {
                return Err(Status::FORMAT_ERROR.into());
            }
            if !self.flight.is_empty() {
                return Err(Obstacle::NoRoom);
            }
            let gather = Gather { descriptor, nic, ptag: *ptag, first: 1, count };
            let Self { level, max_transfer, may_read, .. } = *self;
            let limits = Limits { level, max_transfer, may_read };
            return self.rdma.attempt(lane, &gather, data, control, limits);
        }
        let gather = Gather { descriptor, nic, ptag: *ptag, first: 0, count };
        if self.partial.sent == 0 {
            let total = gather.total(data)?;
            if total > self.max_transfer {
                return Err(Status::LENGTH_ERROR.into());
            }
            permit(lane)?;
            self.partial.total = total;
        }
        let Partial { sent, total } = &mut self.partial;
        loop {
            if !lane.entry_free()? {
                return Err(Obstacle::NoRoom);
            }
            let len = (*total - *sent).min(FRAGMENT as u32);
            let more = *sent + len < *total;
            let immediate = immediate_of(&descriptor).filter(|_| !more);
            if len as usize <= INLINE && !more {
                let mut bytes = [0; INLINE];
                let to = NonNull::from(&mut bytes).cast();
                collect(&gather, data, *sent, len, to)?;
                lane.send_inline(&bytes[..len as usize], immediate);
            } else {
                let Some((offset, to)) = lane.place(len)? else { return Err(Obstacle::NoRoom) };
                collect(&gather, data, *sent, len, to)?;
                lane.publish(len, immediate, Some(offset), more);
            }
            *sent += len;
            if !more {
                break;
            }
        }
        let length = *total;
        if self.level == Reliability::RELIABLE_RECEPTION {
            self.partial = Partial::default();
            return Ok(Gone::InFlight(length));
        }
        Ok(Gone::Done(Outcome { status: Status::OP_SEND, length, immediate: None }))
    }
}

/// Result of an executed descriptor.
pub(super) enum Gone {
    /// The descriptor is done.
    Done(Outcome),
    /// The message (of this length) is sent. The descriptor is done when the peer has received the message.
    InFlight(u32),
}

/// Control bits that exclude the fast path in `post`.
const NOT_PLAIN: Control = Control::RESERVED.union(Control::OP_MASK);

fn immediate_of(descriptor: &DescriptorRef<'_>) -> Option<u32> {
    descriptor.control().contains(Control::IMMEDIATE).then(|| descriptor.immediate())
}

/// Sends the `len` contiguous bytes at `from` as one entry. The caller must have a permit.
#[inline(always)]
fn send_piece(
    lane: &mut TxLane,
    from: NonNull<u8>,
    len: u32,
    immediate: Option<u32>,
) -> Result<u32, Obstacle> {
    if len as usize <= INLINE {
        // SAFETY: `segment` has checked that the `len` bytes at `from` are registered memory. The program must not
        // write to these bytes until the send is done (`via::Memory`), and deregistering waits for the queue's
        // lock.
        let bytes = unsafe { core::slice::from_raw_parts(from.as_ptr(), len as usize) };
        lane.send_inline(bytes, immediate);
        return Ok(len);
    }
    let Some((offset, place)) = lane.place(len)? else { return Err(Obstacle::NoRoom) };
    // SAFETY: `segment` has checked that the `len` bytes at `from` are registered memory, which stays valid under the
    // queue's lock. `place` has reserved `len` bytes of the pool.
    unsafe { copy(from, place, len) };
    lane.publish(len, immediate, Some(offset), false);
    Ok(len)
}

/// Copies bytes `from..from + len` of the descriptor's segments to `to`, which has room for `len` bytes.
fn collect(
    gather: &Gather<'_>,
    data: &mut via::memory::RegionCache,
    from: u32,
    len: u32,
    to: NonNull<u8>,
) -> Result<(), Obstacle> {
    gather.parts(data, from, len, |part, at, len| {
        // SAFETY: the part is `len` bytes of registered memory, valid under the queue's lock. All parts together have
        // the length that `to` has room for.
        unsafe { copy(part, to.add((at - from) as usize), len) };
        Ok(())
    })
}

/// Returns `Ok` if the peer has a posted receive and the ring has a free entry.
#[inline]
pub(super) fn permit(lane: &mut TxLane) -> Result<(), Obstacle> {
    match lane.permit()? {
        Permit::Yes => Ok(()),
        Permit::RingFull => Err(Obstacle::NoRoom),
        Permit::NoReceive => Err(Obstacle::NoReceive),
    }
}

/// Copies `len` bytes from `from` to `to`.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes. The ranges must not overlap: one lies in a
/// segment or on the stack, and the other in registered memory.
#[inline]
unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len: u32) {
    // SAFETY: this function's contract is the contract of `copy_valid`.
    unsafe { sovia_signal::access::copy_valid(to.as_ptr(), from.as_ptr(), len as usize) }
}
