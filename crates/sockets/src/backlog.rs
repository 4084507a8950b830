//! Limits the memory of segments that may hold unread bytes.
//!
//! Each direction of a connection may hold a small number of unread bytes for free. The sending end counts further
//! bytes here, for all processes of the family together. When the peer has read these bytes, the sending end
//! subtracts them. At the limit, a direction accepts only its free bytes, like TCP's sockets when tcp_mem is used
//! up.
//!
//! SOVIA_MEMORY sets the limit (in MiB). Without SOVIA_MEMORY, the limit is the smaller of two amounts. The first
//! is the memory that the kernel would let TCP hold. The second is an eighth of the smallest readable memory limit
//! of the host or a control group. With any limit, an eighth of the host's memory stays available.
//!
//! A single connection is also limited, to the number of bytes that the kernel lets a socket hold
//! ([`of_a_connection`]).

use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sys::memory_limits;

per_engine! {
    /// Number of counted bytes in use. The counter lies in the family's memory.
    static USED: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
    /// Limit of the counted bytes; 0: not known yet.
    static LIMIT: AtomicU64 = AtomicU64::new(0);
    /// Default limits for an end of a connection: bytes sent ahead, and bytes held unread; 0: not known yet.
    static BUFFERS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
}
/// Number of newly counted bytes after which the host's available memory is checked again.
const ASK: u64 = 16 << 20;
/// Divisor: one eighth of the memory limit may be used, and one eighth of the host's memory must stay available.
const PART: u64 = 8;

/// Keeps the count of bytes in `used` from now on.
pub(crate) fn count_in(used: &'static AtomicU64) {
    USED.store(core::ptr::from_ref(used).cast_mut(), Ordering::Release);
}

fn used() -> Option<&'static AtomicU64> {
    // SAFETY: the pointer is null or comes from `count_in`, which takes a static reference.
    unsafe { USED.load(Ordering::Acquire).as_ref() }
}

/// Sets the limit that the user has chosen, in bytes.
pub(crate) fn choose(limit: u64) {
    LIMIT.store(limit.max(1), Ordering::Relaxed);
}

/// Smallest limit of a connection, about as large as the kernel's smallest socket buffers (`SOCK_MIN_SNDBUF`,
/// `SOCK_MIN_RCVBUF`).
const LEAST: u32 = 4 << 10;

/// Limit of the counted bytes while the real limit is not known.
const PROVISIONAL: u64 = 16 << 20;

/// Returns the limit of the counted bytes.
pub(crate) fn limit() -> u64 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => PROVISIONAL,
        limit => limit,
    }
}

/// Returns the default limits for an end of a connection: bytes sent ahead, and bytes held unread.
pub(crate) fn of_a_connection() -> (u32, u32) {
    let known = |bytes: &AtomicU32| match bytes.load(Ordering::Relaxed) {
        0 => u32::MAX,
        bytes => bytes,
    };
    let [sends, holds] = BUFFERS.each_ref().map(known);
    (sends, holds)
}

/// Stores the default limits that [`of_a_connection`] returns, but at least `LEAST`.
pub(crate) fn note_buffers(sends: u64, holds: u64) {
    for (place, bytes) in BUFFERS.iter().zip([sends, holds]) {
        place.store(u32::try_from(bytes).unwrap_or(u32::MAX).max(LEAST), Ordering::Relaxed);
    }
}

/// Finds the limits, unless they are known. Not inlined, because the program's stack may be small.
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
    // If no limit can be read, use the memory that TCP would have on a small host.
    let limit = limits.into_iter().flatten().min().unwrap_or(64 << 20).max(1);
    LIMIT.store(limit, Ordering::Relaxed);
}

/// Counts `bytes` as in use, and returns true, if the limit and the host's memory allow this.
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

/// Subtracts `bytes` from the counted bytes, because they are no longer in use.
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
