//! The receiving half of an end.

use super::WINDOW_MAX;
use crate::Time;
use crate::wire::{Held, Report, Seen, Sending};
use core::ops::Range;
use std::collections::VecDeque;

/// Number of slots that stay allocated while all are empty.
const SLOTS_KEPT: usize = 64;

/// Arrived items that have not been taken: those in order, and those ahead of a gap.
#[derive(Debug)]
pub(super) struct Rx<I> {
    window: u64,
    /// Number of the item to be taken next.
    next: u64,
    /// Items from `next` on, up to the last that has arrived.
    slots: VecDeque<Option<I>>,
    /// Numbers of the items in the slots: sorted ranges with gaps between them.
    held: Vec<Range<u64>>,
    /// Number of the item that arrived last.
    latest: u64,
    /// The transmission that arrived last, and its time of arrival.
    seen: Option<(Sending, Time)>,
    /// Number of frames that arrived with a congestion mark.
    marked: Option<u32>,
}

impl<I> Rx<I> {
    /// Creates an empty half that keeps items up to `window` ahead of the next one. The first item has the number
    /// `first`.
    pub(super) fn new(window: usize, first: u64) -> Rx<I> {
        let window = window.clamp(1, WINDOW_MAX) as u64;
        let (slots, held) = (VecDeque::new(), Vec::new());
        Rx { window, next: first, slots, held, latest: first, seen: None, marked: None }
    }

    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// Stores an arrived item. Returns false and drops the item if it was taken before, or is beyond the window. The
    /// stream's last item may be one position beyond the window.
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

    /// Receives and takes the next item in order without storing it. Returns false if `number` is not the next number,
    /// or if the item is stored already.
    pub(super) fn came_next(&mut self, number: u64) -> bool {
        if number != self.next || self.peek().is_some() {
            return false;
        }
        // Removes the item's empty slot, which exists if later items have arrived.
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

    /// Records the transmission of an arrived item, even if the item was dropped.
    pub(super) fn saw(&mut self, sending: Sending, now: Time) {
        self.seen = Some((sending, now));
    }

    /// Counts a frame that arrived with a congestion mark.
    pub(super) fn marked(&mut self) {
        self.marked = Some(self.marked.unwrap_or(0).wrapping_add(1));
    }

    /// Number of heap bytes allocated for the slots and ranges.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<I>>()
            + self.held.capacity() * size_of::<Range<u64>>()
    }

    /// Returns true if items are in the slots.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns true while an arrived item has missing predecessors.
    pub(super) fn has_gap(&self) -> bool {
        self.held.last().is_some_and(|range| range.start > self.next)
    }

    /// Returns the next item in order, if it has arrived.
    pub(super) fn peek(&self) -> Option<&I> {
        self.slots.front()?.as_ref()
    }

    /// Takes the next item in order, with its number. From now on the item counts as received.
    pub(super) fn take(&mut self) -> Option<(u64, I)> {
        let item = self.remove()?;
        self.slots.pop_front();
        if self.slots.is_empty() && self.slots.capacity() > SLOTS_KEPT {
            self.slots.shrink_to(SLOTS_KEPT);
        }
        self.next += 1;
        Some((self.next - 1, item))
    }

    /// Takes the item out of the first slot, and leaves the slot empty.
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

    /// Discards the next item in order, as if it had not arrived.
    pub(super) fn discard(&mut self) {
        self.remove();
    }

    /// Returns the acknowledgement: all items before this number have been taken.
    pub(super) fn ack(&self) -> u64 {
        self.next
    }

    /// Returns a report for the sender, with at most `ranges` ranges. The report leaves out items from `limit` on.
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
        // Reports the ranges up to the newest arrival, and later ranges if there is room. So each range appears in
        // several reports.
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
