//! Where on its stack a thread runs a handler of the program, if it does.

use crate::thread::{State, state};
use core::sync::atomic::Ordering;
use libc::ucontext_t;

/// A handler begins: notes where; what was noted before.
pub(super) fn enter(state: &State, context: &ucontext_t) -> usize {
    let here = core::ptr::from_ref(context) as usize;
    let outer = if is_in_handler() { state.handler_stack.load(Ordering::Relaxed) } else { 0 };
    if outer == 0 {
        let (low, len) = (context.uc_stack.ss_sp as usize, context.uc_stack.ss_size);
        let alternate = here.wrapping_sub(low) < len;
        state.alternate.store(low, Ordering::Relaxed);
        state.alternate_len.store(if alternate { len } else { 0 }, Ordering::Relaxed);
        state.handler_stack.store(here, Ordering::Relaxed);
    }
    outer
}

/// A handler has returned: what [`enter`] said is noted again.
pub(super) fn leave(outer: usize) {
    state().handler_stack.store(outer, Ordering::Relaxed);
}

/// Whether the calling thread runs a handler of the program: not after it has left one by `longjmp`, as far as
/// [`goes_on_at`] or its stack shows.
pub fn is_in_handler() -> bool {
    let place = 0u8;
    goes_on_at((&raw const place) as usize)
}

/// The calling thread goes on where its stack is at an address; whether it runs a handler there.
pub fn goes_on_at(stack: usize) -> bool {
    let state = state();
    let began = state.handler_stack.load(Ordering::Relaxed);
    if began == 0 {
        return false;
    }
    let len = state.alternate_len.load(Ordering::Relaxed);
    let inside = match len {
        0 => stack < began,
        len => stack.wrapping_sub(state.alternate.load(Ordering::Relaxed)) < len,
    };
    if !inside {
        state.handler_stack.store(0, Ordering::Relaxed);
    }
    inside
}
