//! The receiving half of an end.

use super::WINDOW_MAX;
use crate::Time;
use crate::wire::{Held, Report, Seen, Sending};
use core::ops::Range;
use std::collections::VecDeque;

/// Slots that stay allocated when nothing is in them.
const SLOTS_KEPT: usize = 64;

/// Items in order, and those that came before their turn.
#[derive(Debug)]
pub(super) struct Rx<I> {
    window: u64,
    /// The number of the item to be taken next.
    next: u64,
    /// Items from `next` on, as far as one has come.
    slots: VecDeque<Option<I>>,
    /// The numbers of the items in the slots: sorted, with gaps between the ranges.
    held: Vec<Range<u64>>,
    /// The number that came last.
    latest: u64,
    /// The sending that came last, and when.
    seen: Option<(Sending, Time)>,
    /// Frames that came with a mark of congestion.
    marked: Option<u32>,
}

impl<I> Rx<I> {
    /// An empty half that keeps items which are up to `window` ahead; the first has the number `first`.
    pub(super) fn new(window: usize, first: u64) -> Rx<I> {
        let window = window.clamp(1, WINDOW_MAX) as u64;
        let (slots, held) = (VecDeque::new(), Vec::new());
        Rx { window, next: first, slots, held, latest: first, seen: None, marked: None }
    }

    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// An item has come; false if it came before, or comes far too early: it is dropped. The last item
    /// of all may come just behind the window.
    pub(super) fn came(&mut self, number: u64, item: I) -> bool {
        let fits = number >= self.next && number - self.next <= self.window;
        if !fits {
            return false;
        }
        let place = (number - self.next) as usize;
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, || None);
        }
        if self.slots[place].is_none() {
            self.slots[place] = Some(item);
            self.hold(number);
        }
        self.latest = number;
        true
    }

    /// The next item in order has come and is taken, without being kept; false if that is not its number, or if it is here
    /// already.
    pub(super) fn came_next(&mut self, number: u64) -> bool {
        if number != self.next || self.peek().is_some() {
            return false;
        }
        // Its place, where items behind it are here.
        self.slots.pop_front();
        self.latest = number;
        self.next += 1;
        true
    }

    /// Adds a number that is in no range.
    fn hold(&mut self, number: u64) {
        let place = self.held.partition_point(|range| range.end < number);
        let range_at = |place: usize| self.held.get(place).cloned().unwrap_or_default();
        let extends = !range_at(place).is_empty() && range_at(place).end == number;
        let after = place + usize::from(extends);
        let precedes = !range_at(after).is_empty() && range_at(after).start == number + 1;
        match (extends, precedes) {
            (true, true) => self.held[place].end = self.held.remove(after).end,
            (true, false) => self.held[place].end += 1,
            (false, true) => self.held[place].start = number,
            (false, false) => self.held.insert(place, number..number + 1),
        }
    }

    /// Notes the sending by which an item has come, whether it was kept or not.
    pub(super) fn saw(&mut self, sending: Sending, now: Time) {
        self.seen = Some((sending, now));
    }

    /// A frame has come with a mark of congestion.
    pub(super) fn marked(&mut self) {
        self.marked = Some(self.marked.unwrap_or(0).wrapping_add(1));
    }

    /// Bytes of the slots and ranges as far as they are allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<I>>()
            + self.held.capacity() * size_of::<Range<u64>>()
    }

    /// Whether items are in the slots.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether an item has come whose predecessors are missing.
    pub(super) fn has_gap(&self) -> bool {
        self.held.last().is_some_and(|range| range.start > self.next)
    }

    /// The next item in order.
    pub(super) fn peek(&self) -> Option<&I> {
        self.slots.front()?.as_ref()
    }

    /// Takes the next item in order, with its number. It counts as received with this.
    pub(super) fn take(&mut self) -> Option<(u64, I)> {
        let item = self.remove()?;
        self.slots.pop_front();
        if self.slots.is_empty() && self.slots.capacity() > SLOTS_KEPT {
            self.slots.shrink_to(SLOTS_KEPT);
        }
        self.next += 1;
        Some((self.next - 1, item))
    }

    /// Empties the first slot.
    fn remove(&mut self) -> Option<I> {
        let item = self.slots.front_mut()?.take()?;
        if let Some(first) = self.held.first_mut() {
            first.start += 1;
            if first.is_empty() {
                self.held.remove(0);
            }
        }
        Some(item)
    }

    /// Forgets the next item in order, as if it had not come.
    pub(super) fn discard(&mut self) {
        self.remove();
    }

    /// What to acknowledge: everything before this number has been taken.
    pub(super) fn ack(&self) -> u64 {
        self.next
    }

    /// What to tell the sender, with at most `ranges` ranges. Items from `limit` on are not told of.
    pub(super) fn report(&self, limit: Option<u64>, ranges: usize, now: Time) -> Report {
        let next = limit.unwrap_or(u64::MAX).min(self.next);
        let mut report = Report::plain(next as u32);
        report.room = self.window as u32;
        report.marked = self.marked;
        report.seen = self.seen.map(|(sending, at)| {
            let delay = u32::try_from(now.since(at).as_nanos()).unwrap_or(u32::MAX);
            Seen { sending, delay }
        });
        if limit.is_some() || self.held.is_empty() {
            return report;
        }
        // Those up to the newest, and if that leaves room, what is behind it: each is told of several times.
        let newest = self.held.partition_point(|range| range.end <= self.latest);
        let count = ranges.min(Report::RANGES).min(self.held.len());
        let first = (newest + 1).saturating_sub(count).min(self.held.len() - count);
        let mut end = next;
        for range in &self.held[first..first + count] {
            let (skip, length) = ((range.start - end) as u32, (range.end - range.start) as u32);
            if !report.push(Held { skip, length }) {
                break;
            }
            end = range.end;
        }
        report
    }
}
