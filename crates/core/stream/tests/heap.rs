//! Tests the registration cache with the heap: the cache notices memory that `free` and `brk` give back.
//!
//! This file has only one test, because no other code of the process may use the heap meanwhile.

use crate::common::pinned::{PAGE, Pair, map_if_free, unmap};
use core::ops::Range;

const LEN: usize = 512 << 10;

/// Returns the whole pages within a range.
fn whole_pages(range: &Range<usize>) -> Range<usize> {
    range.start.next_multiple_of(PAGE)..range.end & !(PAGE - 1)
}

/// Tests a large block, which `free` unmaps. Returns false if another thread has mapped memory at the same addresses
/// meanwhile.
fn allocated_and_freed() -> bool {
    // SAFETY: the block has `LEN` bytes, and is freed once.
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
    // SAFETY: `block` came from `malloc`, and no slice of it exists.
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

/// Tests the end of the heap, which shrinks and grows again.
fn given_back_by_brk() {
    let grow = |by: isize| {
        // SAFETY: only this test moves the end of the heap now, and no other code uses the added memory.
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
    // SAFETY: the call sets a number. With this threshold `malloc` maps blocks of this size, even after earlier blocks
    // were freed.
    assert_eq!(unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10) }, 1);
    assert!((0..100).any(|_| allocated_and_freed()));
    given_back_by_brk();
}
