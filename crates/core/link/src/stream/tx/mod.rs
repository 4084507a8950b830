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

/// Entries that stay allocated when nothing is in a queue.
const ENTRIES_KEPT: usize = 64;

/// Items to send, and items whose acknowledgement is awaited.
#[derive(Debug)]
pub(super) struct Tx<I> {
    timing: Timing,
    window: usize,
    /// Where what is like chance comes from: the first item's number, which is drawn at random for most streams.
    first: u64,
    /// Items from `base` on that the receiver says to keep, once it has said it.
    room: Option<usize>,
    /// How long the receiver may delay an acknowledgement.
    ack_delay: Duration,
    rtt: Rtt,
    rack: Rack,
    control: Controller,
    /// Items not acknowledged; the first has the number `base`, and the first `sent` of them have been sent.
    items: VecDeque<Entry<I>>,
    base: u64,
    sent: usize,
    /// Bytes that have been sent, and have neither arrived nor been taken for lost.
    in_flight: u64,
    /// Sendings in their order, with the numbers of their items; some do not count any more.
    order: VecDeque<(u64, u64)>,
    /// Items taken for lost; some have been sent again or arrived since.
    again: VecDeque<u64>,
    /// The next transmission's number.
    transmission: u64,
    /// What the last report told of.
    held: Vec<Range<u64>>,
    /// One more than the highest number that has arrived, and how many have out of their turn.
    arrived_end: u64,
    early: usize,
    /// The item that is sent whatever limits there are, to find out what has arrived.
    probe: Option<Probe>,
    /// The end of this flight has been probed.
    is_probed: bool,
    tries: u32,
    /// When the oldest item is sent again, the end of the flight is probed, and more counts as lost.
    last_resort_at: Option<Time>,
    probe_at: Option<Time>,
    loss_at: Option<Time>,
    counts: Counts,
}

/// What has become of a stream's sendings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All sendings.
    pub sent: u64,
    /// Those of items that had been sent before.
    pub again: u64,
    /// Items taken for lost.
    pub lost: u64,
    /// Items taken for lost that were not, as far as is known.
    pub mistaken: u64,
    /// Times that nothing was heard for so long that the oldest item was sent again.
    pub timeouts: u64,
    /// Frames that the receiver says to have come with a mark of congestion, modulo 2^32.
    pub marked: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Oldest,
    Newest,
}

/// What has become of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has not been sent.
    Waiting,
    Flying,
    /// It is taken for lost, and to be sent again.
    Lost,
    /// It has arrived, and may be forgotten once all before it have.
    Arrived,
}

#[derive(Debug)]
struct Entry<I> {
    item: I,
    bytes: u32,
    fate: Fate,
    /// It has been taken for lost.
    was_lost: bool,
    sendings: u32,
    /// The last sending.
    transmission: u64,
    sent_at: Time,
    snapshot: Snapshot,
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

impl<I: Load> Tx<I> {
    /// An empty half of which `window` items may be on their way; the first has the number `first`.
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

    /// Whether everything has been acknowledged, as a frame with that acknowledgement says as well.
    pub(super) fn is_settled(&self, ack: u32) -> bool {
        self.items.is_empty() && ack == self.base as u32
    }

    /// Items that have not been acknowledged.
    pub(super) fn backlog(&self) -> usize {
        self.items.len()
    }

    /// Items that have never been sent.
    pub(super) fn waiting(&self) -> usize {
        self.items.len() - self.sent
    }

    pub(super) fn items_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.items.iter_mut().map(|entry| &mut entry.item)
    }

    /// Entries of the queue that stay allocated.
    #[cfg(test)]
    pub(super) fn entries_kept(&self) -> usize {
        self.items.capacity()
    }

    /// Bytes of all queues as far as they are allocated, and of what the controller keeps.
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

    /// Appends the last item, instead of those that have never been sent. It goes out at once,
    /// window or not: the far side may listen to nothing else any more.
    pub(super) fn finish(&mut self, item: I) {
        self.items.truncate(self.sent);
        self.push(item);
        self.window = self.sent + 1;
        self.room = None;
        self.probe = Some(Probe::Newest);
    }

    /// Items from `base` on that may have been sent.
    fn limit(&self) -> usize {
        self.items.len().min(self.room.map_or(self.window, |room| room.min(self.window)))
    }

    /// The place of the next item to send: one that is lost, or a new one.
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

    /// The place of the item that is sent to find out what has arrived.
    fn probed(&self, probe: Probe) -> Option<usize> {
        match probe {
            Probe::Oldest => (self.sent > 0).then_some(0),
            Probe::Newest if self.sent < self.limit() => Some(self.sent),
            Probe::Newest => {
                (0..self.sent).rev().find(|&place| self.items[place].fate != Fate::Arrived)
            }
        }
    }

    /// The next item to send, with its number and its transmission's.
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

    /// How long any answer is awaited. After the first wait in vain it is up to half longer, by something like chance which is
    /// the same in each run: many streams that a full queue has hit at the same moment would otherwise come again at the same
    /// moment each time, and fill it again.
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

    /// The last wait begins now.
    fn await_any_answer(&mut self, now: Time) {
        self.last_resort_at = Some(now.after(self.last_wait()));
    }

    /// Something has been sent.
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

    /// The number of the oldest item that is not acknowledged.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Something has arrived: every wait begins anew.
    fn progressed(&mut self, now: Time) {
        self.tries = 0;
        self.is_probed = false;
        (self.last_resort_at, self.probe_at) = (None, None);
        if self.sent > 0 {
            self.set_timers(now);
        }
    }

    /// Nothing is left to send: queues are empty, and keep little memory.
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

    /// When something is to be done if no acknowledgement comes.
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

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Time) -> Verdict {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.loss_at) && self.find_lost(now) {
            // What is sent again has a time of its own to be answered in.
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
            // The probe has a time of its own to be answered in.
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
