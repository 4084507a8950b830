//! Sections: what a thread must not be interrupted in by the program's signal handlers.
//!
//! A thread is in a section from before it takes one of Sovia's locks until it has given it back;
//! sections nest. A signal handler of the program would find Sovia's state half changed there, so what
//! delivers signals asks [`is_inside`], keeps the signal, and calls [`pend`]; the thread calls what
//! [`on_leave`] was given when it leaves its outermost section. A thread that sleeps for a lock is
//! outside meanwhile, unless it holds another one.

use crate::state::{self, State};
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

static ON_LEAVE: AtomicUsize = AtomicUsize::new(0);

/// Has `function` called by each thread that leaves its outermost section after a [`pend`] in it. Said
/// once, at the start.
pub fn on_leave(function: fn()) {
    ON_LEAVE.store(function as usize, Ordering::Release);
}

/// The calling thread begins a section.
#[inline(always)]
pub fn enter() {
    state::current(enter_on);
}

/// The calling thread ends a section.
#[inline(always)]
pub fn leave() {
    state::current(leave_on);
}

#[inline(always)]
pub(crate) fn enter_on(state: &State) {
    state.depth.set(state.depth.get() + 1);
    // A handler that runs after this sees the depth before anything that the section changes.
    compiler_fence(Ordering::SeqCst);
}

#[inline(always)]
pub(crate) fn leave_on(state: &State) {
    compiler_fence(Ordering::SeqCst);
    let depth = state.depth.get();
    state.depth.set(depth.saturating_sub(1));
    // A handler that runs before this has seen the section and is seen now; a later one sees none.
    compiler_fence(Ordering::SeqCst);
    if state.pending.get() != 0 && depth == 1 {
        settle(state);
    }
}

/// Does what was put off until the thread is outside.
#[cold]
#[inline(never)]
fn settle(state: &State) {
    state.pending.set(0);
    compiler_fence(Ordering::SeqCst);
    let function = ON_LEAVE.load(Ordering::Acquire);
    if function != 0 {
        // SAFETY: only `on_leave` stores here, and only functions of this type.
        let function = unsafe { core::mem::transmute::<usize, fn()>(function) };
        function();
    }
}

/// How many sections the calling thread is inside of.
#[inline(always)]
pub fn depth() -> u32 {
    state::current(|state| state.depth.get())
}

/// Whether the calling thread is inside a section.
#[inline(always)]
pub fn is_inside() -> bool {
    depth() != 0
}

/// Has the calling thread call what [`on_leave`] was given when it leaves its outermost section. From a
/// signal handler.
pub fn pend() {
    state::current(|state| state.pending.set(1));
}

/// A section that ends with its scope.
#[derive(Debug)]
pub struct Inside {
    /// It belongs to the thread that made it.
    _here: core::marker::PhantomData<*mut ()>,
}

/// Begins a section that ends with the result's scope.
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
    fn what_was_put_off_is_done_when_the_last_section_is_left() {
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
        // Another thread's sections are its own.
        std::thread::spawn(|| drop(inside())).join().unwrap();
        assert_eq!(CALLS.load(Ordering::Relaxed), 0);
        drop(outer);
        assert_eq!((depth(), CALLS.load(Ordering::Relaxed)), (0, 1));
        drop(inside());
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    }
}
