//! `longjmp`, `setcontext` and `swapcontext` out of a signal handler.
//!
//! A thread that leaves a handler so runs none any more, which its stack alone does not tell: it may be as deep as in the
//! handler soon. So these functions are looked at before they jump: whether the stack that they go on with is the handler's.
//! Only `swapcontext` can come back to the handler, so the thread is in it until it has ended.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use libc::{c_int, ucontext_t};
use sovia_signal::chain;

/// Where a `jmp_buf` keeps the stack pointer, in words.
const STACK: usize = if cfg!(target_arch = "x86_64") { 6 } else { 13 };

/// What libc mixes into the addresses that it keeps there; once it is known.
static GUARD: AtomicUsize = AtomicUsize::new(0);
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn __sigsetjmp(buffer: *mut c_void, saves_mask: c_int) -> c_int;
}

/// What libc has kept, without the guard's mixing but for an exclusive or.
fn turned_back(kept: usize) -> usize {
    if cfg!(target_arch = "x86_64") { kept.rotate_right(17) } else { kept }
}

/// Before the program's own code: finds the guard. Where libc keeps addresses in another way, nothing is looked at, and
/// only a stack that is less deep than a handler's shows that the handler has been left.
pub(crate) fn start() {
    let (one, other) = (find_guard(), find_deeper());
    if one == other {
        GUARD.store(one, Ordering::Relaxed);
        IS_KNOWN.store(true, Ordering::Relaxed);
    }
}

#[inline(never)]
fn find_deeper() -> usize {
    let room = core::hint::black_box([1u8; 200]);
    find_guard() ^ usize::from(room[0] - 1)
}

#[inline(never)]
fn find_guard() -> usize {
    let mut found = [0; 2];
    // SAFETY: there is room for both words.
    unsafe { keep_stack(&raw mut found) };
    turned_back(found[1]) ^ found[0]
}

/// Writes down a stack pointer, and what a `jmp_buf` keeps for it. Nothing ever jumps to that.
#[unsafe(naked)]
unsafe extern "C" fn keep_stack(found: *mut [usize; 2]) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rbx",
        "mov rbx, rdi",
        "sub rsp, 208",
        "mov rdi, rsp",
        "xor esi, esi",
        "call {set}",
        "mov [rbx], rsp",
        "mov rax, [rsp + 8 * {stack}]",
        "mov [rbx + 8], rax",
        "add rsp, 208",
        "pop rbx",
        "ret",
        set = sym __sigsetjmp,
        stack = const STACK,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "str x19, [sp, #16]",
        "mov x19, x0",
        "sub sp, sp, #320",
        "mov x0, sp",
        "mov w1, #0",
        "bl {set}",
        "mov x9, sp",
        "ldr x10, [sp, #(8 * {stack})]",
        "stp x9, x10, [x19]",
        "add sp, sp, #320",
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
        set = sym __sigsetjmp,
        stack = const STACK,
    );
}

/// The calling thread is about to jump to where `buffer` was set.
pub(crate) extern "C" fn before_jump(buffer: *const usize) {
    if IS_KNOWN.load(Ordering::Relaxed) && !buffer.is_null() {
        // SAFETY: the program's buffer, from which libc is about to take all registers.
        let kept = unsafe { buffer.add(STACK).read() };
        chain::goes_on_at(turned_back(kept) ^ GUARD.load(Ordering::Relaxed));
    }
}

/// The calling thread is about to go on with a context for good.
pub(crate) extern "C" fn before_context(context: *const ucontext_t) {
    // SAFETY: null or the program's, from which libc is about to take all registers.
    if let Some(context) = unsafe { context.as_ref() } {
        chain::goes_on_at(chain::stack_of(context));
    }
}

/// The calling thread is about to go on with a context, and keeps the one that it is in.
pub(crate) extern "C" fn before_switch() {
    chain::switches();
}

#[cfg(test)]
mod tests;
