//! Kinds of lock owners, and the word by which each owner is known.

use crate::fences::Reach;
use crate::robust_entry;
use crate::shim::AtomicUsize;
use crate::state::State;

/// Kind of the threads that may own a lock. Determines the word by which each thread is known.
pub trait Owners {
    /// Returns the calling thread's owner word.
    #[doc(hidden)]
    fn me(state: &State) -> u32;
    /// Like [`Owners::me`], but returns 0 if the thread has no owner word yet.
    #[doc(hidden)]
    fn known(state: &State) -> u32;
    /// Returns true if the thread `owner` lives.
    #[doc(hidden)]
    fn lives(owner: u32) -> bool;
    /// Returns the calling thread's word that names the lock held by bias ([`crate::biased`]); `None` if the
    /// thread has no robust-list entry.
    #[doc(hidden)]
    fn inside(state: &State) -> Option<&'static AtomicUsize>;
    /// Returns true if the entry of `owner` names the lock at `place` as held by bias. The answer holds only if
    /// the thread is found alive after this call.
    #[doc(hidden)]
    fn is_inside(owner: u32, place: usize) -> bool;
    /// Returns true if the thread `owner`, which has ended, was certainly outside the lock at `place`.
    #[doc(hidden)]
    fn ended_outside(owner: u32, place: usize) -> bool;
    /// The threads that may own such a lock, as the reach of a fence.
    #[doc(hidden)]
    const REACH: Reach;
}

/// Threads of this process, for a lock in the process's own memory. A forked child has its own copy of the lock,
/// which none of its parent's other threads owns.
#[derive(Debug, Clone, Copy)]
pub struct Local;

impl Owners for Local {
    #[inline(always)]
    fn me(state: &State) -> u32 {
        robust_entry::local(state)
    }

    #[inline(always)]
    fn known(state: &State) -> u32 {
        state.local.get()
    }

    fn lives(owner: u32) -> bool {
        robust_entry::local_lives(owner)
    }

    #[inline(always)]
    fn inside(state: &State) -> Option<&'static AtomicUsize> {
        robust_entry::local_inside(state)
    }

    fn is_inside(owner: u32, place: usize) -> bool {
        robust_entry::is_inside_local(owner, place)
    }

    fn ended_outside(owner: u32, place: usize) -> bool {
        robust_entry::ended_outside_local(owner, place)
    }

    const REACH: Reach = Reach::Process;
}

/// Threads of all processes that share the memory in which the lock lies.
#[derive(Debug, Clone, Copy)]
pub struct Family;

impl Owners for Family {
    #[inline(always)]
    fn me(state: &State) -> u32 {
        robust_entry::shared(state)
    }

    #[inline(always)]
    fn known(state: &State) -> u32 {
        state.family.get()
    }

    fn lives(owner: u32) -> bool {
        robust_entry::shared_lives(owner)
    }

    #[inline(always)]
    fn inside(state: &State) -> Option<&'static AtomicUsize> {
        robust_entry::shared_inside(state)
    }

    fn is_inside(owner: u32, place: usize) -> bool {
        robust_entry::is_inside_shared(owner, place)
    }

    fn ended_outside(owner: u32, place: usize) -> bool {
        robust_entry::ended_outside_shared(owner, place)
    }

    const REACH: Reach = Reach::Host;
}
