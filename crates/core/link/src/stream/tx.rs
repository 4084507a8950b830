//! The sending half of an end.

use super::WINDOW_MAX;
use super::control::{Acked, Controller, Sample, Snapshot};
use super::load::Load;
use super::rack::Rack;
use super::rtt::{Rtt, Timing};
use crate::Time;
use crate::sequence::expand;
use crate::wire::{Report, Seen, Sending};
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

/// What one acknowledgement tells, while it is taken apart.
struct Hearing {
    now: Time,
    seen: Option<Seen>,
    bytes: u64,
    /// The transmission of the newest, and its place until that changes; then the rest of what it says.
    newest: Option<(u64, usize)>,
    sample: Option<Sample>,
    /// The round trip of the newest that was sent only once.
    karn: Option<(u64, u64)>,
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

    /// Everything before number `ack` has been received, and of what follows what the report says. False if so much
    /// has not been sent; it is then ignored.
    pub(super) fn acknowledged(&mut self, ack: u64, report: &Report, now: Time) -> bool {
        let count = ack.saturating_sub(self.base);
        if count > self.sent as u64 {
            return false;
        }
        let in_flight_before = self.in_flight;
        let mut hearing =
            Hearing { now, seen: report.seen, bytes: 0, newest: None, sample: None, karn: None };
        let mut rtt = self.echoed(report.seen, now);
        for place in 0..count as usize {
            self.arrived(place, &mut hearing);
        }
        self.sample(&mut hearing);
        self.items.drain(..count as usize);
        self.base += count;
        self.sent -= count as usize;
        if ack >= self.base {
            self.hear_ranges(ack, report, &mut hearing);
            self.sample(&mut hearing);
            if report.room > 0 {
                self.room = Some(report.room as usize);
            }
        }
        self.counts.marked = report.marked.unwrap_or(self.counts.marked);
        if rtt.is_none()
            && let Some((_, sample)) = hearing.karn
        {
            self.rtt.measured(sample, now);
            rtt = Some(sample);
        }
        self.find_lost(now);
        if hearing.bytes > 0 || count > 0 {
            self.progressed(now);
        }
        let (bytes, sample) = (hearing.bytes, hearing.sample);
        let in_flight = self.in_flight;
        self.control.acknowledged(&Acked { now, bytes, in_flight_before, in_flight, sample, rtt });
        if self.items.is_empty() {
            self.rest();
        }
        true
    }

    /// The round trip of the sending that the far side says to have come last.
    fn echoed(&mut self, seen: Option<Seen>, now: Time) -> Option<u64> {
        let Seen { sending, delay } = seen?;
        let transmission = expand(sending.transmission, self.transmission)?;
        if transmission >= self.transmission {
            return None;
        }
        self.rack.passed(transmission);
        let place = expand(sending.number, self.base)?.checked_sub(self.base)? as usize;
        let entry = self.items.get(place).filter(|_| place < self.sent)?;
        if entry.transmission != transmission {
            // An earlier sending has arrived of what was sent again.
            if entry.was_lost && entry.fate != Fate::Arrived {
                self.counts.mistaken += 1;
                self.rack.mistaken(self.transmission);
            }
            return None;
        }
        let took = now.nanos_since(entry.sent_at);
        // A receiver cannot have delayed longer than it all took.
        let sample = took.checked_sub(delay.into())?;
        self.rtt.measured(sample, now);
        Some(sample)
    }

    /// An item has arrived, as far as this end is told for the first time.
    fn arrived(&mut self, place: usize, hearing: &mut Hearing) {
        let number = self.base + place as u64;
        let entry = &mut self.items[place];
        match entry.fate {
            Fate::Arrived => {
                self.early = self.early.saturating_sub(1);
                return;
            }
            Fate::Flying => self.in_flight -= u64::from(entry.bytes),
            Fate::Lost if entry.sendings == 1 => {
                self.counts.mistaken += 1;
                self.rack.mistaken(self.transmission);
            }
            Fate::Lost | Fate::Waiting => {}
        }
        entry.fate = Fate::Arrived;
        hearing.bytes += u64::from(entry.bytes);
        let took = hearing.now.nanos_since(entry.sent_at);
        // Of what was sent several times, whether the last sending has arrived, if the report says it.
        let echoed = hearing.seen.filter(|seen| seen.sending.number == number as u32);
        let is_last = echoed.map(|seen| seen.sending.transmission == entry.transmission as u32);
        if entry.sendings == 1 {
            if number < self.arrived_end {
                self.rack.reordered();
            }
            if hearing.karn.is_none_or(|(newest, _)| newest < entry.transmission) {
                hearing.karn = Some((entry.transmission, took));
            }
        }
        self.arrived_end = self.arrived_end.max(number + 1);
        // If it was an earlier sending, the last one says nothing about those before it.
        if entry.sendings == 1 || is_last.unwrap_or(took >= self.rtt.shortest()) {
            self.rack.arrived(entry.transmission, took);
        }
        if hearing.newest.is_none_or(|(newest, _)| newest < entry.transmission) {
            hearing.newest = Some((entry.transmission, place));
        }
    }

    /// Takes what the newest says, before it is forgotten, if it is newer than what has been taken before.
    fn sample(&self, hearing: &mut Hearing) {
        if let Some((newest, place)) = hearing.newest.take()
            && hearing.sample.is_none_or(|sample| sample.transmission < newest)
        {
            let Entry { transmission, sent_at, snapshot, .. } = self.items[place];
            hearing.sample = Some(Sample { transmission, sent_at, snapshot });
        }
    }

    /// What has come out of its turn. What the report before told of is not looked at again.
    fn hear_ranges(&mut self, ack: u64, report: &Report, hearing: &mut Hearing) {
        if report.ranges().is_empty() {
            self.held = Vec::new();
            return;
        }
        let mut end = ack;
        let mut known = core::mem::take(&mut self.held).into_iter().peekable();
        let mut held = Vec::new();
        for range in report.ranges() {
            let start = end + u64::from(range.skip);
            end = start + u64::from(range.length);
            let told_end = end.min(self.base + self.sent as u64);
            let mut number = start.max(self.base);
            while number < told_end {
                while known.peek().is_some_and(|known| known.end <= number) {
                    known.next();
                }
                let next = known.peek().cloned().unwrap_or(u64::MAX..u64::MAX);
                if next.contains(&number) {
                    number = next.end;
                    continue;
                }
                for number in number..told_end.min(next.start) {
                    let place = (number - self.base) as usize;
                    if self.items[place].fate != Fate::Arrived {
                        self.arrived(place, hearing);
                        self.early += 1;
                    }
                }
                number = told_end.min(next.start);
            }
            if start < told_end {
                held.push(start..told_end);
            }
        }
        self.held = held;
    }

    /// Takes for lost what was sent long enough before something that has arrived.
    fn find_lost(&mut self, now: Time) -> bool {
        let patience = self.rack.patience(&self.rtt, self.early);
        let before = self.counts.lost;
        self.loss_at = None;
        while let Some(&(transmission, number)) = self.order.front() {
            let place = number.checked_sub(self.base).map(|place| place as usize);
            let entry = place
                .and_then(|place| self.items.get_mut(place))
                .filter(|entry| entry.transmission == transmission && entry.fate == Fate::Flying);
            if let Some(entry) = entry {
                if !self.rack.has_passed(transmission) {
                    break;
                }
                let due = entry.sent_at.plus(patience);
                if due > now {
                    self.loss_at = Some(due);
                    break;
                }
                (entry.fate, entry.was_lost) = (Fate::Lost, true);
                self.in_flight -= u64::from(entry.bytes);
                self.counts.lost += 1;
                self.control.lost(&entry.snapshot, entry.bytes);
                self.again.push_back(number);
            }
            self.order.pop_front();
        }
        let has_lost = self.counts.lost > before;
        if has_lost {
            self.rack.recovers(self.transmission);
        }
        has_lost
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
