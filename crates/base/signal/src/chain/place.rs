//! Finds out whether a thread runs a handler of the program, by the position of its stack.
//!
//! Each thread records its outermost handler. A thread is in a handler while its stack is deeper than this
//! handler's, or lies on the alternate stack on which a handler runs. This alone does not show that a handler has
//! been left, because the thread's stack may soon be as deep again. So each way to leave a handler is reported:
//!
//! - The handler returns: [`leave`].
//! - `pthread_exit`, cancellation or an exception unwinds the handler: [`unwound`].
//! - `longjmp` or `setcontext` continues elsewhere and never comes back: [`goes_on_at`].
//! - `swapcontext` may come back, so the handler has not been left: [`switches`]. The code that the handler has
//!   interrupted is not finished either, wherever the thread continues. So the thread counts as in a handler
//!   until this handler ends.
//!
//! If a thread wrongly counts as in a handler, its connections are not accelerated. If it wrongly counts as
//! outside, an object that an interrupted call still uses may be freed.

use crate::thread::{State, state};
use core::sync::atomic::Ordering;
use libc::ucontext_t;

/// Set in the recorded address of the outermost handler if the handler began on the alternate stack.
const ON_ALTERNATE: usize = 1;

/// Value of `away` after switches out of several unfinished handlers. This module does not track which of them
/// end. No handler has this address.
const SEVERAL: usize = 1;

/// Records that a handler begins. Returns the record before, which is 0 outside of handlers.
pub(super) fn enter(state: &State, context: &ucontext_t) -> usize {
    let here = core::ptr::from_ref(context) as usize;
    goes_on_at(stack_of(context));
    let outer = state.handler_stack.load(Ordering::Relaxed);
    let (low, len) = (context.uc_stack.ss_sp as usize, context.uc_stack.ss_size);
    let alternate = here.wrapping_sub(low) < len;
    let outermost = outer == 0 || state.away.load(Ordering::Relaxed) != 0;
    if outermost || alternate {
        state.alternate.store(low, Ordering::Relaxed);
        state.alternate_len.store(if alternate { len } else { 0 }, Ordering::Relaxed);
    }
    if outermost {
        let mark = if alternate { here | ON_ALTERNATE } else { here };
        state.handler_stack.store(mark, Ordering::Relaxed);
    }
    outer
}

/// Records that the handler with this context has returned. `outer` is the result of [`enter`].
pub(super) fn leave(context: &ucontext_t, outer: usize) {
    let state = state();
    state.handler_stack.store(outer, Ordering::Relaxed);
    ends(state, core::ptr::from_ref(context) as usize);
}

/// Records that the outermost handler is being unwound and will not return.
pub(super) fn unwound() {
    let state = state();
    let began = state.handler_stack.load(Ordering::Relaxed);
    state.handler_stack.store(0, Ordering::Relaxed);
    ends(state, began & !ON_ALTERNATE);
}

fn ends(state: &State, handler: usize) {
    if state.away.load(Ordering::Relaxed) == handler {
        state.away.store(0, Ordering::Relaxed);
    }
}

/// Returns true if the calling thread runs a handler of the program. Returns false if the thread has left the
/// handler, as far as its stack and the reports show this.
pub fn is_in_handler() -> bool {
    let place = 0u8;
    goes_on_at((&raw const place) as usize)
}

/// Records that the calling thread continues with its stack at this address. Returns true if it runs a handler
/// there.
pub fn goes_on_at(stack: usize) -> bool {
    let state = state();
    if state.away.load(Ordering::Relaxed) != 0 {
        return true;
    }
    let began = state.handler_stack.load(Ordering::Relaxed);
    if began == 0 {
        return false;
    }
    let len = state.alternate_len.load(Ordering::Relaxed);
    let inside = began & ON_ALTERNATE == 0 && stack < began
        || stack.wrapping_sub(state.alternate.load(Ordering::Relaxed)) < len;
    if !inside {
        state.handler_stack.store(0, Ordering::Relaxed);
    }
    inside
}

/// Records that the calling thread is about to switch to another context, and may come back to this one.
pub fn switches() {
    let state = state();
    if !is_in_handler() {
        return;
    }
    let handler = state.handler_stack.load(Ordering::Relaxed) & !ON_ALTERNATE;
    let away = state.away.load(Ordering::Relaxed);
    if away == 0 {
        state.away.store(handler, Ordering::Relaxed);
    } else if handler != 0 && handler != away {
        state.away.store(SEVERAL, Ordering::Relaxed);
    }
}

/// Returns the stack pointer in a context.
pub fn stack_of(context: &ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let stack = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let stack = context.uc_mcontext.sp as usize;
    stack
}
