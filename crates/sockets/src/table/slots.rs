//! Where the words of the table lie: those of low numbers in a static, those of higher ones in chunks that are mapped.

use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use sovia_sys::Mapping;

/// Descriptor numbers that are looked at; sockets above stay on TCP.
pub const FDS: usize = 1 << 20;

/// Numbers whose words are in a chunk.
const CHUNK: usize = 4096;

type Chunk = [AtomicU64; CHUNK];

per_engine! {
    /// The words of the numbers below [`CHUNK`].
    pub(super) static FIRST: Chunk = [const { AtomicU64::new(0) }; CHUNK];
    /// Those of the others; null where none has been entered.
    static CHUNKS: [AtomicPtr<Chunk>; FDS / CHUNK] =
        [const { AtomicPtr::new(core::ptr::null_mut()) }; FDS / CHUNK];
    /// Whether nothing is entered in this process.
    static IS_CLOSED: AtomicBool = AtomicBool::new(false);
}

/// From now on nothing is entered: every descriptor is the kernel's alone.
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

/// The word of a number above the first chunk's; `None` where that chunk has not been mapped.
#[inline]
fn slot_above(fd: i32) -> Option<&'static AtomicU64> {
    let number = fd as u32 as usize;
    let chunk = CHUNKS.get(number / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: null, or a chunk that `slot_to_enter` mapped for good; zero is a valid word.
    unsafe { chunk.as_ref() }.map(|chunk| &chunk[number % CHUNK])
}

/// The word of `fd`, whose chunk is mapped if it has not been.
pub(super) fn slot_to_enter(fd: i32) -> Option<&'static AtomicU64> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return None;
    }
    if let Some(slot) = slot(fd) {
        return Some(slot);
    }
    let place = CHUNKS.get(fd as u32 as usize / CHUNK)?;
    let mapping = Mapping::private(size_of::<Chunk>()).ok()?;
    let base = mapping.base().cast();
    // SYNC: Release publishes the mapping; `slot_above` loads it with Acquire.
    if place
        .compare_exchange(core::ptr::null_mut(), base, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
    {
        // It lasts as long as the process.
        core::mem::forget(mapping);
    }
    slot(fd)
}

/// Calls `each` for every word of the table. Makes no system call.
pub(super) fn for_each_word(mut each: impl FnMut(i32, &AtomicU64)) {
    let mut look = |first: usize, chunk: &Chunk| {
        for (i, slot) in chunk.iter().enumerate() {
            each((first + i) as i32, slot);
        }
    };
    look(0, &FIRST);
    for (i, chunk) in CHUNKS.iter().enumerate() {
        // SAFETY: as in `slot_above`.
        if let Some(chunk) = unsafe { chunk.load(Ordering::Acquire).as_ref() } {
            look(i * CHUNK, chunk);
        }
    }
}
