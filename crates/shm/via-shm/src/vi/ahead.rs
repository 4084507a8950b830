//! Looks up the destination of the next message in advance.
//!
//! A thread that finds no message uses the time to read the next receive's descriptor and to check the descriptor's
//! memory. When the message arrives, the thread only has to copy the message. A program may not change a posted
//! descriptor (VIA 1.0, section 2.4.1). If a program does so, the message goes to the memory that the descriptor
//! named before or after the change.

use crate::card::Card;
use crate::vi::access::{self, Queue};
use crate::vi::recv::FOREIGN;
use core::ptr::NonNull;
use via::descriptor::ControlSegment;

/// Destination of the next message, as found in the oldest receive's descriptor. Small, because each VI has an
/// `Ahead`.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Position of the queue at the time of the lookup. `changes` is the memory table's count of changes at that
    /// time.
    position: u32,
    changes: u32,
    looked: bool,
    room: u32,
    to: NonNull<u8>,
    /// `None` if the descriptor has not exactly one data segment, or is invalid.
    control: Option<NonNull<ControlSegment>>,
}

// SAFETY: the pointers point into registered memory, which any thread may use. `Destination` allows their use only
// under the queue's lock.
unsafe impl Send for Ahead {}

/// Destination of a message: the only data segment of the oldest receive's descriptor.
#[derive(Debug)]
pub(crate) struct Destination {
    control: NonNull<ControlSegment>,
    pub(crate) to: NonNull<u8>,
    pub(crate) room: u32,
}

impl Destination {
    /// Returns the control segment of the descriptor.
    ///
    /// # Safety
    /// The caller must have held the queue's lock since [`Ahead::take`] returned this `Destination`.
    #[inline(always)]
    pub(crate) unsafe fn control<'a>(self) -> &'a ControlSegment {
        // SAFETY: the region was live when `take` compared the counts, and deregistering waits for the lock. All fields
        // of the control segment are atomics.
        unsafe { self.control.as_ref() }
    }
}

impl Default for Ahead {
    fn default() -> Ahead {
        let to = NonNull::dangling();
        Ahead { position: 0, changes: 0, looked: false, room: 0, to, control: None }
    }
}

impl Ahead {
    /// Looks up the memory of the oldest receive, unless an earlier call has done so.
    #[inline]
    pub(crate) fn look(&mut self, queue: &mut Queue, nic: &Card) {
        if !self.looked || self.position != queue.work.position() {
            self.look_now(queue, nic);
        }
    }

    #[inline(never)]
    fn look_now(&mut self, queue: &mut Queue, nic: &Card) {
        self.position = queue.work.position();
        self.changes = nic.table.changes();
        // If no receive is posted, the next look must try again.
        self.looked = queue.work.outstanding() > 0;
        let place = resolve(queue, nic);
        self.control = place.as_ref().map(|place| place.control);
        if let Some(place) = place {
            (self.to, self.room) = (place.to, place.room);
        }
    }

    /// Returns the destination of the queue's oldest receive, if known. Valid while the queue's lock is held.
    #[inline(always)]
    pub(crate) fn take(&mut self, queue: &Queue, nic: &Card) -> Option<Destination> {
        let control = self.control.take()?;
        let current = self.position == queue.work.position() && self.changes == nic.table.changes();
        current.then_some(Destination { control, to: self.to, room: self.room })
    }
}

fn resolve(queue: &mut Queue, nic: &Card) -> Option<Destination> {
    let Queue { work, descriptors, data, ptag, .. } = queue;
    let descriptor = access::descriptor(descriptors, nic, *ptag, work.front()?)?;
    if access::form(&descriptor, descriptor.control(), FOREIGN) != Ok(1) {
        return None;
    }
    let (to, room) = access::segment(&descriptor, 0, u32::MAX, data, nic, *ptag).ok()?;
    Some(Destination { control: NonNull::from(descriptor.control_segment()), to, room })
}
