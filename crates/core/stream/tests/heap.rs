//! The registration cache and the heap: what `free` and `brk` give back is noticed.
//!
//! A file of its own with one test: nothing else in the process uses the heap meanwhile.

use crate::common::pinned::{PAGE, Pair, map_if_free, unmap};
use core::ops::Range;

const LEN: usize = 512 << 10;

/// The whole pages in a range.
fn whole_pages(range: &Range<usize>) -> Range<usize> {
    range.start.next_multiple_of(PAGE)..range.end & !(PAGE - 1)
}

/// A large block: `free` unmaps it. False where some other thread, which has just begun, has got the
/// addresses.
fn allocated_and_freed() -> bool {
    // SAFETY: a block of that many bytes, freed once.
    let block = unsafe { libc::malloc(LEN) };
    assert!(!block.is_null());
    let range = block as usize..block as usize + LEN;
    let pages = whole_pages(&range);
    let pair = Pair::new(&(range.start & !(PAGE - 1)..range.end.next_multiple_of(PAGE)));
    if !pair.noticed() {
        return true;
    }
    pair.says(&range, 1);
    pair.says(&range, 2);
    assert!(pair.stack.cache_counters().hits > 0);
    // SAFETY: it came from `malloc`, and no slice of it lives.
    unsafe { libc::free(block) };
    assert_eq!(pair.stack.cache_counters().invalidated, 1);
    let ours = map_if_free(&pages);
    if ours {
        pair.says(&pages, 3);
        drop(pair);
        unmap(&pages);
    }
    ours
}

/// The end of the heap: it shrinks, and grows again.
fn given_back_by_brk() {
    let grow = |by: isize| {
        // SAFETY: only this test moves the end of the heap now, and no other code uses what it adds.
        let end = unsafe { libc::sbrk(by) };
        assert_ne!(end as isize, -1);
        end as usize
    };
    let start = grow(LEN as isize);
    let pages = whole_pages(&(start..start + LEN));
    let pair = Pair::new(&pages);
    if !pair.noticed() {
        return;
    }
    pair.says(&pages, 1);
    pair.says(&pages, 2);
    assert!(pair.stack.cache_counters().hits > 0);
    assert_eq!(grow(-(LEN as isize)), start + LEN);
    assert_eq!(grow(LEN as isize), start);
    assert_eq!(pair.stack.cache_counters().invalidated, 1);
    pair.says(&pages, 3);
}

#[test]
fn what_the_heap_gives_back_is_noticed() {
    // Blocks of this size are mapped, however many were freed before.
    // SAFETY: sets a number.
    assert_eq!(unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10) }, 1);
    assert!((0..100).any(|_| allocated_and_freed()));
    given_back_by_brk();
}
