//! Which threads may own a lock, and by which word each is known.

use crate::fences::Reach;
use crate::record;
use crate::shim::AtomicUsize;
use crate::state::State;

/// Which threads may own a lock; decides by which word each is known.
pub trait Owners {
    /// The calling thread's word.
    #[doc(hidden)]
    fn me(state: &State) -> u32;
    /// The same, but 0 if the thread has none yet.
    #[doc(hidden)]
    fn known(state: &State) -> u32;
    /// Whether the thread of a word lives.
    #[doc(hidden)]
    fn lives(owner: u32) -> bool;
    /// The calling thread's word for the lock that favours it and that it is inside of ([`crate::biased`]); if it
    /// has one.
    #[doc(hidden)]
    fn inside(state: &State) -> Option<&'static AtomicUsize>;
    /// Whether the record of a word names the lock at that place as held by its thread. If the thread lives still.
    #[doc(hidden)]
    fn is_inside(owner: u32, place: usize) -> bool;
    /// Whether the thread of a word, which has ended, was outside the lock at that place, for certain.
    #[doc(hidden)]
    fn ended_outside(owner: u32, place: usize) -> bool;
    /// Whose threads may own it.
    #[doc(hidden)]
    const REACH: Reach;
}

/// Threads of this process: the lock lies in memory of its own. A forked child's copy of the lock is its
/// own, and owned by no other thread of its parent.
#[derive(Debug, Clone, Copy)]
pub struct Local;

impl Owners for Local {
    #[inline(always)]
    fn me(state: &State) -> u32 {
        record::local(state)
    }

    #[inline(always)]
    fn known(state: &State) -> u32 {
        state.local.get()
    }

    fn lives(owner: u32) -> bool {
        record::local_lives(owner)
    }

    #[inline(always)]
    fn inside(state: &State) -> Option<&'static AtomicUsize> {
        record::local_inside(state)
    }

    fn is_inside(owner: u32, place: usize) -> bool {
        record::is_inside_local(owner, place)
    }

    fn ended_outside(owner: u32, place: usize) -> bool {
        record::ended_outside_local(owner, place)
    }

    const REACH: Reach = Reach::Process;
}

/// Threads of all processes that share the memory in which the lock lies.
#[derive(Debug, Clone, Copy)]
pub struct Family;

impl Owners for Family {
    #[inline(always)]
    fn me(state: &State) -> u32 {
        record::shared(state)
    }

    #[inline(always)]
    fn known(state: &State) -> u32 {
        state.family.get()
    }

    fn lives(owner: u32) -> bool {
        record::shared_lives(owner)
    }

    #[inline(always)]
    fn inside(state: &State) -> Option<&'static AtomicUsize> {
        record::shared_inside(state)
    }

    fn is_inside(owner: u32, place: usize) -> bool {
        record::is_inside_shared(owner, place)
    }

    fn ended_outside(owner: u32, place: usize) -> bool {
        record::ended_outside_shared(owner, place)
    }

    const REACH: Reach = Reach::Host;
}
