//! A stream of items each way, in order and exactly once, over frames that are lost, repeated and overtaken:
//! numbers, acknowledgements, retransmission, and how much may be on its way. A state machine: frames and the time go in,
//! frames and a deadline come out.
//!
//! [`Stream`] is one end: its sending half (`tx`) and its receiving half (`rx`). What was lost is found out by RACK
//! (`rack`) from reports of what has come out of its turn; the end of a flight is probed once, and what stays unanswered
//! then is sent again with waits that double. [`Control`] says what else limits the sending half.

mod control;
mod load;
mod rack;
mod rtt;
mod rx;
mod tx;

use control::Controller;
pub use control::{BadControl, Control};
pub use load::Load;
pub use rtt::{Rtt, Timing};
use rx::Rx;
use tx::Tx;
pub use tx::{Counts, Verdict};

use crate::Time;
use crate::sequence::expand;
use crate::wire::{Report, Sending};
use core::time::Duration;

/// The largest window: a small part of what 32 bits tell apart.
const WINDOW_MAX: usize = 1 << 24;

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

impl<O: Load, I> Stream<O, I> {
    /// An end of which `window` items may be on their way. Its first item has the number `sends_from`, and the
    /// other end's has `receives_from`.
    pub fn new(
        timing: Timing,
        window: usize,
        (sends_from, receives_from): (u64, u64),
    ) -> Stream<O, I> {
        Stream::controlled(timing, window, (Control::Fixed, 0), (sends_from, receives_from))
    }

    /// As [`Stream::new`], and `control` limits further what is sent, in frames of up to `frame` bytes.
    pub fn controlled(
        timing: Timing,
        window: usize,
        (control, frame): (Control, u32),
        (sends_from, receives_from): (u64, u64),
    ) -> Stream<O, I> {
        let tx = Tx::new(timing, window, Controller::new(control, frame), sends_from);
        Stream { tx, rx: Rx::new(window, receives_from), ack_limit: None }
    }

    /// The far side acknowledges up to so long after a frame has come; waits are that much longer.
    pub fn expect_ack_delay(&mut self, delay: Duration) {
        self.tx.expect_ack_delay(delay);
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

    /// Items that have never been sent.
    pub fn waiting(&self) -> usize {
        self.tx.waiting()
    }

    /// Whether an acknowledgement that says so much is no news: everything had been acknowledged.
    pub fn is_settled(&self, ack: u32) -> bool {
        self.tx.is_settled(ack)
    }

    /// All items that have not been acknowledged. Their sizes are not to be changed.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut O> {
        self.tx.items_mut()
    }

    /// The number of the oldest item that has not been acknowledged.
    pub fn base(&self) -> u64 {
        self.tx.base()
    }

    /// The next item to send, with its number and that of this sending as they travel.
    pub fn next_out(&mut self, now: Time) -> Option<(Sending, &O)> {
        self.tx.next(now)
    }

    /// The acknowledgement to send: everything before this number has been taken.
    pub fn ack(&self) -> u32 {
        self.ack_limit.unwrap_or(u64::MAX).min(self.rx.ack()) as u32
    }

    /// Does not acknowledge the item of that number, nor any after it.
    pub fn refuse(&mut self, number: u64) {
        self.ack_limit = Some(number);
    }

    /// As [`Stream::refuse`], until it is told otherwise: what has been taken is not dealt with yet.
    pub fn hold(&mut self, number: Option<u64>) {
        self.ack_limit = number;
    }

    /// The number of the item that is taken next.
    pub fn next_in(&self) -> u64 {
        self.rx.ack()
    }

    /// All that is to be told to the sender: what [`Stream::ack`] tells, what has come out of its turn, and which
    /// sending came last.
    pub fn report(&self, now: Time) -> Report {
        self.report_within(Report::RANGES, now)
    }

    /// As [`Stream::report`], with at most so many ranges of items out of their turn.
    pub fn report_within(&self, ranges: usize, now: Time) -> Report {
        self.rx.report(self.ack_limit, ranges, now)
    }

    /// Whether items are here that have not been taken.
    pub fn has_early(&self) -> bool {
        self.rx.has_held()
    }

    /// Whether items are missing before one that has come.
    pub fn has_gap(&self) -> bool {
        self.rx.has_gap()
    }

    /// The frame that is about to be handed in came with a mark of congestion (ECN CE).
    pub fn marked(&mut self) {
        self.rx.marked();
    }

    /// An item has come by that sending.
    pub fn came(&mut self, sending: Sending, item: I, now: Time) -> Place {
        let next = self.rx.ack();
        let place = match expand(sending.number, next) {
            Some(number) if self.rx.came(number, item) => {
                if number == next {
                    Place::Next
                } else {
                    Place::Early
                }
            }
            _ => Place::Outside,
        };
        self.rx.saw(sending, now);
        place
    }

    /// The next item in order has come by that sending, and is taken at once; its number. `None` if it is not the next one,
    /// or is here already: then nothing is noted.
    pub fn came_next(&mut self, sending: Sending, now: Time) -> Option<u64> {
        let number = expand(sending.number, self.rx.ack())?;
        self.rx.came_next(number).then(|| {
            self.rx.saw(sending, now);
            number
        })
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

    /// An acknowledgement has come. Returns the first number not yet received in full; `None` if it acknowledges
    /// what has not been sent, which it is then not.
    pub fn acknowledged(&mut self, report: &Report, now: Time) -> Option<u64> {
        let ack = expand(report.next, self.tx.base())?;
        self.tx.acknowledged(ack, report, now).then_some(ack)
    }

    /// Bytes that have been sent, and have neither arrived nor been taken for lost.
    pub fn in_flight(&self) -> u64 {
        self.tx.in_flight()
    }

    /// How often in a row the oldest item has been sent again for want of any answer.
    pub fn tries(&self) -> u32 {
        self.tx.tries()
    }

    /// What has become of what was sent.
    pub fn counts(&self) -> Counts {
        self.tx.counts()
    }

    /// Bytes on the heap for this end's own state, used or kept for later. What its items keep there comes on top.
    pub fn heap_bytes(&self) -> usize {
        self.tx.heap_bytes() + self.rx.heap_bytes()
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
