//! Reads acknowledgements of the receiver: which entries have arrived, and which are lost.

use super::super::control::{Acked, Sample};
use super::super::load::Load;
use super::{Entry, Fate, Tx};
use crate::Time;
use crate::sequence::expand;
use crate::wire::{Report, Seen};

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
    /// Everything before number `ack` has been received, and of what follows what the report says. False if so much
    /// has not been sent; it is then ignored.
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
