//! Where on its stack a thread runs a handler of the program, if it does.
//!
//! Noted is the outermost handler: a thread is in a handler wherever its stack is deeper than that one's, or is the
//! alternate stack on which a handler runs. That does not tell by itself when a handler has been left: soon the
//! thread may be as deep again. So each way to leave one says so:
//!
//! - it returns: [`leave`];
//! - it is unwound, by `pthread_exit`, cancellation or an exception: [`unwound`];
//! - `longjmp` or `setcontext` goes on elsewhere, and never comes back: [`goes_on_at`];
//! - `swapcontext` may come back, so that one has not been left: [`switches`]. What the handler has interrupted is
//!   not finished either, wherever the thread goes on meanwhile. So the thread counts as in a handler until this one
//!   ends.
//!
//! To be in a handler costs connections that do not meet; to have left one wrongly may cost what an interrupted call
//! still uses.

use crate::thread::{State, state};
use core::sync::atomic::Ordering;
use libc::ucontext_t;

/// In the note of where the outermost handler began: it began on the alternate stack.
const ON_ALTERNATE: usize = 1;

/// Switches have left more than one handler unfinished, and which of them end is not followed: no address of a handler.
const SEVERAL: usize = 1;

/// A handler begins: notes where; what was noted before, 0 outside of handlers.
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

/// The handler that began with this context has returned: what [`enter`] said is noted again.
pub(super) fn leave(context: &ucontext_t, outer: usize) {
    let state = state();
    state.handler_stack.store(outer, Ordering::Relaxed);
    ends(state, core::ptr::from_ref(context) as usize);
}

/// The outermost handler is being unwound, and does not return.
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

/// Whether the calling thread runs a handler of the program: not after it has left one, as far as what it has left by or
/// its stack shows.
pub fn is_in_handler() -> bool {
    let place = 0u8;
    goes_on_at((&raw const place) as usize)
}

/// The calling thread goes on where its stack is at an address; whether it runs a handler there.
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

/// The calling thread is about to go on in another context, and may be switched back to this one.
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

/// Where the stack is in a context.
pub fn stack_of(context: &ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    let stack = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let stack = context.uc_mcontext.sp as usize;
    stack
}
