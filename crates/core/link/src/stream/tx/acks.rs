//! Processes acknowledgements from the receiver: marks entries as arrived or lost.

use super::super::control::{Acked, Sample};
use super::super::load::Load;
use super::{Entry, Fate, Tx};
use crate::Time;
use crate::sequence::expand;
use crate::wire::{Report, Seen};

/// Results collected while one acknowledgement is processed.
struct Hearing {
    now: Time,
    seen: Option<Seen>,
    bytes: u64,
    /// Transmission number of the newest arrived item, and the item's index in `items`. [`Tx::sample`] takes it before
    /// the index changes.
    newest: Option<(u64, usize)>,
    sample: Option<Sample>,
    /// Transmission number and round trip of the newest item that was sent only once (Karn's algorithm).
    karn: Option<(u64, u64)>,
}

impl<I: Load> Tx<I> {
    /// Processes an acknowledgement: all items before `ack` have been received, and of later items those in the report.
    /// Returns false and ignores the acknowledgement if it covers items that have not been sent.
    pub(in crate::stream) fn acknowledged(&mut self, ack: u64, report: &Report, now: Time) -> bool {
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

    /// Measures the round trip of the transmission that the receiver reports as the last to arrive.
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
            // An earlier transmission of a retransmitted item has arrived.
            if entry.was_lost && entry.fate != Fate::Arrived {
                self.counts.mistaken += 1;
                self.rack.mistaken(self.transmission);
            }
            return None;
        }
        let took = now.nanos_since(entry.sent_at);
        // A receiver cannot have delayed its answer longer than the whole round trip.
        let sample = took.checked_sub(delay.into())?;
        self.rtt.measured(sample, now);
        Some(sample)
    }

    /// Marks an item as arrived. Does nothing more if an earlier report covered the item.
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
        // For a retransmitted item: true if the last transmission has arrived. `None` if the report does not say.
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
        // If an earlier transmission arrived, the last transmission proves nothing about those before it.
        if entry.sendings == 1 || is_last.unwrap_or(took >= self.rtt.shortest()) {
            self.rack.arrived(entry.transmission, took);
        }
        if hearing.newest.is_none_or(|(newest, _)| newest < entry.transmission) {
            hearing.newest = Some((entry.transmission, place));
        }
    }

    /// Stores the rate sample of the newest arrived item if it is newer than the stored sample.
    fn sample(&self, hearing: &mut Hearing) {
        if let Some((newest, place)) = hearing.newest.take()
            && hearing.sample.is_none_or(|sample| sample.transmission < newest)
        {
            let Entry { transmission, sent_at, snapshot, .. } = self.items[place];
            hearing.sample = Some(Sample { transmission, sent_at, snapshot });
        }
    }

    /// Marks the items in the report's ranges as arrived. Skips ranges that the previous report contained.
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

    /// Declares transmissions lost if a later transmission has arrived and their reordering time has passed. Returns
    /// true if there are any.
    pub(super) fn find_lost(&mut self, now: Time) -> bool {
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
}
