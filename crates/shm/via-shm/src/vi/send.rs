//! The send queue: a send executes in the thread that posts it.

mod failing;

use crate::Corrupt;
use crate::card::Card;
use crate::ring::INLINE;
use crate::vi::access::{self, Gather, Queue};
use crate::vi::lane::{FRAGMENT, Permit, TxLane};
use crate::vi::notice::Notices;
use crate::vi::rdma::{Limits, Rdma};
use core::ptr::NonNull;
use std::collections::VecDeque;
use via::error::{Cause, PostError};
use via::memory::Ptag;
use via::queue::Outcome;
use via::{Control, DescriptorAddress, DescriptorRef, Reliability, Status, ViAttributes};

/// The send queue and its direction of the connection.
#[derive(Debug)]
pub(crate) struct SendSide {
    pub(crate) queue: Queue,
    /// There while the VI is connected, or in error and not yet disconnected.
    pub(crate) lane: Option<TxLane>,
    /// Why the connection is to be broken, once the queue has found an error.
    pub(crate) trouble: Option<Cause>,
    level: Reliability,
    max_transfer: u32,
    may_read: bool,
    /// How much of the send at work has gone, of how much.
    partial: Partial,
    /// Sends that are on their way and not known to be received (reliable reception): each one's
    /// number and length.
    flight: VecDeque<(u32, u32)>,
    pub(super) rdma: Rdma,
    /// The peer wakes our engine when there is room.
    pub(super) awaits_room: bool,
}

#[derive(Debug, Default)]
struct Partial {
    sent: u32,
    total: u32,
}

/// Why nothing was sent, or not all. Small, so that it travels in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// There is no room for it now, or it must wait for what is before it.
    NoRoom,
    /// Its descriptor is at fault.
    Descriptor(Status),
    /// The peer has posted no receive for it.
    NoReceive,
    /// The peer has ended the connection.
    Ended,
    /// The peer's process is no more.
    Gone,
    /// The segment makes no sense.
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

    /// The VI has other attributes, and with them another tag.
    pub(crate) fn set_attributes(&mut self, attributes: &ViAttributes, ptag: Ptag) {
        self.level = attributes.reliability;
        self.max_transfer = attributes.max_transfer_size;
        self.may_read = attributes.enable_rdma_read;
        self.queue.ptag = ptag;
    }

    /// Begins with a connection, or ends with it.
    pub(crate) fn attach(&mut self, lane: Option<TxLane>) {
        self.lane = lane;
        self.trouble = None;
        self.partial = Partial::default();
        self.flight.clear();
        self.rdma.reset();
        self.awaits_room = false;
    }

    /// Posts a descriptor, and sends it if nothing is before it. If the connection is broken, it
    /// is flushed. False if there is trouble.
    ///
    /// # Errors
    /// Why it is not taken.
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
                // Too long, or to be cut into pieces.
                return Err(Obstacle::NoRoom);
            }
            permit(lane)?;
            send_piece(lane, from, len, immediate_of(&descriptor))
        })();
        match sent {
            Ok(length) => {
                descriptor.complete(Status::OP_SEND, length, None);
                work.complete(Outcome { status: Status::OP_SEND, length, immediate: None });
                let told = self.queue.notices.completed(&mut self.queue.work, nic);
                Ok(told.is_ok() || self.overrun())
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

    /// Sends what is posted, in order, as far as there is room. False if there is trouble.
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
                // What is before it ends first.
                Err(_) if !self.flight.is_empty() => return self.check_ended(nic),
                Err(obstacle) => self.fail(nic, obstacle),
            };
            if !worked {
                return false;
            }
        }
        true
    }

    /// The oldest descriptor is done.
    fn done(&mut self, nic: &Card, outcome: Outcome) -> bool {
        self.partial = Partial::default();
        self.queue.complete(nic, outcome).is_ok() || self.overrun()
    }

    /// Completes the sends that have been received (reliable reception).
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

    /// Whether the peer still holds the connection up.
    fn check_ended(&mut self, nic: &Card) -> bool {
        match self.lane.as_ref().and_then(TxLane::peer_closed) {
            Some(_) => self.fail(nic, Obstacle::Ended),
            None => true,
        }
    }

    /// Attempts the descriptor at `at`, which all before it have left to be attempted.
    fn attempt(&mut self, nic: &Card, at: DescriptorAddress) -> Result<Gone, Obstacle> {
        let lane = self.lane.as_mut().ok_or(Obstacle::NoRoom)?;
        if lane.peer_closed().is_some() {
            return Err(Obstacle::Ended);
        }
        let Queue { descriptors, data, ptag, .. } = &mut self.queue;
        // Its memory may have been deregistered after it was posted.
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
            // As something else: the program has changed it meanwhile.
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

/// What has become of a descriptor that was attempted.
pub(super) enum Gone {
    /// It is done.
    Done(Outcome),
    /// It is sent, and done when it is received.
    InFlight(u32),
}

/// What keeps a send from being carried out in one step.
const NOT_PLAIN: Control = Control::RESERVED.union(Control::OP_MASK);

fn immediate_of(descriptor: &DescriptorRef<'_>) -> Option<u32> {
    descriptor.control().contains(Control::IMMEDIATE).then(|| descriptor.immediate())
}

/// Sends bytes that lie in one piece, and fit one entry. The caller has a permit.
#[inline(always)]
fn send_piece(
    lane: &mut TxLane,
    from: NonNull<u8>,
    len: u32,
    immediate: Option<u32>,
) -> Result<u32, Obstacle> {
    if len as usize <= INLINE {
        // SAFETY: `segment` vouches for the bytes, and the program leaves them alone until the
        // send is done (`via::Memory`).
        let bytes = unsafe { core::slice::from_raw_parts(from.as_ptr(), len as usize) };
        lane.send_inline(bytes, immediate);
        return Ok(len);
    }
    let Some((offset, place)) = lane.place(len)? else { return Err(Obstacle::NoRoom) };
    // SAFETY: `segment` vouches for the source, `place` for the target.
    unsafe { copy(from, place, len) };
    lane.publish(len, immediate, Some(offset), false);
    Ok(len)
}

/// Copies bytes `from..from + len` of the descriptor's to one place that is good for so many.
fn collect(
    gather: &Gather<'_>,
    data: &mut via::memory::RegionCache,
    from: u32,
    len: u32,
    to: NonNull<u8>,
) -> Result<(), Obstacle> {
    gather.parts(data, from, len, |part, at, len| {
        // SAFETY: the part is `len` bytes of a segment; `parts` hands out `len` bytes in all.
        unsafe { copy(part, to.add((at - from) as usize), len) };
        Ok(())
    })
}

/// Whether there is a receive and an entry for another message.
#[inline]
pub(super) fn permit(lane: &mut TxLane) -> Result<(), Obstacle> {
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
    unsafe { sovia_signal::access::copy_valid(to.as_ptr(), from.as_ptr(), len as usize) }
}
