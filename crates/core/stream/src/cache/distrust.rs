//! Mapped memory whose pages the kernel was about to discard when it sent the event.
//!
//! The kernel sends the event before it discards the pages, and does not report when it has finished. A program that
//! sends from the memory meanwhile, in another thread, would register the old pages. So the memory is not cached until
//! it is unmapped.

use core::ops::Range;

/// Number of separate ranges. Further ranges are merged.
const PLACES: usize = 32;

/// A set of addresses, which may contain more than was added, but never less.
#[derive(Debug, Default)]
pub(crate) struct Distrust {
    ranges: [Range<usize>; PLACES],
    count: usize,
}

impl Distrust {
    /// Returns true if part of the range is in the set.
    pub(crate) fn meets(&self, range: &Range<usize>) -> bool {
        self.ranges[..self.count].iter().any(|r| r.start < range.end && range.start < r.end)
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, mut range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        // Merge the range with ranges that it touches. If the set is full, merge it with the nearest range.
        loop {
            let near = (0..self.count).min_by_key(|&i| distance(&self.ranges[i], &range));
            match near.filter(|&i| self.count == PLACES || distance(&self.ranges[i], &range) == 0) {
                Some(i) => {
                    let other = self.take(i);
                    range = range.start.min(other.start)..range.end.max(other.end);
                }
                None => break,
            }
        }
        self.ranges[self.count] = range;
        self.count += 1;
    }

    /// Removes a range that has been unmapped or moved.
    pub(crate) fn remove(&mut self, gone: &Range<usize>) {
        for i in (0..self.count).rev() {
            let range = &mut self.ranges[i];
            if range.start >= gone.end || gone.start >= range.end {
                continue;
            }
            match (range.start >= gone.start, range.end <= gone.end) {
                (true, true) => drop(self.take(i)),
                (true, false) => range.start = gone.end,
                (false, true) => range.end = gone.start,
                // Removing the middle would leave two ranges, for which there may be no room.
                (false, false) => {}
            }
        }
    }

    fn take(&mut self, i: usize) -> Range<usize> {
        self.count -= 1;
        self.ranges.swap(i, self.count);
        core::mem::take(&mut self.ranges[self.count])
    }
}

/// Number of bytes between two ranges.
fn distance(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.start.max(b.start).saturating_sub(a.end.min(b.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// An address whose last change was an addition is always in the set.
        #[test]
        fn nothing_is_forgotten(
            told in prop::collection::vec((any::<bool>(), 0usize..400, 1usize..20), 0..200)
        ) {
            let mut distrust = Distrust::default();
            let mut model = [false; 420];
            for (add, start, len) in told {
                let range = start..start + len;
                model[range.clone()].fill(add);
                if add { distrust.add(range) } else { distrust.remove(&range) }
                for (at, &distrusted) in model.iter().enumerate() {
                    prop_assert!(distrust.meets(&(at..at + 1)) || !distrusted, "at {}", at);
                }
            }
            distrust.remove(&(0..420));
            prop_assert!(!distrust.meets(&(0..420)));
        }
    }

    #[test]
    fn few_ranges_are_kept_as_they_are() {
        let mut distrust = Distrust::default();
        (0..PLACES).for_each(|n| distrust.add(n * 10..n * 10 + 5));
        assert!(!distrust.meets(&(5..10)) && distrust.meets(&(4..5)) && distrust.meets(&(0..99)));
        distrust.remove(&(2..12));
        assert!(!distrust.meets(&(2..12)) && distrust.meets(&(1..2)) && distrust.meets(&(12..13)));
    }
}
