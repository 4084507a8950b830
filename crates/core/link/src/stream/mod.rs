//! A stream of items in each direction, in order and exactly once, over frames that may be lost, duplicated or
//! reordered.
//!
//! The module is a state machine: frames and the time go in, frames and a deadline come out. The stream numbers and
//! acknowledges items, retransmits lost items, and limits the bytes in flight.
//!
//! [`Stream`] is one end: its sending half (`tx`) and its receiving half (`rx`). RACK (`rack`) detects losses from
//! reports of items that arrived out of order. The sender probes the end of a flight once. If no answer comes, the
//! sender retransmits the oldest item, with waits that double. [`Control`] says what else limits the sending half.

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

/// The largest window: a small part of the range of a 32-bit number, so that truncated numbers stay unambiguous.
const WINDOW_MAX: usize = 1 << 24;

/// One end of a stream: sends items `O`, receives items `I`. Numbers have 64 bits here; frames carry the lower 32 bits.
#[derive(Debug)]
pub struct Stream<O, I> {
    tx: Tx<O>,
    rx: Rx<I>,
    /// Upper limit of the acknowledgement, if there is one.
    ack_limit: Option<u64>,
}

/// How an arrived item relates to the next expected item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The next item in order.
    Next,
    /// A later item. The stream keeps the item until its predecessors have arrived.
    Early,
    /// An item that arrived before, or is beyond the window. The stream drops the item.
    Outside,
}

impl<O: Load, I> Stream<O, I> {
    /// Creates an end with a window of `window` items. The first outgoing item has the number `sends_from`, and the
    /// peer's first item has the number `receives_from`.
    pub fn new(
        timing: Timing,
        window: usize,
        (sends_from, receives_from): (u64, u64),
    ) -> Stream<O, I> {
        Stream::controlled(timing, window, (Control::Fixed, 0), (sends_from, receives_from))
    }

    /// Like [`Stream::new`], but `control` also limits the sending half. Frames have up to `frame` bytes.
    pub fn controlled(
        timing: Timing,
        window: usize,
        (control, frame): (Control, u32),
        (sends_from, receives_from): (u64, u64),
    ) -> Stream<O, I> {
        let tx = Tx::new(timing, window, Controller::new(control, frame), sends_from);
        Stream { tx, rx: Rx::new(window, receives_from), ack_limit: None }
    }

    /// Adds `delay` to the waits for acknowledgements, because the receiver may delay each of them that long.
    pub fn expect_ack_delay(&mut self, delay: Duration) {
        self.tx.expect_ack_delay(delay);
    }

    /// Sets the number of the peer's first item. Call it before any item has arrived.
    pub(crate) fn receive_from(&mut self, first: u64) {
        self.rx = Rx::new(self.rx.window(), first);
    }

    /// Appends an item and returns its number.
    pub fn push(&mut self, item: O) -> u64 {
        self.tx.push(item)
    }

    /// Replaces all items that have never been sent by a last item. The last item goes out at once, even beyond the
    /// window.
    pub fn finish(&mut self, item: O) {
        self.tx.finish(item);
    }

    /// Number of items that have not been acknowledged.
    pub fn backlog(&self) -> usize {
        self.tx.backlog()
    }

    /// Number of items that have never been sent.
    pub fn waiting(&self) -> usize {
        self.tx.waiting()
    }

    /// Returns true if the acknowledgement `ack` changes nothing, because everything had been acknowledged.
    pub fn is_settled(&self, ack: u32) -> bool {
        self.tx.is_settled(ack)
    }

    /// Iterates over all items that have not been acknowledged. The caller must not change their sizes.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut O> {
        self.tx.items_mut()
    }

    /// Returns the number of the oldest item that has not been acknowledged.
    pub fn base(&self) -> u64 {
        self.tx.base()
    }

    /// Returns the next item to send, with the item's number and the transmission's number as the frame carries them.
    pub fn next_out(&mut self, now: Time) -> Option<(Sending, &O)> {
        self.tx.next(now)
    }

    /// Returns the acknowledgement to send: all items before this number have been taken.
    pub fn ack(&self) -> u32 {
        self.ack_limit.unwrap_or(u64::MAX).min(self.rx.ack()) as u32
    }

    /// Never acknowledges the item `number`, nor any item after it.
    pub fn refuse(&mut self, number: u64) {
        self.ack_limit = Some(number);
    }

    /// Like [`Stream::refuse`], until the next call: the caller has taken the items but has not processed them. `None`
    /// removes the limit.
    pub fn hold(&mut self, number: Option<u64>) {
        self.ack_limit = number;
    }

    /// Returns the number of the item that [`Stream::take`] takes next.
    pub fn next_in(&self) -> u64 {
        self.rx.ack()
    }

    /// Returns a full report for the sender: [`Stream::ack`], the items that arrived out of order, and the transmission
    /// that arrived last.
    pub fn report(&self, now: Time) -> Report {
        self.report_within(Report::RANGES, now)
    }

    /// Like [`Stream::report`], with at most `ranges` ranges of items that arrived out of order.
    pub fn report_within(&self, ranges: usize, now: Time) -> Report {
        self.rx.report(self.ack_limit, ranges, now)
    }

    /// Returns true while the stream holds arrived items that have not been taken.
    pub fn has_early(&self) -> bool {
        self.rx.has_held()
    }

    /// Returns true while an arrived item has missing predecessors.
    pub fn has_gap(&self) -> bool {
        self.rx.has_gap()
    }

    /// Notes that the next frame passed in carries a congestion mark (ECN CE). Call it before the frame's item is
    /// passed in.
    pub fn marked(&mut self) {
        self.rx.marked();
    }

    /// Passes in an item that arrived with the transmission `sending`.
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

    /// Receives and takes the next item in order at once, without storing it. Returns the item's number. Returns
    /// `None`, and records nothing, if the item is not the next one or has arrived before.
    pub fn came_next(&mut self, sending: Sending, now: Time) -> Option<u64> {
        let number = expand(sending.number, self.rx.ack())?;
        self.rx.came_next(number).then(|| {
            self.rx.saw(sending, now);
            number
        })
    }

    /// Returns the next item in order, if it has arrived.
    pub fn peek(&self) -> Option<&I> {
        self.rx.peek()
    }

    /// Takes the next item in order, with its number. From now on the item counts as received.
    pub fn take(&mut self) -> Option<(u64, I)> {
        self.rx.take()
    }

    /// Discards the next item in order as if it had never arrived. The peer will send it again.
    pub fn discard(&mut self) {
        self.rx.discard();
    }

    /// Processes an acknowledgement. Returns the first number not yet received in full. Returns `None` and ignores the
    /// acknowledgement if it covers items that have not been sent.
    pub fn acknowledged(&mut self, report: &Report, now: Time) -> Option<u64> {
        let ack = expand(report.next, self.tx.base())?;
        self.tx.acknowledged(ack, report, now).then_some(ack)
    }

    /// Number of bytes in flight: sent, and neither arrived nor declared lost.
    pub fn in_flight(&self) -> u64 {
        self.tx.in_flight()
    }

    /// Number of times in a row that the oldest item was sent again because no answer came.
    pub fn tries(&self) -> u32 {
        self.tx.tries()
    }

    /// Returns counts of transmissions and losses.
    pub fn counts(&self) -> Counts {
        self.tx.counts()
    }

    /// Number of heap bytes allocated for this end's own state. The items' own heap memory is not included.
    pub fn heap_bytes(&self) -> usize {
        self.tx.heap_bytes() + self.rx.heap_bytes()
    }

    /// Returns when to call [`Stream::tick`] if no acknowledgement comes.
    pub fn deadline(&self) -> Option<Time> {
        self.tx.deadline()
    }

    /// Fires the timers that are due at `now`.
    pub fn tick(&mut self, now: Time) -> Verdict {
        self.tx.tick(now)
    }
}

#[cfg(test)]
mod tests;
