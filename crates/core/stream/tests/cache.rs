//! Tests of the registration cache, over simulated NICs that lock pages. A send must transfer the bytes at the
//! program's addresses, whatever has happened to the registered pages.
//!
//! Every test has its own addresses, which no other code in the process gets. The tests run one after another, because
//! the cache refuses lookups while another thread takes watched memory away.

use crate::common::pinned::{PAGE, Pair, addresses, expected, fill, map, map_with, unmap};
use core::ops::Range;
use sovia_stream::Caching;
use std::sync::{Mutex, MutexGuard, PoisonError};
use via_sim::{Config, Registering};

/// 64 KB: two packets.
const PAGES: usize = 16;

/// Lock of the running test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remap(from: &Range<usize>, to: &Range<usize>) {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (old, new) = (from.start as *mut libc::c_void, to.start as *mut libc::c_void);
    // SAFETY: both ranges belong to this test, and no slice of them exists.
    let moved = unsafe { libc::mremap(old, from.len(), to.len(), flags, new) };
    assert_eq!(moved, new, "{}", std::io::Error::last_os_error());
}

fn advise(at: &Range<usize>, advice: i32) {
    // SAFETY: the range belongs to this test, and no slice of it exists.
    assert_eq!(unsafe { libc::madvise(at.start as *mut _, at.len(), advice) }, 0);
}

/// Unmaps the range, and maps it again.
fn map_again(at: &Range<usize>) {
    unmap(at);
    map(at);
}

/// Maps new memory over the range.
fn map_over(at: &Range<usize>) {
    map_with(at, libc::MAP_PRIVATE | libc::MAP_FIXED);
}

/// Moves the range away, and maps new memory at its place.
fn move_away(at: &Range<usize>) {
    let other = addresses(PAGES);
    remap(at, &other);
    map(at);
    unmap(&other);
}

/// Moves other memory over the range.
fn move_over(at: &Range<usize>) {
    let other = addresses(PAGES);
    map(&other);
    remap(&other, at);
}

/// Discards the range's pages.
fn empty(at: &Range<usize>) {
    advise(at, libc::MADV_DONTNEED);
}

/// All ways to get other pages at the same addresses. (`heap.rs` tests the heap's ways.)
const WAYS: [fn(&Range<usize>); 5] = [map_again, map_over, move_away, move_over, empty];

#[test]
fn memory_that_stays_is_registered_once() {
    let _alone = alone();
    let place = addresses(PAGES);
    map(&place);
    let pair = Pair::new(&place);
    if !pair.noticed() {
        return;
    }
    (0..5).for_each(|n| pair.says(&place, n));
    let within = place.start + 100..place.start + 3 * PAGE;
    pair.says(&within, 9);
    let counters = pair.stack.cache_counters();
    assert_eq!((counters.misses, counters.hits, counters.entries), (1, 10, 1));
    assert_eq!((counters.bytes, counters.evicted), (place.len(), 0));
    assert_eq!(pair.stack.caching(), Caching::Noticed);
    // The default is the same.
    assert_eq!(Pair::new(&place).stack.caching(), Caching::Noticed);
    drop(pair);
    unmap(&place);
}

#[test]
fn other_pages_at_the_same_addresses_are_noticed() {
    let _alone = alone();
    for take in WAYS {
        let place = addresses(PAGES);
        map(&place);
        let pair = Pair::new(&place);
        if !pair.noticed() {
            return;
        }
        for n in 1..4 {
            pair.says(&place, n);
            take(&place);
            pair.says(&place, n + 100);
        }
        assert!(pair.stack.cache_counters().invalidated > 0);
        drop(pair);
        unmap(&place);
    }
}

/// Proves that these simulated NICs do send pages that are gone, so that the cache makes the difference in the tests
/// above.
#[test]
fn a_cache_that_is_not_told_sends_what_is_gone() {
    let _alone = alone();
    for take in WAYS {
        let place = addresses(PAGES);
        map(&place);
        let pair = Pair::new(&place);
        pair.stack.set_caching(Caching::Told).unwrap();
        pair.says(&place, 1);
        take(&place);
        fill(&place, 2);
        assert!(pair.send(&place) == expected(place.len(), 1));
        // After a call of `forget` the cache does not.
        pair.stack.forget(place.start as *const u8..place.end as *const u8);
        take(&place);
        pair.says(&place, 3);
        let counters = pair.stack.cache_counters();
        assert_eq!((counters.misses, counters.invalidated, counters.entries), (2, 1, 1));
        drop(pair);
        unmap(&place);
    }
}

#[test]
fn unmapping_a_part_keeps_other_parts_cached() {
    let _alone = alone();
    let place = addresses(PAGES);
    map(&place);
    let pair = Pair::new(&place);
    if !pair.noticed() {
        return;
    }
    let half = place.start + place.len() / 2;
    let (low, high) = (place.start..half, half..place.end);
    pair.says(&low, 1);
    pair.says(&high, 2);
    map_over(&low);
    let before = pair.stack.cache_counters();
    assert_eq!((before.invalidated, before.misses), (1, 2));
    pair.says(&high, 3);
    assert_eq!(pair.stack.cache_counters().misses, before.misses);
    pair.says(&low, 4);
    // All of the range, then a part of it.
    pair.says(&place, 5);
    map_over(&high);
    pair.says(&low, 6);
    pair.says(&place, 7);
    drop(pair);
    unmap(&place);
}

/// The kernel does not move a mapping that is watched in part.
#[test]
fn mapping_moves_whole_after_a_part_was_sent() {
    let _alone = alone();
    let (place, other) = (addresses(PAGES), addresses(PAGES));
    map(&place);
    let pair = Pair::new(&place);
    if !pair.noticed() {
        return;
    }
    pair.says(&(place.start + 5 * PAGE..place.start + 7 * PAGE), 1);
    assert_eq!(pair.stack.cache_counters().entries, 1);
    remap(&place, &other);
    map(&place);
    pair.says(&(place.start + 5 * PAGE..place.start + 7 * PAGE), 2);
    drop(pair);
    unmap(&place);
    unmap(&other);
}

/// The kernel sends the event before it discards the pages, and no event afterwards.
#[test]
fn emptied_memory_is_not_cached_until_mapped_anew() {
    let _alone = alone();
    let place = addresses(PAGES);
    map(&place);
    let pair = Pair::new(&place);
    if !pair.noticed() {
        return;
    }
    pair.says(&place, 1);
    assert_eq!(pair.stack.cache_counters().entries, 1);
    for way in [libc::MADV_DONTNEED, libc::MADV_FREE] {
        advise(&place, way);
        pair.says(&place, 2);
        assert_eq!(pair.stack.cache_counters().entries, 0);
    }
    map_again(&place);
    pair.says(&place, 3);
    assert_eq!(pair.stack.cache_counters().entries, 1);
    drop(pair);
    unmap(&place);
}

#[test]
fn memory_that_cannot_be_watched_is_not_cached() {
    let _alone = alone();
    let place = addresses(PAGES);
    map_with(&place, libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE);
    let pair = Pair::new(&place);
    if !pair.noticed() {
        return;
    }
    (0..3).for_each(|n| pair.says(&place, n));
    let counters = pair.stack.cache_counters();
    assert_eq!((counters.hits, counters.entries), (0, 0));
    drop(pair);
    unmap(&place);
}

#[test]
fn the_longest_unused_goes_when_there_are_too_many() {
    let _alone = alone();
    let place = addresses(300);
    map(&place);
    let pair = Pair::new(&place);
    if !pair.noticed() {
        return;
    }
    let page = |n: usize| place.start + n * PAGE..place.start + (n + 1) * PAGE;
    for n in 0..300 {
        pair.says(&page(n), n as u8);
        pair.says(&page(0), n as u8);
    }
    let counters = pair.stack.cache_counters();
    assert!(counters.entries <= 128 && counters.evicted >= 100, "{counters:?}");
    assert_eq!(counters.misses, 300);
    pair.stack.set_caching(Caching::Off).unwrap();
    pair.says(&page(0), 7);
    assert_eq!(pair.stack.cache_counters(), Default::default());
    assert_eq!(pair.stack.caching(), Caching::Off);
    drop(pair);
    unmap(&place);
}

/// Two stacks may send from the same memory, but only one userfaultfd can watch it.
#[test]
fn caches_of_a_process_share_what_is_noticed() {
    let _alone = alone();
    let place = addresses(PAGES);
    map(&place);
    let pairs = [Pair::new(&place), Pair::new(&place)];
    if !pairs.iter().all(Pair::noticed) {
        return;
    }
    for n in 0..3 {
        for pair in &pairs {
            pair.says(&place, n);
            pair.says(&place, n + 100);
        }
        map_over(&place);
    }
    for pair in pairs {
        let counters = pair.stack.cache_counters();
        assert_eq!((counters.misses, counters.invalidated), (3, 3));
    }
    unmap(&place);
}

/// A thread unmaps its memory while other threads send from theirs.
#[test]
fn threads_take_memory_away_while_others_send() {
    let _alone = alone();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let place = addresses(PAGES);
                map(&place);
                let pair = Pair::new(&place);
                if !pair.noticed() {
                    return;
                }
                for n in 0..60 {
                    pair.says(&place, n);
                    pair.says(&place, n + 100);
                    WAYS[(n as usize + thread) % WAYS.len()](&place);
                }
                drop(pair);
                unmap(&place);
            });
        }
    });
}

#[test]
fn where_registering_is_free_nothing_is_cached() {
    let _alone = alone();
    let place = addresses(PAGES);
    map(&place);
    let pair = Pair::with(Config::default(), &place);
    pair.stack.set_caching(Caching::Told).unwrap();
    (0..3).for_each(|n| pair.says(&place, n));
    assert_eq!(pair.stack.caching(), Caching::Off);
    assert_eq!(pair.stack.cache_counters(), Default::default());
    drop(pair);
    unmap(&place);
}

/// ICS figure 6, in virtual time: a registered send costs time for each page, and a send from the cache none.
#[test]
fn the_cache_saves_what_registering_costs() {
    let _alone = alone();
    let place = addresses(8);
    map(&place);
    let took = |caching: Caching, len: usize| {
        let pair = Pair::new(&place);
        if pair.stack.set_caching(caching).is_err() {
            return None;
        }
        let bytes = place.start..place.start + len;
        pair.says(&bytes, 1);
        pair.network.run();
        let begin = pair.network.now();
        pair.says(&bytes, 2);
        Some(pair.network.now().since(begin))
    };
    let costs = Registering::PUBLISHED;
    for pages in [1, 2, 4, 8] {
        let Some(cached) = took(Caching::Noticed, pages * PAGE) else { return };
        let registered = took(Caching::Off, pages * PAGE).unwrap();
        let both = costs.register + costs.deregister;
        let more = both + (costs.register_page + costs.deregister_page) * pages as u32;
        assert_eq!(registered, cached + more, "{pages} pages");
    }
    unmap(&place);
}
