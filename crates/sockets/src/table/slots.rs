//! Memory of the table's words. Words of low descriptor numbers lie in a static, words of higher numbers in mapped
//! chunks.

use crate::per_engine::{per_engine, per_engine_tables};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use sovia_sys::Mapping;

/// Number of descriptor numbers that the table can record. Sockets with higher numbers stay on TCP.
pub const FDS: usize = 1 << 20;

/// Number of words in a chunk.
const CHUNK: usize = 4096;

type Chunk = [AtomicU64; CHUNK];

/// Number of words in a memory page.
const PAGE: usize = 4096 / size_of::<AtomicU64>();
/// Number of memory pages of the table.
const PAGES: usize = FDS / PAGE;

per_engine_tables! {
    /// Words of the descriptor numbers below [`CHUNK`].
    pub(super) static FIRST: Chunk = [const { AtomicU64::new(0) }; CHUNK];
    /// Words of the higher descriptor numbers. Null for a chunk that is not mapped.
    static CHUNKS: [AtomicPtr<Chunk>; FDS / CHUNK] =
        [const { AtomicPtr::new(core::ptr::null_mut()) }; FDS / CHUNK];
}
per_engine! {
    /// A bit for each memory page, set once a word in the page may have been entered. `for_each_word` does not read
    /// other pages, because the first read of a page makes the kernel allocate the page.
    static TOUCHED: [AtomicU64; PAGES / 64] = [const { AtomicU64::new(0) }; PAGES / 64];
    /// Set once no descriptor may be entered in this process.
    static IS_CLOSED: AtomicBool = AtomicBool::new(false);
}

/// Stops all further entries in the table. From now on the kernel alone serves new descriptors.
pub fn close() {
    IS_CLOSED.store(true, Ordering::Relaxed);
}

#[inline]
pub(super) fn slot(fd: i32) -> Option<&'static AtomicU64> {
    match FIRST.get(fd as u32 as usize) {
        Some(slot) => Some(slot),
        None => slot_above(fd),
    }
}

/// Returns the word of a descriptor number above the first chunk. `None` if the number's chunk is not mapped.
#[inline]
fn slot_above(fd: i32) -> Option<&'static AtomicU64> {
    let number = fd as u32 as usize;
    let chunk = CHUNKS.get(number / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: the pointer is null or a chunk that `slot_to_enter` has mapped for good. A chunk of zeros is valid.
    unsafe { chunk.as_ref() }.map(|chunk| &chunk[number % CHUNK])
}

/// Returns the word of `fd`, to enter a descriptor. Maps the word's chunk if needed.
pub(super) fn slot_to_enter(fd: i32) -> Option<&'static AtomicU64> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return None;
    }
    let page = fd as u32 as usize / PAGE;
    let (touched, bit) = (TOUCHED.get(page / 64)?, 1 << (page % 64));
    if touched.load(Ordering::Relaxed) & bit == 0 {
        // SYNC: this store comes before the caller's Release store of the word. A thread that has loaded the word
        // with Acquire then finds this bit in `for_each_word`.
        touched.fetch_or(bit, Ordering::Release);
    }
    if let Some(slot) = slot(fd) {
        return Some(slot);
    }
    let place = CHUNKS.get(fd as u32 as usize / CHUNK)?;
    let mapping = Mapping::private(size_of::<Chunk>()).ok()?;
    let base = mapping.base().cast();
    // SYNC: Release publishes the mapped chunk; `slot_above` loads the pointer with Acquire.
    if place
        .compare_exchange(core::ptr::null_mut(), base, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
    {
        // Keep the mapping for as long as the process lives.
        core::mem::forget(mapping);
    }
    slot(fd)
}

/// Calls `each` for every word of the table that may have been entered. Makes no system call.
pub(super) fn for_each_word(mut each: impl FnMut(i32, &AtomicU64)) {
    for (i, word) in TOUCHED.iter().enumerate() {
        let mut pages = word.load(Ordering::Acquire);
        while pages != 0 {
            let first = (i * 64 + pages.trailing_zeros() as usize) * PAGE;
            pages &= pages - 1;
            for fd in first as i32..(first + PAGE) as i32 {
                let Some(slot) = slot(fd) else { break };
                each(fd, slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_engine::Engine;

    #[test]
    fn the_words_of_entered_numbers_are_looked_at_and_few_others() {
        Engine::new().run(|| {
            let entered =
                [3, PAGE - 1, 2 * PAGE, CHUNK - 1, CHUNK, 5 * CHUNK + 7, FDS - 1].map(|n| n as i32);
            for fd in entered {
                slot_to_enter(fd).unwrap().store(1, Ordering::Release);
            }
            assert!(slot_to_enter(FDS as i32).is_none() && slot_to_enter(-1).is_none());
            let (mut found, mut looked) = (Vec::new(), 0);
            for_each_word(|fd, slot| {
                looked += 1;
                assert!(core::ptr::eq(slot, super::slot(fd).unwrap()));
                found.extend((slot.load(Ordering::Acquire) != 0).then_some(fd));
            });
            assert_eq!(found, entered);
            assert_eq!(looked, 6 * PAGE, "a page for all but the second number");
        });
    }
}
