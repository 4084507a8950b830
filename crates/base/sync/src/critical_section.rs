//! Critical sections, in which the program's signal handlers must not run.
//!
//! A thread enters a critical section before it takes one of Sovia's locks, and leaves the section after it has
//! released the lock. Sections nest. In a section, a signal handler of the program would find Sovia's state half
//! changed. So the code that delivers signals asks [`is_inside`], keeps the signal and calls [`pend`]. When the
//! thread leaves its outermost section, it calls the function that [`on_leave`] got. A thread that sleeps for a
//! lock is outside during the sleep, unless it holds another lock.

use crate::state::{self, State};
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

static ON_LEAVE: AtomicUsize = AtomicUsize::new(0);

/// Registers `function`, which each thread calls when it leaves its outermost section after a [`pend`]. Called
/// once, at the start.
pub fn on_leave(function: fn()) {
    ON_LEAVE.store(function as usize, Ordering::Release);
}

/// Begins a section of the calling thread.
#[inline(always)]
pub fn enter() {
    state::current(enter_on);
}

/// Ends a section of the calling thread.
#[inline(always)]
pub fn leave() {
    state::current(leave_on);
}

#[inline(always)]
pub(crate) fn enter_on(state: &State) {
    state.depth.set(state.depth.get() + 1);
    // A handler that runs after this point sees the depth before anything that the section changes.
    compiler_fence(Ordering::SeqCst);
}

#[inline(always)]
pub(crate) fn leave_on(state: &State) {
    compiler_fence(Ordering::SeqCst);
    let depth = state.depth.get();
    state.depth.set(depth.saturating_sub(1));
    // A handler before this point has seen the section, and its `pend` is seen below. A later handler sees no
    // section.
    compiler_fence(Ordering::SeqCst);
    if state.pending.get() != 0 && depth == 1 {
        settle(state);
    }
}

/// Calls the function of [`on_leave`], which was deferred until the thread is outside.
#[cold]
#[inline(never)]
fn settle(state: &State) {
    state.pending.set(0);
    compiler_fence(Ordering::SeqCst);
    let function = ON_LEAVE.load(Ordering::Acquire);
    if function != 0 {
        // SAFETY: only `on_leave` stores here, and it stores only values of type `fn()`.
        let function = unsafe { core::mem::transmute::<usize, fn()>(function) };
        function();
    }
}

/// Returns the number of sections that the calling thread is in.
#[inline(always)]
pub fn depth() -> u32 {
    state::current(|state| state.depth.get())
}

/// Returns true if the calling thread is in a section.
#[inline(always)]
pub fn is_inside() -> bool {
    depth() != 0
}

/// Makes the calling thread call the function of [`on_leave`] when it leaves its outermost section. Called from a
/// signal handler.
pub fn pend() {
    state::current(|state| state.pending.set(1));
}

/// A section that ends when this value is dropped.
#[derive(Debug)]
pub struct Inside {
    /// Makes this type neither `Send` nor `Sync`: the section belongs to the thread that made it.
    _here: core::marker::PhantomData<*mut ()>,
}

/// Begins a section that ends when the returned value is dropped.
#[inline(always)]
#[must_use]
pub fn inside() -> Inside {
    enter();
    Inside { _here: core::marker::PhantomData }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn deferred_work_is_done_when_the_last_critical_section_is_left() {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        on_leave(|| {
            assert!(!is_inside());
            CALLS.fetch_add(1, Ordering::Relaxed);
        });
        let outer = inside();
        {
            let _inner = inside();
            pend();
            assert_eq!(depth(), 2);
        }
        assert_eq!((depth(), CALLS.load(Ordering::Relaxed)), (1, 0));
        // Each thread has its own sections.
        std::thread::spawn(|| drop(inside())).join().unwrap();
        assert_eq!(CALLS.load(Ordering::Relaxed), 0);
        drop(outer);
        assert_eq!((depth(), CALLS.load(Ordering::Relaxed)), (0, 1));
        drop(inside());
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    }
}
