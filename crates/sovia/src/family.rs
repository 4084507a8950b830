//! Connections of a family of processes: one that was exec'ed, and all that it forked.
//!
//! Forked processes share their sockets, so what Sovia knows of a socket must be shared as well:
//! it lies in a mapping made at start, at the same address in each of them, out of the reach of
//! any peer. A slot is taken by setting its bit; the generation tells a slot's lives apart.

use crate::conn::Conn;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sys::Mapping;

/// Connections that one family can have on record; more stay on TCP unrecorded.
pub const CONNS: usize = 1 << 15;
const WORDS: usize = CONNS / 64;

#[repr(C, align(4096))]
struct Family {
    used: [AtomicU64; WORDS],
    /// Where the search for a free slot begins.
    hint: AtomicU32,
}

static FAMILY: AtomicPtr<Family> = AtomicPtr::new(core::ptr::null_mut());

const CONNS_AT: usize = size_of::<Family>();

/// Maps the family's memory. Without it nothing is accelerated.
pub fn start() {
    let len = CONNS_AT + CONNS * size_of::<Conn>();
    if let Ok(mapping) = Mapping::for_family(len) {
        FAMILY.store(mapping.base().cast(), Ordering::Release);
        // It lasts as long as the process.
        core::mem::forget(mapping);
    }
}

fn family() -> Option<&'static Family> {
    // SAFETY: null, or the mapping that `start` made, zeroed (which is a valid Family) and never
    // unmapped.
    unsafe { FAMILY.load(Ordering::Acquire).as_ref() }
}

/// The slot with that number.
#[inline]
pub fn conn(index: u32) -> Option<&'static Conn> {
    let base = FAMILY.load(Ordering::Relaxed);
    if base.is_null() || index as usize >= CONNS {
        return None;
    }
    // SAFETY: the index lies in the mapping that follows the header; all-zero bytes are a valid
    // Conn; it is never unmapped.
    Some(unsafe { &*base.byte_add(CONNS_AT).cast::<Conn>().add(index as usize) })
}

/// Takes a free slot.
pub fn take() -> Option<(u32, &'static Conn)> {
    let family = family()?;
    let start = family.hint.load(Ordering::Relaxed) as usize;
    for step in 0..WORDS {
        let w = (start + step) % WORDS;
        let word = &family.used[w];
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = (!bits).trailing_zeros();
            match word.compare_exchange_weak(
                bits,
                bits | 1 << bit,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    family.hint.store(w as u32, Ordering::Relaxed);
                    let index = w as u32 * 64 + bit;
                    return Some((index, conn(index)?));
                }
                Err(now) => bits = now,
            }
        }
    }
    None
}

/// Gives a slot back. Its generation must have been changed before.
pub fn give_back(index: u32) {
    if let Some(family) = family() {
        let w = index as usize / 64;
        family.used[w].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
        family.hint.fetch_min(w as u32, Ordering::Relaxed);
    }
}
