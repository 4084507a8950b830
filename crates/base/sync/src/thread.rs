//! Identity of the calling thread.

use crate::state::State;
use crate::{robust_entry, robust_list, state};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call;

/// Number of events that ended the library's threads: each fork, in the child, and each [`none_left`].
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Adapts this crate to a child that libc has forked. Call this in the child, before it uses any lock.
pub fn forked() {
    born(robust_list::thread_id());
}

/// Adapts this crate to a child that the kernel has made without libc's knowledge, with a copy of the memory.
pub fn forked_without_libc() {
    robust_list::begin_anew();
    // libc still has the parent's id for this thread.
    born(call::gettid());
}

fn born(id: i32) {
    none_left();
    state::current(|state| {
        state.tid.set(id);
        state.lent.set(0);
        robust_entry::forked(state);
    });
}

/// Returns a number that changes in a forked child and after [`none_left`].
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::SeqCst)
}

/// Records that the library's threads in this process have ended, or that the last one is about to end.
pub fn none_left() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// Returns the calling thread's id, which is cached after the first call.
#[inline]
pub fn thread_id() -> i32 {
    state::current(robust_entry::thread_id)
}

/// Offset of a counter in the block `sovia_thread_state` of thread-local storage. The counter is the number of
/// children that run on the thread's memory while the thread waits for them (vfork, also nested). The hook that
/// makes such a child increments it before the call and decrements it afterwards.
pub const LENT: usize = core::mem::offset_of!(State, lent);

/// Returns true if the caller is a child that runs on its parent's memory (vfork).
#[inline(always)]
pub fn is_lent() -> bool {
    state::current(|state| state.lent.get() != 0)
}

/// Returns true if the last call of [`count_refusal`] reported a refusal.
#[inline(always)]
pub fn is_refused() -> bool {
    state::current(|state| state.refusals.get() != 0)
}

/// Counts consecutive refusals of an operation of the calling thread. `refused`: the operation was refused once
/// more; if false, the count restarts. Returns the number of refusals before this call.
#[inline(always)]
pub fn count_refusal(refused: bool) -> u32 {
    state::current(|state| {
        let before = state.refusals.get();
        if refused {
            state.refusals.set(before.wrapping_add(1));
        } else if before != 0 {
            state.refusals.set(0);
        }
        before
    })
}
