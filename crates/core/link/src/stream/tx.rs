//! The sending half of an end.

use super::rtt::{Rtt, Timing};
use crate::Time;
use std::collections::VecDeque;

/// Items to send, and items whose acknowledgement is awaited.
#[derive(Debug)]
pub(super) struct Tx<I> {
    timing: Timing,
    window: usize,
    rtt: Rtt,
    /// Items not acknowledged; the first has the number `base`, and the first `sent` of them
    /// have been sent.
    items: VecDeque<Entry<I>>,
    base: u64,
    sent: usize,
    /// Those before this place are to be sent again, of which `repeated` have been.
    again: usize,
    repeated: usize,
    /// Items before this number are not sent again because of repeated acknowledgements.
    recovered: u64,
    repeats: u32,
    tries: u32,
    deadline: Option<Time>,
}

#[derive(Debug)]
struct Entry<I> {
    item: I,
    sent_at: Time,
    sendings: u32,
}

/// What to do when the deadline has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, yet.
    Patience,
    /// There is something to send again.
    Again,
    /// The far side does not answer any more.
    Hopeless,
}

/// Acknowledgements that repeat themselves this often tell of a loss.
const REPEATS: u32 = 3;

impl<I: Clone> Tx<I> {
    /// An empty half of which `window` items may be on their way; the first has the number `first`.
    pub(super) fn new(timing: Timing, window: usize, first: u64) -> Tx<I> {
        Tx {
            timing,
            window: window.max(1),
            rtt: Rtt::new(),
            items: VecDeque::new(),
            base: first,
            sent: 0,
            again: 0,
            repeated: 0,
            recovered: first,
            repeats: 0,
            tries: 0,
            deadline: None,
        }
    }

    /// Appends an item and returns its number.
    pub(super) fn push(&mut self, item: I) -> u64 {
        self.items.push_back(Entry { item, sent_at: Time::ZERO, sendings: 0 });
        self.base + self.items.len() as u64 - 1
    }

    /// Items that have not been acknowledged.
    pub(super) fn backlog(&self) -> usize {
        self.items.len()
    }

    /// Appends the last item, instead of those that have never been sent. It goes out at once,
    /// window or not: the far side may listen to nothing else any more.
    pub(super) fn finish(&mut self, item: I) {
        self.items.truncate(self.sent);
        self.push(item);
        self.window += 1;
    }

    /// The next item to send, with its number.
    pub(super) fn next(&mut self, now: Time) -> Option<(u64, I)> {
        let place = if self.repeated < self.again {
            // From the oldest on, each once.
            self.repeated += 1;
            self.repeated - 1
        } else if self.sent < self.items.len().min(self.window) {
            self.sent += 1;
            self.sent - 1
        } else {
            return None;
        };
        let entry = &mut self.items[place];
        entry.sent_at = now;
        entry.sendings += 1;
        if self.deadline.is_none() {
            self.deadline = Some(now.after(self.rtt.wait(&self.timing, self.tries)));
        }
        Some((self.base + place as u64, entry.item.clone()))
    }

    /// The number of the oldest item that is not acknowledged.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Everything before number `ack` has been received, as an acknowledgement says that came `alone` or with an
    /// item of the other end's. False if so many have not been sent; it is then ignored.
    pub(super) fn acknowledged(&mut self, ack: u64, alone: bool, now: Time) -> bool {
        let count = ack.saturating_sub(self.base);
        if count > self.sent as u64 {
            return false;
        }
        let count = count as usize;
        if count == 0 {
            if alone {
                self.repeated(ack);
            }
            return true;
        }
        for entry in self.items.drain(..count) {
            if entry.sendings == 1 {
                self.rtt.measured(now.since(entry.sent_at));
            }
        }
        self.base += count as u64;
        self.sent -= count;
        self.again = self.again.saturating_sub(count);
        self.repeated = self.repeated.saturating_sub(count);
        self.tries = 0;
        self.repeats = 0;
        let waits = self.sent > 0;
        self.deadline = waits.then(|| now.after(self.rtt.wait(&self.timing, 0)));
        true
    }

    /// The same again: frames arrive, but the oldest item does not.
    fn repeated(&mut self, ack: u64) {
        if ack != self.base || self.sent == 0 || self.base < self.recovered {
            return;
        }
        self.repeats += 1;
        if self.repeats == REPEATS {
            if self.repeated >= self.again {
                (self.again, self.repeated) = (1, 0);
            }
            self.recovered = self.base + 1;
        }
    }

    /// When something is to be done if no acknowledgement comes.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Time) -> Verdict {
        match self.deadline {
            Some(deadline) if deadline <= now => {}
            _ => return Verdict::Patience,
        }
        if self.timing.tries == Some(self.tries) {
            return Verdict::Hopeless;
        }
        self.tries = self.tries.saturating_add(1);
        (self.again, self.repeated) = (self.sent, 0);
        self.repeats = 0;
        self.deadline = Some(now.after(self.rtt.wait(&self.timing, self.tries)));
        Verdict::Again
    }
}
