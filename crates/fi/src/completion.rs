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
#[derive(Debug, Default)]
pub struct Queue {
    entries: VecDeque<Completion>,
    /// Failures, each with the number of the entry before which it is to be read.
    failures: VecDeque<(u64, Failure)>,
    /// Entries that have been read.
    taken: u64,
    /// The endpoints that are bound to it; reading it has them make progress.
    pub(crate) endpoints: Vec<usize>,
    /// Set by `signal`, for a thread that waits.
    pub(crate) signaled: bool,
}

impl Queue {
    #[inline(always)]
    pub(crate) fn push(&mut self, completion: Completion) {
        self.entries.push_back(completion);
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        let before = self.taken + self.entries.len() as u64;
        self.failures.push_back((before, failure));
    }

    /// The next entry.
    ///
    /// # Errors
    /// [`Error::AVAILABLE`] if a failure is to be read first, [`Error::AGAIN`] if there is nothing.
    #[inline]
    pub fn take(&mut self) -> Result<Completion, Error> {
        if let Some((before, _)) = self.failures.front()
            && *before == self.taken
        {
            return Err(Error::AVAILABLE);
        }
        let entry = self.entries.pop_front().ok_or(Error::AGAIN)?;
        self.taken += 1;
        Ok(entry)
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
        self.entries.is_empty() && self.failures.is_empty()
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
}

impl Counter {
    /// Whether an endpoint is bound to it.
    pub fn is_used(&self) -> bool {
        !self.endpoints.is_empty()
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
        assert_eq!(queue.take(), Ok(entry(1)));
        assert_eq!(queue.take(), Err(Error::AVAILABLE));
        assert_eq!(queue.take(), Err(Error::AVAILABLE));
        assert_eq!(queue.take_failure(), Some(failure(2)));
        assert_eq!(queue.take_failure(), None);
        assert_eq!(queue.take(), Ok(entry(3)));
        assert_eq!(queue.take(), Err(Error::AGAIN));
        assert!(queue.is_empty());
    }
}
