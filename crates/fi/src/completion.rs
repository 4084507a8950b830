//! Completion queues and counters.

use crate::error::Error;
use std::collections::VecDeque;

/// An operation that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// What the program has named the operation by.
    pub context: usize,
    /// What it was, by [`crate::flag`].
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
    /// Where they begin, if the program cannot know.
    pub buffer: usize,
    /// The data that came along, if the flags say so.
    pub data: u64,
    /// The tag of the message.
    pub tag: u64,
    /// The sender's number in the address vector, or [`crate::flag::ADDRESS_NONE`].
    pub source: u64,
}

/// An operation that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What it was; what is known of it.
    pub completion: Completion,
    /// Bytes that there was no room for.
    pub excess: usize,
    /// Why.
    pub error: Error,
}

/// A completion queue.
#[derive(Debug)]
pub struct Queue {
    /// A ring; its length is a power of two.
    entries: Box<[Entry]>,
    /// Entries that have been pushed, and those that have been read.
    pushed: u64,
    taken: u64,
    /// Failures, each with the number of the entry before which it is to be read.
    failures: VecDeque<(u64, Failure)>,
    /// The endpoints that are bound to it; reading it has them make progress.
    pub(crate) endpoints: Vec<usize>,
    /// Set by `signal`, for a thread that waits.
    pub(crate) signaled: bool,
}

/// The words of a completion, in the order of libfabric's longest entry, and the source behind them.
///
/// They are read one by one. A processor that reads two words at once, which were written one by one just before, waits
/// until all that it has written so far has left it: messages in lines of other processors' among it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Entry([u64; 7]);

/// Entries that there is room for in the beginning.
const ENTRIES: usize = 256;
/// Words of an entry without the source.
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

    /// Passes the words of the next entry, one after the other, to `put`, and then the source.
    ///
    /// # Errors
    /// [`Error::AVAILABLE`] if a failure is to be read first, [`Error::AGAIN`] if there is nothing.
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
        // SAFETY: a reference. Volatile, so that no two are read at once.
        let word = |i: usize| unsafe { core::ptr::read_volatile(&raw const entry[i]) };
        for i in 0..WORDS {
            put(i, word(i));
        }
        let source = word(WORDS);
        self.taken += 1;
        Ok(source)
    }

    /// The next failure, if it is its turn.
    pub fn take_failure(&mut self) -> Option<Failure> {
        let (before, _) = self.failures.front()?;
        if *before != self.taken {
            return None;
        }
        self.failures.pop_front().map(|(_, failure)| failure)
    }

    /// Whether an endpoint is bound to it.
    pub fn is_used(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// Ends the wait of a thread for entries, or the next one.
    pub fn signal(&mut self) {
        self.signaled = true;
    }

    /// Whether it has been signaled since this was last asked.
    pub fn take_signal(&mut self) -> bool {
        core::mem::take(&mut self.signaled)
    }

    /// Whether there is anything to read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == self.pushed && self.failures.is_empty()
    }
}

/// A counter of operations.
#[derive(Debug, Default)]
pub struct Counter {
    /// Those that have succeeded.
    pub value: u64,
    /// Those that have failed.
    pub errors: u64,
    /// The endpoints that are bound to it.
    pub(crate) endpoints: Vec<usize>,
    /// Regions that are: by any of the domain's endpoints they may be written.
    pub(crate) regions: usize,
}

impl Counter {
    /// Whether an endpoint or a region is bound to it.
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
