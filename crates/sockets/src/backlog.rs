//! How much memory of segments may hold what peers have not read yet.
//!
//! Each direction of a connection has a little for nothing. What goes beyond is counted here, for all
//! processes of the family together, by the end that sends, and is given back when the peer has read it.
//! At the limit connections accept no more than that little, as TCP's sockets do where tcp_mem is used up.
//!
//! The limit is what SOVIA_MEMORY says (in MiB), or else the smaller of what the kernel would let TCP
//! hold and an eighth of the smallest memory limit that can be read: of the host, or of a control group. And
//! whatever the limit is, an eighth of the host's memory stays available.
//!
//! A single connection is bounded as well, by what the kernel lets a socket hold ([`of_a_connection`]).

use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sys::memory_limits;

per_engine! {
    /// Bytes in use beyond what is for nothing; in the family's memory.
    static USED: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
    /// What may be in use; 0: not known yet.
    static LIMIT: AtomicU64 = AtomicU64::new(0);
    /// Bytes that a connection's end may send ahead, and hold unread, if its program has set no sizes; 0: not known yet.
    static BUFFERS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
}
/// After how many bytes more it is asked what the host has left.
const ASK: u64 = 16 << 20;
/// Of what there is, this part may be used, and this part is left to others.
const PART: u64 = 8;

/// From now on bytes are counted there.
pub(crate) fn count_in(used: &'static AtomicU64) {
    USED.store(core::ptr::from_ref(used).cast_mut(), Ordering::Release);
}

fn used() -> Option<&'static AtomicU64> {
    // SAFETY: null, or what `count_in` was given.
    unsafe { USED.load(Ordering::Acquire).as_ref() }
}

/// The user has said how much may be used, in bytes.
pub(crate) fn choose(limit: u64) {
    LIMIT.store(limit.max(1), Ordering::Relaxed);
}

/// The kernel gives a socket no less, about (`SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`).
const LEAST: u32 = 4 << 10;

/// What may be in use before the limit is known.
const PROVISIONAL: u64 = 16 << 20;

/// What may be in use.
pub(crate) fn limit() -> u64 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => PROVISIONAL,
        limit => limit,
    }
}

/// Bytes that the end of a connection may send ahead, and hold unread, if its program has set no sizes.
pub(crate) fn of_a_connection() -> (u32, u32) {
    let known = |bytes: &AtomicU32| match bytes.load(Ordering::Relaxed) {
        0 => u32::MAX,
        bytes => bytes,
    };
    let [sends, holds] = BUFFERS.each_ref().map(known);
    (sends, holds)
}

/// Notes how many bytes the kernel lets a socket send ahead, and hold unread.
pub(crate) fn note_buffers(sends: u64, holds: u64) {
    for (place, bytes) in BUFFERS.iter().zip([sends, holds]) {
        place.store(u32::try_from(bytes).unwrap_or(u32::MAX).max(LEAST), Ordering::Relaxed);
    }
}

/// Finds the limits out, unless they are known. Apart, like what it calls: the program's stack may be small.
#[inline(never)]
pub(crate) fn find_limits() {
    if BUFFERS[0].load(Ordering::Relaxed) == 0
        && let Some((sends, holds)) = memory_limits::tcp_buffers()
    {
        note_buffers(sends, holds);
    }
    if LIMIT.load(Ordering::Relaxed) != 0 {
        return;
    }
    let total = memory_limits::host().map(|(total, _)| total);
    let smallest = [total, memory_limits::control_group()].into_iter().flatten().min();
    let limits = [smallest.map(|bytes| bytes / PART), memory_limits::tcp()];
    // Where nothing can be read, as much as TCP would have on a small host.
    let limit = limits.into_iter().flatten().min().unwrap_or(64 << 20).max(1);
    LIMIT.store(limit, Ordering::Relaxed);
}

/// Whether so many bytes more may be used; they count from here on.
#[cold]
#[inline(never)]
pub(crate) fn take(bytes: u64) -> bool {
    let Some(used) = used() else { return false };
    let before = used.fetch_add(bytes, Ordering::Relaxed);
    let after = before.saturating_add(bytes);
    let fits = after <= limit() && (before / ASK == after / ASK || host_has_enough());
    if !fits {
        give_back(bytes);
    }
    fits
}

#[inline(never)]
fn host_has_enough() -> bool {
    memory_limits::host().is_none_or(|(total, available)| available >= total / PART)
}

/// So many bytes are not used any more.
pub(crate) fn give_back(bytes: u64) {
    if let Some(used) = used()
        && bytes != 0
    {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_used_than_the_limit_says() {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        count_in(&COUNTER);
        choose(1 << 20);
        assert!(take(1 << 19) && take(1 << 19));
        assert!(!take(1));
        give_back(4096);
        assert!(take(4096) && !take(1));
        give_back(1 << 30);
        assert_eq!(COUNTER.load(Ordering::Relaxed), 0);
    }
}
