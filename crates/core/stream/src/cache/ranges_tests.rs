use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BOUNDS: Bounds = Bounds { entries: 6, bytes: 100 };

/// An operation of a program, its memory or the NIC.
#[derive(Debug, Clone)]
enum Step {
    /// Begins a send: uses an entry, or else registers the range, which may fail.
    Begin {
        range: Range<usize>,
        fails: bool,
    },
    /// Begins a send, and takes memory away during the registration.
    BeginSpoiled {
        range: Range<usize>,
        gone: Range<usize>,
    },
    /// Ends the send with this index, modulo the number of sends.
    End(usize),
    Invalidate(Range<usize>),
}

fn range() -> impl Strategy<Value = Range<usize>> {
    (0usize..150, 1usize..40).prop_map(|(start, len)| start..start + len)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (range(), prop::bool::weighted(0.1))
            .prop_map(|(range, fails)| Step::Begin { range, fails }),
        1 => (range(), range()).prop_map(|(range, gone)| Step::BeginSpoiled { range, gone }),
        4 => any::<usize>().prop_map(Step::End),
        1 => range().prop_map(Step::Invalidate),
    ]
}

/// Model of the NIC and the memory: registered ranges, and whether their pages are current.
#[derive(Debug, Default)]
struct Model {
    /// For each token: the range, whether its pages are current, and its number of uses.
    registered: BTreeMap<u32, (Range<usize>, bool, usize)>,
    last: u32,
    sends: Vec<(Slot, u32)>,
}

impl Model {
    fn take_away(&mut self, gone: &Range<usize>) {
        for (range, fresh, _) in self.registered.values_mut() {
            *fresh &= range.end <= gone.start || gone.end <= range.start;
        }
    }

    /// Deregisters removed entries, which must have no uses.
    fn collect(&mut self, ranges: &mut Ranges<u32>) {
        while let Some(token) = ranges.take_gone() {
            let (range, _, uses) = self.registered.remove(&token).expect("it was registered");
            assert_eq!(uses, 0, "{range:?} is in use");
        }
    }

    fn begin(&mut self, ranges: &mut Ranges<u32>, want: Range<usize>, fails: bool) -> Option<Slot> {
        let known = |(range, fresh, _): &(Range<usize>, bool, usize)| {
            *fresh && range.start <= want.start && want.end <= range.end
        };
        if let Some((slot, token)) = ranges.find(&want) {
            let entry = self.registered.get_mut(&token).expect("it is registered");
            assert!(known(entry), "{entry:?} for {want:?}");
            entry.2 += 1;
            self.sends.push((slot, token));
            return None;
        }
        ranges.make_room(&want);
        self.collect(ranges);
        let slot = ranges.reserve(want.clone())?;
        if fails {
            ranges.abandon(slot);
            return None;
        }
        Some(slot)
    }

    fn registered(&mut self, ranges: &mut Ranges<u32>, slot: Slot, range: Range<usize>) {
        self.last += 1;
        ranges.ready(slot, self.last);
        self.registered.insert(self.last, (range, true, 1));
        self.sends.push((slot, self.last));
    }

    fn end(&mut self, ranges: &mut Ranges<u32>, n: usize) {
        if self.sends.is_empty() {
            return;
        }
        let (slot, token) = self.sends.swap_remove(n % self.sends.len());
        self.registered.get_mut(&token).expect("it was in use").2 -= 1;
        if ranges.release(slot) {
            self.collect(ranges);
            assert!(!self.registered.contains_key(&token));
        }
    }
}

proptest! {
    /// An entry that is found is registered, contains the requested range and has current pages. Entries in use are not
    /// deregistered. All entries are deregistered in the end, and the limits hold.
    #[test]
    fn like_a_naive_model(steps in prop::collection::vec(step(), 0..300)) {
        let (mut ranges, mut model) = (Ranges::new(BOUNDS), Model::default());
        for step in steps {
            match step {
                Step::Begin { range, fails } => {
                    if let Some(slot) = model.begin(&mut ranges, range.clone(), fails) {
                        model.registered(&mut ranges, slot, range);
                    }
                }
                Step::BeginSpoiled { range, gone } => {
                    if let Some(slot) = model.begin(&mut ranges, range.clone(), false) {
                        ranges.invalidate(&gone);
                        model.registered(&mut ranges, slot, range);
                    } else {
                        ranges.invalidate(&gone);
                    }
                    model.take_away(&gone);
                }
                Step::End(n) => model.end(&mut ranges, n),
                Step::Invalidate(gone) => {
                    model.take_away(&gone);
                    if ranges.invalidate(&gone) {
                        model.collect(&mut ranges);
                    }
                }
            }
            let counters = ranges.counters();
            let bytes: usize = model.registered.values().map(|(range, ..)| range.len()).sum();
            prop_assert_eq!((counters.entries, counters.bytes), (model.registered.len(), bytes));
            prop_assert!(counters.entries <= BOUNDS.entries && counters.bytes <= BOUNDS.bytes);
        }
        while !model.sends.is_empty() {
            model.end(&mut ranges, 0);
        }
        ranges.evict_all();
        model.collect(&mut ranges);
        prop_assert!(model.registered.is_empty());
        prop_assert_eq!(ranges.counters().bytes, 0);
    }
}

fn registered(ranges: &mut Ranges<u32>, range: Range<usize>, token: u32) {
    ranges.make_room(&range);
    while ranges.take_gone().is_some() {}
    let slot = ranges.reserve(range).unwrap();
    ranges.ready(slot, token);
    ranges.release(slot);
}

#[test]
fn the_longest_unused_goes_first() {
    let mut ranges = Ranges::new(Bounds { entries: 2, bytes: 100 });
    registered(&mut ranges, 0..10, 1);
    registered(&mut ranges, 20..30, 2);
    let (slot, token) = ranges.find(&(0..5)).unwrap();
    assert_eq!(token, 1);
    ranges.release(slot);
    registered(&mut ranges, 40..50, 3);
    assert!(ranges.find(&(20..30)).is_none() && ranges.find(&(0..10)).is_some());
    let counters = ranges.counters();
    assert_eq!((counters.hits, counters.misses, counters.evicted), (2, 1, 1));
}

#[test]
fn a_larger_range_takes_the_place_of_those_within() {
    let mut ranges = Ranges::new(BOUNDS);
    (0..4).for_each(|n| registered(&mut ranges, n * 10..n * 10 + 10, n as u32));
    registered(&mut ranges, 10..40, 9);
    assert_eq!(ranges.counters().entries, 2);
    assert_eq!(ranges.find(&(25..35)).map(|(_, token)| token), Some(9));
    assert_eq!(ranges.find(&(0..10)).map(|(_, token)| token), Some(0));
}

#[test]
fn what_is_too_large_moves_nothing() {
    let mut ranges = Ranges::new(BOUNDS);
    registered(&mut ranges, 0..10, 1);
    ranges.make_room(&(1000..1101));
    assert!(ranges.take_gone().is_none() && ranges.reserve(1000..1101).is_none());
}
