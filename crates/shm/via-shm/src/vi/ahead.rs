//! Where the next message will go, found out while there is nothing else to do.
//!
//! A message that is there should be with its program at once; a program that looks for one in vain
//! has time. So a look that finds nothing reads the next receive's descriptor and checks its memory,
//! and the message, once it comes, has only to be copied. A program may not change a
//! descriptor that is posted (VIA 1.0, section 2.4.1); one that does finds its message in the
//! memory that the descriptor named before, or after.

use crate::card::Card;
use crate::vi::access::{self, Queue};
use crate::vi::recv::FOREIGN;
use core::ptr::NonNull;
use via::descriptor::ControlSegment;

/// What is known of the oldest receive. There is one for each VI, so it is kept small.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The queue's position, and the memory table's count of changes, at which it was looked at.
    position: u32,
    changes: u32,
    looked: bool,
    room: u32,
    to: NonNull<u8>,
    /// `None` if it is not of the simple kind, or there is something wrong with it.
    control: Option<NonNull<ControlSegment>>,
}

// SAFETY: the pointers lead into registered memory, which is every thread's, and are used only as
// `Place` says.
unsafe impl Send for Ahead {}

/// The place of a message: all of one data segment.
#[derive(Debug)]
pub(crate) struct Place {
    control: NonNull<ControlSegment>,
    pub(crate) to: NonNull<u8>,
    pub(crate) room: u32,
}

impl Place {
    /// The control segment of the descriptor.
    ///
    /// # Safety
    /// The queue's lock is held since [`Ahead::take`] returned this.
    #[inline(always)]
    pub(crate) unsafe fn control<'a>(self) -> &'a ControlSegment {
        // SAFETY: the region was live when `take` compared the counts, and deregistering waits for
        // the lock. All fields are atomics.
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
    /// Looks at the oldest receive, unless that has been done.
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
        // Nothing is known of what is yet to be posted.
        self.looked = queue.work.outstanding() > 0;
        let place = resolve(queue, nic);
        self.control = place.as_ref().map(|place| place.control);
        if let Some(place) = place {
            (self.to, self.room) = (place.to, place.room);
        }
    }

    /// The place of the queue's oldest receive, if it is known. Good while the queue's lock is
    /// held.
    #[inline(always)]
    pub(crate) fn take(&mut self, queue: &Queue, nic: &Card) -> Option<Place> {
        let control = self.control.take()?;
        let current = self.position == queue.work.position() && self.changes == nic.table.changes();
        current.then_some(Place { control, to: self.to, room: self.room })
    }
}

fn resolve(queue: &mut Queue, nic: &Card) -> Option<Place> {
    let Queue { work, descriptors, data, ptag, .. } = queue;
    let descriptor = access::descriptor(descriptors, nic, *ptag, work.front()?)?;
    if access::form(&descriptor, descriptor.control(), FOREIGN) != Ok(1) {
        return None;
    }
    let (to, room) = access::segment(&descriptor, 0, u32::MAX, data, nic, *ptag).ok()?;
    Some(Place { control: NonNull::from(descriptor.control_segment()), to, room })
}
