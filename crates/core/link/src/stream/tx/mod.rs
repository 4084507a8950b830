//! The sending half of an end.

mod acks;

use super::WINDOW_MAX;
use super::control::{Controller, Snapshot};
use super::load::Load;
use super::rack::Rack;
use super::rtt::{Rtt, Timing};
use crate::Time;
use crate::wire::Sending;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

/// Number of entries that stay allocated while the queues are empty.
const ENTRIES_KEPT: usize = 64;

/// Items that wait to be sent, and sent items that wait for an acknowledgement.
#[derive(Debug)]
pub(super) struct Tx<I> {
    timing: Timing,
    window: usize,
    /// Seed of the pseudo-random waits: the first item's number, which is random for most streams.
    first: u64,
    /// Number of items from `base` on that the receiver accepts; `None` until the receiver has reported its window.
    room: Option<usize>,
    /// Longest time for which the receiver may delay an acknowledgement.
    ack_delay: Duration,
    rtt: Rtt,
    rack: Rack,
    control: Controller,
    /// Items not acknowledged. The first item has the number `base`, and the first `sent` items have been sent.
    items: VecDeque<Entry<I>>,
    base: u64,
    sent: usize,
    /// Bytes that have been sent, and have neither arrived nor been declared lost.
    in_flight: u64,
    /// Transmissions in the order of sending, with the numbers of their items. Some entries are outdated.
    order: VecDeque<(u64, u64)>,
    /// Numbers of items declared lost. Some have been sent again or have arrived since.
    again: VecDeque<u64>,
    /// The next transmission's number.
    transmission: u64,
    /// Ranges of arrived items in the last report.
    held: Vec<Range<u64>>,
    /// `arrived_end` is one more than the highest number that has arrived. `early` is the number of items that arrived
    /// out of order.
    arrived_end: u64,
    early: usize,
    /// Item to send regardless of all limits, to learn what has arrived.
    probe: Option<Probe>,
    /// Set once the end of this flight has been probed.
    is_probed: bool,
    tries: u32,
    /// Times to send the oldest item again (`last_resort_at`), to probe the end of the flight, and to look for further
    /// losses.
    last_resort_at: Option<Time>,
    probe_at: Option<Time>,
    loss_at: Option<Time>,
    counts: Counts,
}

/// Counts of a stream's transmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All transmissions.
    pub sent: u64,
    /// Transmissions of items that had been sent before.
    pub again: u64,
    /// Transmissions declared lost.
    pub lost: u64,
    /// Items declared lost although they later proved to have arrived.
    pub mistaken: u64,
    /// Number of times that the oldest item was sent again because no answer came.
    pub timeouts: u64,
    /// Frames that arrived with a congestion mark, as the receiver reports, modulo 2^32.
    pub marked: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Oldest,
    Newest,
}

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not yet sent.
    Waiting,
    Flying,
    /// Declared lost. The item must be sent again.
    Lost,
    /// Arrived. The entry is removed once all items before it have arrived.
    Arrived,
}

#[derive(Debug)]
struct Entry<I> {
    item: I,
    bytes: u32,
    fate: Fate,
    /// Set once the item has been declared lost.
    was_lost: bool,
    sendings: u32,
    /// Number of the last transmission of this item.
    transmission: u64,
    sent_at: Time,
    snapshot: Snapshot,
}

/// Result of `Tx::tick`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to do yet.
    Patience,
    /// Items must be sent again.
    Again,
    /// The peer no longer answers.
    Hopeless,
}

impl<I: Load> Tx<I> {
    /// Creates an empty half with a window of `window` items. The first item has the number `first`.
    pub(super) fn new(timing: Timing, window: usize, control: Controller, first: u64) -> Tx<I> {
        Tx {
            timing,
            window: window.clamp(1, WINDOW_MAX),
            first,
            room: None,
            ack_delay: Duration::ZERO,
            rtt: Rtt::new(),
            rack: Rack::new(),
            control,
            items: VecDeque::new(),
            base: first,
            sent: 0,
            in_flight: 0,
            order: VecDeque::new(),
            again: VecDeque::new(),
            transmission: 0,
            held: Vec::new(),
            arrived_end: first,
            early: 0,
            probe: None,
            is_probed: false,
            tries: 0,
            last_resort_at: None,
            probe_at: None,
            loss_at: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn expect_ack_delay(&mut self, delay: Duration) {
        self.ack_delay = delay;
    }

    /// Appends an item and returns its number.
    pub(super) fn push(&mut self, item: I) -> u64 {
        let bytes = item.bytes();
        self.items.push_back(Entry {
            item,
            bytes,
            fate: Fate::Waiting,
            was_lost: false,
            sendings: 0,
            transmission: 0,
            sent_at: Time::ZERO,
            snapshot: Snapshot::default(),
        });
        self.base + self.items.len() as u64 - 1
    }

    /// Returns true if all items have been acknowledged and `ack` acknowledges nothing new.
    pub(super) fn is_settled(&self, ack: u32) -> bool {
        self.items.is_empty() && ack == self.base as u32
    }

    /// Number of items that have not been acknowledged.
    pub(super) fn backlog(&self) -> usize {
        self.items.len()
    }

    /// Number of items that have never been sent.
    pub(super) fn waiting(&self) -> usize {
        self.items.len() - self.sent
    }

    pub(super) fn items_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.items.iter_mut().map(|entry| &mut entry.item)
    }

    /// Number of entries for which the queue has memory.
    #[cfg(test)]
    pub(super) fn entries_kept(&self) -> usize {
        self.items.capacity()
    }

    /// Number of heap bytes allocated for the queues and the congestion controller.
    pub(super) fn heap_bytes(&self) -> usize {
        self.items.capacity() * size_of::<Entry<I>>()
            + self.order.capacity() * size_of::<(u64, u64)>()
            + self.again.capacity() * size_of::<u64>()
            + self.held.capacity() * size_of::<Range<u64>>()
            + self.control.heap_bytes()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Replaces the items that have never been sent by a last item. The last item goes out at once, even beyond the
    /// window, because the peer may already ignore everything else.
    pub(super) fn finish(&mut self, item: I) {
        self.items.truncate(self.sent);
        self.push(item);
        self.window = self.sent + 1;
        self.room = None;
        self.probe = Some(Probe::Newest);
    }

    /// Number of items from `base` on that may have been sent.
    fn limit(&self) -> usize {
        self.items.len().min(self.room.map_or(self.window, |room| room.min(self.window)))
    }

    /// Returns the index of the next item to send: a lost item, or else a new one.
    fn candidate(&mut self) -> Option<usize> {
        while let Some(&number) = self.again.front() {
            let place = number.checked_sub(self.base).map(|place| place as usize);
            match place.filter(|&place| self.items[place].fate == Fate::Lost) {
                Some(place) => return Some(place),
                None => drop(self.again.pop_front()),
            }
        }
        (self.sent < self.limit()).then_some(self.sent)
    }

    /// Returns the index of the item that the probe sends.
    fn probed(&self, probe: Probe) -> Option<usize> {
        match probe {
            Probe::Oldest => (self.sent > 0).then_some(0),
            Probe::Newest if self.sent < self.limit() => Some(self.sent),
            Probe::Newest => {
                (0..self.sent).rev().find(|&place| self.items[place].fate != Fate::Arrived)
            }
        }
    }

    /// Returns the next item to send, with its number and the transmission's number.
    pub(super) fn next(&mut self, now: Time) -> Option<(Sending, &I)> {
        if let Some(place) = self.probe.take().and_then(|probe| self.probed(probe)) {
            return Some(self.send(place, now));
        }
        let Some(place) = self.candidate() else {
            if !self.control.is_full(self.in_flight) {
                self.control.starved(self.in_flight);
            }
            return None;
        };
        if self.control.is_full(self.in_flight) || self.control.next_at() > now {
            return None;
        }
        Some(self.send(place, now))
    }

    fn send(&mut self, place: usize, now: Time) -> (Sending, &I) {
        let entry = &mut self.items[place];
        let was_in_flight = self.in_flight;
        if matches!(entry.fate, Fate::Waiting | Fate::Lost) {
            self.in_flight += u64::from(entry.bytes);
            entry.fate = Fate::Flying;
        }
        entry.snapshot = self.control.sent(entry.bytes, was_in_flight, now);
        entry.sent_at = now;
        entry.sendings += 1;
        entry.transmission = self.transmission;
        self.counts.sent += 1;
        self.counts.again += u64::from(entry.sendings > 1);
        let number = self.base + place as u64;
        let sending = Sending { number: number as u32, transmission: self.transmission as u32 };
        self.order.push_back((self.transmission, number));
        self.transmission += 1;
        self.sent = self.sent.max(place + 1);
        self.set_timers(now);
        (sending, &self.items[place].item)
    }

    /// Returns how long to wait for any answer before the oldest item is sent again.
    ///
    /// From the first time-out on, a pseudo-random part lengthens the wait by up to half. The part is the same in each
    /// run. Without this part, many streams that lost frames in the same full queue would retransmit at the same moment
    /// and fill the queue again.
    fn last_wait(&self) -> Duration {
        let wait = self.rtt.wait(&self.timing, self.tries) + self.ack_delay;
        if self.tries == 0 {
            return wait;
        }
        let drawn = (self.first ^ self.transmission.rotate_left(32)).wrapping_add(1);
        let drawn = (drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ drawn >> 29)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            >> 54;
        wait + wait / 2 * drawn as u32 / 1024
    }

    /// Starts the wait for any answer.
    fn await_any_answer(&mut self, now: Time) {
        self.last_resort_at = Some(now.after(self.last_wait()));
    }

    /// Sets the timers after a transmission.
    fn set_timers(&mut self, now: Time) {
        if self.last_resort_at.is_none() {
            self.await_any_answer(now);
        }
        self.probe_at = match self.rtt.probe_wait(&self.timing) {
            Some(wait) if !self.is_probed && self.tries == 0 => {
                let alone = self.sent - self.early.min(self.sent) == 1;
                let at = now.plus(wait);
                Some(if alone { at.after(self.ack_delay) } else { at })
            }
            _ => None,
        };
    }

    /// Returns the number of the oldest item that is not acknowledged.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Restarts every wait, because an item has arrived.
    fn progressed(&mut self, now: Time) {
        self.tries = 0;
        self.is_probed = false;
        (self.last_resort_at, self.probe_at) = (None, None);
        if self.sent > 0 {
            self.set_timers(now);
        }
    }

    /// Empties the queues and frees most of their memory. Call it when no item is left.
    fn rest(&mut self) {
        (self.last_resort_at, self.probe_at, self.loss_at) = (None, None, None);
        self.order.clear();
        self.again.clear();
        self.held = Vec::new();
        self.early = 0;
        if self.items.capacity().max(self.order.capacity()) > 2 * ENTRIES_KEPT {
            self.items.shrink_to(ENTRIES_KEPT);
            self.order.shrink_to(ENTRIES_KEPT);
            self.again.shrink_to(ENTRIES_KEPT);
        }
    }

    /// Returns when to call [`Tx::tick`] if no acknowledgement comes.
    pub(super) fn deadline(&self) -> Option<Time> {
        let waits = !self.again.is_empty() || self.sent < self.limit();
        let pace = (waits && !self.control.is_full(self.in_flight))
            .then(|| self.control.next_at())
            .filter(|&at| at > Time::ZERO);
        let sooner = |one: Option<Time>, other: Option<Time>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        };
        sooner(sooner(self.last_resort_at, self.probe_at), sooner(self.loss_at, pace))
    }

    /// Fires the timers that are due at `now`.
    pub(super) fn tick(&mut self, now: Time) -> Verdict {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.loss_at) && self.find_lost(now) {
            // Restart the wait: the retransmitted items get the full time for an answer.
            if is_due(self.probe_at) {
                self.probe_at = None;
            }
            if is_due(self.last_resort_at) {
                self.await_any_answer(now);
            }
            return Verdict::Again;
        }
        if is_due(self.probe_at) {
            self.probe_at = None;
            self.is_probed = true;
            self.probe = Some(Probe::Newest);
            // Restart the wait: the probe gets the full time for an answer.
            self.await_any_answer(now);
            return Verdict::Again;
        }
        if is_due(self.last_resort_at) {
            if self.timing.tries == Some(self.tries) {
                return Verdict::Hopeless;
            }
            self.tries = self.tries.saturating_add(1);
            self.counts.timeouts += 1;
            self.probe = Some(Probe::Oldest);
            self.probe_at = None;
            self.await_any_answer(now);
            self.control.timed_out();
            return Verdict::Again;
        }
        Verdict::Patience
    }
}
