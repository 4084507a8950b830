//! What identifies the calling thread.

use crate::state::State;
use crate::{record, robust_list, state};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call;

/// Increased where the threads of the library are gone: in a forked child, and after [`none_left`].
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// To be called in a child that libc has forked, before it uses any lock.
pub fn forked() {
    born(robust_list::thread_id());
}

/// To be called in a child that the kernel has made, with a copy of the memory, without libc's knowledge.
pub fn forked_without_libc() {
    robust_list::begin_anew();
    // What libc believes to be this thread's id is its parent's.
    born(call::gettid());
}

fn born(id: i32) {
    none_left();
    state::current(|state| {
        state.tid.set(id);
        state.lent.set(0);
        record::forked(state);
    });
}

/// Another number in a forked child than in its parent, and after [`none_left`].
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::SeqCst)
}

/// The library's threads in this process have ended, or the last of them is about to.
pub fn none_left() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// The calling thread's id, cached.
#[inline]
pub fn thread_id() -> i32 {
    state::current(record::thread_id)
}

/// The offset, in the block `sovia_thread_state` of thread-local storage, of the number of children that run on the
/// thread's memory while it waits for them (vfork, and vfork again in such a child). The hook that makes such a child counts
/// it up before and down after.
pub const LENT: usize = core::mem::offset_of!(State, lent);

/// Whether the caller is such a child.
#[inline(always)]
pub fn is_lent() -> bool {
    state::current(|state| state.lent.get() != 0)
}

/// Whether the last thing of which [`count_refusal`] was told was refused.
#[inline(always)]
pub fn is_refused() -> bool {
    state::current(|state| state.refusals.get() != 0)
}

/// Counts the refusals of something that the calling thread is in the middle of: `refused` says whether
/// this is one more in a row, and the result is how many there were before.
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
