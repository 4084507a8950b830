//! A stream of items each way, in order and exactly once, over frames that are lost, repeated and overtaken:
//! numbers, acknowledgements, retransmission. A state machine: frames and the time go in, frames and a
//! deadline come out.
//!
//! [`Stream`] is one end: its sending half (`tx`) and its receiving half (`rx`).

mod rtt;
mod rx;
mod tx;

pub use rtt::Timing;
use rx::Rx;
use tx::Tx;
pub use tx::Verdict;

use crate::Time;
use crate::sequence::expand;

/// One end of a stream: sends items `O`, receives items `I`. Numbers are of 64 bits here; their lower halves
/// travel.
#[derive(Debug)]
pub struct Stream<O, I> {
    tx: Tx<O>,
    rx: Rx<I>,
    /// What is acknowledged at most.
    ack_limit: Option<u64>,
}

/// What an item that has come is to this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The next one.
    Next,
    /// One whose predecessors are missing; it is kept.
    Early,
    /// It came before, or comes far too early: it is dropped.
    Outside,
}

impl<O: Clone, I> Stream<O, I> {
    /// An end of which `window` items may be on their way. Its first item has the number `sends_from`, and the
    /// other end's has `receives_from`.
    pub fn new(
        timing: Timing,
        window: usize,
        (sends_from, receives_from): (u64, u64),
    ) -> Stream<O, I> {
        let (tx, rx) = (Tx::new(timing, window, sends_from), Rx::new(window, receives_from));
        Stream { tx, rx, ack_limit: None }
    }

    /// The other end's first item will have that number. Nothing has been received yet.
    pub(crate) fn receive_from(&mut self, first: u64) {
        self.rx = Rx::new(self.rx.window(), first);
    }

    /// Appends an item and returns its number.
    pub fn push(&mut self, item: O) -> u64 {
        self.tx.push(item)
    }

    /// Appends the last item, in place of those that have never been sent. It goes out at once, window or not.
    pub fn finish(&mut self, item: O) {
        self.tx.finish(item);
    }

    /// Items that have not been acknowledged.
    pub fn backlog(&self) -> usize {
        self.tx.backlog()
    }

    /// The next item to send, with its number as it travels.
    pub fn next_out(&mut self, now: Time) -> Option<(u32, O)> {
        self.tx.next(now).map(|(number, item)| (number as u32, item))
    }

    /// The acknowledgement to send: everything before this number has been taken.
    pub fn ack(&self) -> u32 {
        self.ack_limit.unwrap_or(u64::MAX).min(self.rx.ack()) as u32
    }

    /// Does not acknowledge the item of that number, nor any after it.
    pub fn refuse(&mut self, number: u64) {
        self.ack_limit = Some(number);
    }

    /// An item has come.
    pub fn came(&mut self, number: u32, item: I) -> Place {
        let next = self.rx.ack();
        match expand(number, next) {
            Some(number) if self.rx.came(number, item) => {
                if number == next {
                    Place::Next
                } else {
                    Place::Early
                }
            }
            _ => Place::Outside,
        }
    }

    /// The next item in order.
    pub fn peek(&self) -> Option<&I> {
        self.rx.peek()
    }

    /// Takes the next item in order, with its number. It counts as received with this.
    pub fn take(&mut self) -> Option<(u64, I)> {
        self.rx.take()
    }

    /// Forgets the next item in order as if it had never come; the other end will send it again.
    pub fn discard(&mut self) {
        self.rx.discard();
    }

    /// An acknowledgement has come, `alone` or with an item. Returns it in full; `None` if it acknowledges what
    /// has not been sent, which it is then not.
    pub fn acknowledged(&mut self, ack: u32, alone: bool, now: Time) -> Option<u64> {
        let ack = expand(ack, self.tx.base())?;
        self.tx.acknowledged(ack, alone, now).then_some(ack)
    }

    /// When [`Stream::tick`] has something to do if no acknowledgement comes.
    pub fn deadline(&self) -> Option<Time> {
        self.tx.deadline()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) -> Verdict {
        self.tx.tick(now)
    }
}

#[cfg(test)]
mod tests;
