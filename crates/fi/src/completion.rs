//! Completion queues and counters.

use crate::error::Error;
use std::collections::VecDeque;

/// A finished operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// The value by which the program identifies the operation.
    pub context: usize,
    /// Kind of the operation, in bits of [`crate::flag`].
    pub flags: u64,
    /// Number of bytes received.
    pub len: usize,
    /// Address of the received bytes, if the program did not choose the address.
    pub buffer: usize,
    /// Data that came with the message, if the flags say so.
    pub data: u64,
    /// The tag of the message.
    pub tag: u64,
    /// The sender's number in the address vector, or [`crate::flag::ADDRESS_NONE`].
    pub source: u64,
}

/// A failed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Known facts about the operation.
    pub completion: Completion,
    /// Number of bytes that did not fit into the buffer.
    pub excess: usize,
    /// The reason.
    pub error: Error,
}

/// A completion queue.
#[derive(Debug)]
pub struct Queue {
    /// A ring. Its length is a power of two.
    entries: Box<[Entry]>,
    /// Numbers of entries pushed and read so far.
    pushed: u64,
    taken: u64,
    /// Failures. The number says before which entry the program reads the failure.
    failures: VecDeque<(u64, Failure)>,
    /// Endpoints that are bound to this queue. Each read of the queue drives them.
    pub(crate) endpoints: Vec<usize>,
    /// Set by [`Queue::signal`], for a waiting thread.
    pub(crate) signaled: bool,
}

/// The words of a completion, in the order of libfabric's longest entry, then the source.
///
/// [`Queue::take`] reads the words one by one. If a processor writes two words separately and then reads both in one
/// access, the read waits until all earlier stores have left the processor. The earlier stores include messages in
/// cache lines that other processors own.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Entry([u64; 7]);

/// Initial capacity of a queue, in entries.
const ENTRIES: usize = 256;
/// Number of words of an entry, without the source.
pub const WORDS: usize = 6;

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            entries: vec![Entry::default(); ENTRIES].into(),
            pushed: 0,
            taken: 0,
            failures: VecDeque::new(),
            endpoints: Vec::new(),
            signaled: false,
        }
    }
}

impl Queue {
    #[inline(always)]
    pub(crate) fn push(&mut self, completion: Completion) {
        if self.pushed - self.taken == self.entries.len() as u64 {
            self.grow();
        }
        let Completion { context, flags, len, buffer, data, tag, source } = completion;
        let at = self.pushed as usize & (self.entries.len() - 1);
        self.entries[at].0 = [context as u64, flags, len as u64, buffer as u64, data, tag, source];
        self.pushed += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let old = &self.entries;
        let mut entries = vec![Entry::default(); 2 * old.len()];
        for number in self.taken..self.pushed {
            let number = number as usize;
            entries[number & (2 * old.len() - 1)] = old[number & (old.len() - 1)];
        }
        self.entries = entries.into();
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failures.push_back((self.pushed, failure));
    }

    /// Passes the words of the next entry to `put`, one after the other, and returns the source.
    ///
    /// # Errors
    /// Returns [`Error::AVAILABLE`] if the next item is a failure, [`Error::AGAIN`] if the queue is empty.
    #[inline(always)]
    pub fn take(&mut self, mut put: impl FnMut(usize, u64)) -> Result<u64, Error> {
        if let Some((before, _)) = self.failures.front()
            && *before == self.taken
        {
            return Err(Error::AVAILABLE);
        }
        if self.taken == self.pushed {
            return Err(Error::AGAIN);
        }
        let at = self.taken as usize & (self.entries.len() - 1);
        let entry = &self.entries[at].0;
        // SAFETY: `entry[i]` is a live, aligned `u64` behind a reference. The read is volatile so that the compiler
        // does not combine two reads.
        let word = |i: usize| unsafe { core::ptr::read_volatile(&raw const entry[i]) };
        for i in 0..WORDS {
            put(i, word(i));
        }
        let source = word(WORDS);
        self.taken += 1;
        Ok(source)
    }

    /// Returns the next failure if no entry comes before the failure.
    pub fn take_failure(&mut self) -> Option<Failure> {
        let (before, _) = self.failures.front()?;
        if *before != self.taken {
            return None;
        }
        self.failures.pop_front().map(|(_, failure)| failure)
    }

    /// Returns true if an endpoint is bound to this queue.
    pub fn is_used(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// Ends a thread's current wait for entries, or the next wait.
    pub fn signal(&mut self) {
        self.signaled = true;
    }

    /// Returns true if [`Queue::signal`] was called since the last call of this function, and resets the signal.
    pub fn take_signal(&mut self) -> bool {
        core::mem::take(&mut self.signaled)
    }

    /// Returns true if the queue holds neither entries nor failures.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == self.pushed && self.failures.is_empty()
    }
}

/// A counter of operations.
#[derive(Debug, Default)]
pub struct Counter {
    /// Number of operations that succeeded.
    pub value: u64,
    /// Number of operations that failed.
    pub errors: u64,
    /// Endpoints that are bound to this counter.
    pub(crate) endpoints: Vec<usize>,
    /// Number of regions that are bound to this counter. Peers can write to a region through any endpoint of the
    /// domain.
    pub(crate) regions: usize,
}

impl Counter {
    /// Returns true if an endpoint or a region is bound to this counter.
    pub fn is_used(&self) -> bool {
        !self.endpoints.is_empty() || self.regions > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_in_their_place() {
        let entry = |context| Completion { context, ..Completion::default() };
        let failure =
            |context| Failure { completion: entry(context), excess: 0, error: Error::CANCELED };
        let mut queue = Queue::default();
        queue.push(entry(1));
        queue.fail(failure(2));
        queue.push(entry(3));
        let take = |queue: &mut Queue| {
            let mut words = [0; WORDS];
            queue.take(|i, word| words[i] = word).map(|source| (words[0], source))
        };
        assert_eq!(take(&mut queue), Ok((1, 0)));
        assert_eq!(take(&mut queue), Err(Error::AVAILABLE));
        assert_eq!(take(&mut queue), Err(Error::AVAILABLE));
        assert_eq!(queue.take_failure(), Some(failure(2)));
        assert_eq!(queue.take_failure(), None);
        assert_eq!(take(&mut queue), Ok((3, 0)));
        assert_eq!(take(&mut queue), Err(Error::AGAIN));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_queue_grows_and_keeps_its_order() {
        let mut queue = Queue::default();
        for round in 0..5 * ENTRIES {
            for context in [2 * round, 2 * round + 1] {
                let flags = context as u64 * 3;
                let source = context as u64 * 5;
                queue.push(Completion { context, flags, source, ..Completion::default() });
            }
            let mut words = [0; WORDS];
            let source = queue.take(|i, word| words[i] = word).unwrap();
            let next = round as u64;
            assert_eq!((words[0], words[1], source), (next, next * 3, next * 5));
        }
    }
}
