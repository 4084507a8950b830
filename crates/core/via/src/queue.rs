//! The bookkeeping of a work queue.
//!
//! The program posts a descriptor, the NIC completes the descriptor, and the program takes the completion. Three
//! positions in a ring follow each other through these steps. So descriptors complete in posting order, each exactly
//! once. The queue stores a descriptor's outcome itself, because the descriptor's memory may be gone by then.

use crate::descriptor::DescriptorAddress;
use crate::flags::Status;

/// A completed descriptor.
///
/// ```
/// use via::{Completion, Status};
///
/// fn received(completion: Completion) -> Result<u32, String> {
///     completion.result().map_err(|status| match status {
///         status if status.contains(Status::DESC_FLUSHED_ERROR) => "the connection has ended".into(),
///         status => format!("{status:?}"),
///     })
/// }
/// # let handle = via::MemHandle::from_raw(1).unwrap();
/// # let descriptor = via::DescriptorAddress { address: 0, handle };
/// # let status = Status::DONE | Status::DESC_FLUSHED_ERROR;
/// # let completion = Completion { descriptor, status, length: 0, immediate: None };
/// # assert_eq!(received(completion).unwrap_err(), "the connection has ended");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The completed descriptor.
    pub descriptor: DescriptorAddress,
    /// Final status of the descriptor; contains [`Status::DONE`].
    pub status: Status,
    /// Number of bytes transferred.
    pub length: u32,
    /// Immediate data of a received message.
    pub immediate: Option<u32>,
}

impl Completion {
    /// Returns the number of bytes transferred.
    ///
    /// # Errors
    /// The status, if it has an error bit.
    pub fn result(&self) -> Result<u32, Status> {
        if self.status.errors().is_empty() { Ok(self.length) } else { Err(self.status) }
    }
}

/// Result of polling a work queue (`VipSendDone`, `VipRecvDone`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The oldest descriptor is done. The call has removed it from the queue.
    Completion(Completion),
    /// The oldest descriptor is still in progress (`VIP_NOT_DONE`).
    NotDone,
    /// No descriptor is posted (`VIP_DESCRIPTOR_ERROR` with a null descriptor).
    Empty,
}

impl Done {
    /// Returns the completion, if there is one.
    pub fn completion(self) -> Option<Completion> {
        match self {
            Done::Completion(completion) => Some(completion),
            Done::NotDone | Done::Empty => None,
        }
    }
}

/// Result of a descriptor: a completion without the descriptor's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Status bits. The queue adds [`Status::DONE`].
    pub status: Status,
    /// Number of bytes transferred.
    pub length: u32,
    /// Immediate data of a received message.
    pub immediate: Option<u32>,
}

impl Outcome {
    /// Returns an error without transferred bytes.
    pub fn error(status: Status) -> Outcome {
        Outcome { status, length: 0, immediate: None }
    }
}

/// A work queue without a transport.
///
/// ```
/// use via::queue::{Outcome, WorkQueue};
/// use via::{DescriptorAddress, Done, MemHandle, Status};
///
/// # let handle = MemHandle::from_raw(1).unwrap();
/// let mut queue = WorkQueue::new(2);
/// queue.post(DescriptorAddress { address: 0x1000, handle })?;
/// queue.post(DescriptorAddress { address: 0x2000, handle })?;
/// assert!(queue.post(DescriptorAddress { address: 0x3000, handle }).is_err(), "it is full");
///
/// assert_eq!(queue.take(), Done::NotDone);
/// queue.complete(Outcome { status: Status::DONE, length: 5, immediate: None });
/// let done = queue.take().completion().unwrap();
/// assert_eq!((done.descriptor.address, done.result()), (0x1000, Ok(5)));
/// # Ok::<(), via::queue::Full>(())
/// ```
#[derive(Debug)]
pub struct WorkQueue {
    /// Empty at first, then a power of two that grows as needed.
    ring: Box<[Entry]>,
    capacity: u32,
    /// Counts of posted, completed and taken descriptors, modulo 2^32: `taken <= done <= posted <= taken + capacity`.
    posted: u32,
    done: u32,
    taken: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Entry {
    descriptor: DescriptorAddress,
    outcome: Outcome,
}

fn empty_ring(entries: u32) -> Box<[Entry]> {
    let nowhere = DescriptorAddress { address: 0, handle: crate::MemHandle::NEVER };
    let entry = Entry { descriptor: nowhere, outcome: Outcome::error(Status::empty()) };
    vec![entry; entries.max(1).next_power_of_two() as usize].into_boxed_slice()
}

/// The queue has no room for another descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work queue is full")]
pub struct Full;

impl WorkQueue {
    /// Creates an empty queue for up to `capacity` descriptors that have not been taken. The queue allocates no memory
    /// before the first post.
    pub fn new(capacity: u32) -> WorkQueue {
        WorkQueue { ring: Box::default(), capacity, posted: 0, done: 0, taken: 0 }
    }

    #[inline]
    fn place(&self, n: u32) -> usize {
        n as usize & (self.ring.len() - 1)
    }

    /// Posts a descriptor.
    ///
    /// # Errors
    /// [`Full`].
    #[inline]
    pub fn post(&mut self, descriptor: DescriptorAddress) -> Result<(), Full> {
        let held = self.posted.wrapping_sub(self.taken);
        if held as usize >= self.ring.len() || held >= self.capacity {
            self.grow()?;
        }
        let place = self.place(self.posted);
        self.ring[place].descriptor = descriptor;
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        let held = self.posted.wrapping_sub(self.taken);
        if held >= self.capacity {
            return Err(Full);
        }
        let mut ring = empty_ring((held * 2).min(self.capacity));
        for n in 0..held {
            let n = self.taken.wrapping_add(n);
            ring[n as usize & (ring.len() - 1)] = self.ring[self.place(n)];
        }
        self.ring = ring;
        Ok(())
    }

    /// Returns the oldest descriptor that is not done.
    #[inline]
    pub fn front(&self) -> Option<DescriptorAddress> {
        (self.done != self.posted).then(|| self.ring[self.place(self.done)].descriptor)
    }

    /// Number of completed descriptors since the queue was created, modulo 2^32. The number identifies the oldest
    /// descriptor that is not done.
    #[inline]
    pub fn position(&self) -> u32 {
        self.done
    }

    /// Returns the descriptor `i` places after the oldest descriptor that is not done.
    #[inline]
    pub fn pending(&self, i: u32) -> Option<DescriptorAddress> {
        (i < self.outstanding())
            .then(|| self.ring[self.place(self.done.wrapping_add(i))].descriptor)
    }

    /// Returns true if a completed descriptor has not been taken.
    #[inline]
    pub fn has_done(&self) -> bool {
        self.taken != self.done
    }

    /// Completes the oldest descriptor.
    #[inline]
    pub fn complete(&mut self, mut outcome: Outcome) {
        debug_assert!(self.done != self.posted, "nothing to complete");
        if self.done == self.posted {
            return;
        }
        outcome.status |= Status::DONE;
        if outcome.immediate.is_some() {
            outcome.status |= Status::IMMEDIATE;
        }
        let place = self.place(self.done);
        self.ring[place].outcome = outcome;
        self.done = self.done.wrapping_add(1);
    }

    /// Completes the oldest descriptor and takes it at once. The queue must have a posted descriptor, and no completed
    /// descriptor that waits to be taken.
    #[inline]
    pub fn pass(&mut self, outcome: Outcome) -> Completion {
        debug_assert!(self.taken == self.done && self.done != self.posted, "not the oldest");
        let descriptor = self.ring[self.place(self.done)].descriptor;
        self.done = self.done.wrapping_add(1);
        self.taken = self.done;
        let mut status = outcome.status | Status::DONE;
        if outcome.immediate.is_some() {
            status |= Status::IMMEDIATE;
        }
        let Outcome { length, immediate, .. } = outcome;
        Completion { descriptor, status, length, immediate }
    }

    /// Takes the oldest descriptor if it is done.
    #[inline]
    pub fn take(&mut self) -> Done {
        if self.taken == self.done {
            return if self.done == self.posted { Done::Empty } else { Done::NotDone };
        }
        let Entry { descriptor, outcome } = self.ring[self.place(self.taken)];
        self.taken = self.taken.wrapping_add(1);
        let Outcome { status, length, immediate } = outcome;
        Done::Completion(Completion { descriptor, status, length, immediate })
    }

    /// Number of posted descriptors that are not done.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.posted.wrapping_sub(self.done)
    }

    /// Returns true if the queue has no descriptor, done or not.
    pub fn is_empty(&self) -> bool {
        self.posted == self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemHandle;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn descriptor(n: u64) -> DescriptorAddress {
        DescriptorAddress { address: n, handle: MemHandle::from_raw(1).unwrap() }
    }

    /// Tries all histories of `steps` steps from this state, and compares them with a model without counters.
    fn every_history(queue: &WorkQueue, model: &VecDeque<(u64, bool)>, n: u64, steps: u32) {
        if steps == 0 {
            return;
        }
        let copy = || WorkQueue { ring: queue.ring.clone(), ..*queue };

        let (mut posted, mut after) = (copy(), model.clone());
        if posted.post(descriptor(n)).is_ok() {
            after.push_back((n, false));
        } else {
            assert_eq!(model.len(), queue.capacity as usize);
        }
        assert_eq!(posted.is_empty(), after.is_empty());
        every_history(&posted, &after, n + 1, steps - 1);

        let pending = model.iter().position(|&(_, done)| !done);
        assert_eq!(queue.front(), pending.map(|at| descriptor(model[at].0)));
        assert_eq!(queue.outstanding() as usize, model.len() - pending.unwrap_or(model.len()));
        if let Some(at) = pending {
            let (mut done, mut after) = (copy(), model.clone());
            after[at].1 = true;
            done.complete(Outcome {
                status: Status::DONE,
                length: after[at].0 as u32,
                immediate: None,
            });
            assert!(done.has_done());
            every_history(&done, &after, n, steps - 1);
        }

        let (mut taken, mut after) = (copy(), model.clone());
        match (taken.take(), model.front()) {
            (Done::Completion(completion), Some(&(n, true))) => {
                assert_eq!((completion.descriptor, completion.length), (descriptor(n), n as u32));
                after.pop_front();
                every_history(&taken, &after, n, steps - 1);
            }
            (Done::NotDone, Some((_, false))) | (Done::Empty, None) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn counters_wrap_around_at_every_point_of_every_short_history() {
        for before in 0..6u32 {
            let start = 0u32.wrapping_sub(before);
            for capacity in [1, 2, 3] {
                let queue = WorkQueue {
                    posted: start,
                    done: start,
                    taken: start,
                    ..WorkQueue::new(capacity)
                };
                every_history(&queue, &VecDeque::new(), 0, 9);
            }
        }
    }

    proptest! {
        /// Descriptors complete in order, each exactly once, and never more than the capacity.
        #[test]
        fn in_order_and_exactly_once(steps in proptest::collection::vec(0u8..4, 1..900)) {
            let mut queue = WorkQueue::new(24);
            let (mut posted, mut done) = (VecDeque::new(), VecDeque::new());
            let mut n = 0u64;
            for step in steps {
                match step {
                    0 | 3 => {
                        let full = posted.len() + done.len() == 24;
                        prop_assert_eq!(queue.post(descriptor(n)), if full { Err(Full) } else { Ok(()) });
                        if !full {
                            posted.push_back(n);
                        }
                        n += 1;
                    }
                    1 => {
                        prop_assert_eq!(queue.front(), posted.front().map(|&n| descriptor(n)));
                        if let Some(n) = posted.pop_front() {
                            queue.complete(Outcome { status: Status::OP_RECEIVE, length: n as u32, immediate: None });
                            done.push_back(n);
                        }
                    }
                    _ => match (queue.take(), done.pop_front()) {
                        (Done::Completion(c), Some(n)) => {
                            prop_assert_eq!((c.descriptor, c.length), (descriptor(n), n as u32));
                            prop_assert!(c.status.is_done());
                        }
                        (Done::NotDone, None) => prop_assert!(!posted.is_empty()),
                        (Done::Empty, None) => prop_assert!(posted.is_empty()),
                        other => prop_assert!(false, "{other:?}"),
                    },
                }
                prop_assert_eq!(queue.outstanding() as usize, posted.len());
                prop_assert_eq!(queue.pending(1), posted.get(1).map(|&n| descriptor(n)));
                prop_assert_eq!(queue.has_done(), !done.is_empty());
                prop_assert_eq!(queue.is_empty(), posted.is_empty() && done.is_empty());
            }
        }
    }

    #[test]
    fn passing_is_completing_and_taking() {
        let outcome = Outcome { status: Status::OP_RECEIVE, length: 5, immediate: Some(6) };
        let mut queues = [WorkQueue::new(2), WorkQueue::new(2)];
        for queue in &mut queues {
            queue.post(descriptor(1)).unwrap();
            queue.post(descriptor(2)).unwrap();
        }
        let [passing, taking] = &mut queues;
        taking.complete(outcome);
        assert_eq!(Done::Completion(passing.pass(outcome)), taking.take());
        assert_eq!((passing.outstanding(), passing.front()), (1, taking.front()));
    }

    #[test]
    fn an_error_is_a_result() {
        let mut queue = WorkQueue::new(2);
        queue.post(descriptor(1)).unwrap();
        queue.complete(Outcome::error(Status::DESC_FLUSHED_ERROR));
        let completion = queue.take().completion().unwrap();
        assert_eq!(completion.result(), Err(Status::DONE | Status::DESC_FLUSHED_ERROR));
    }
}
