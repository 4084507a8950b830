//! Hooks for `longjmp`, `setcontext` and `swapcontext`, by which a thread may leave a signal handler.
//!
//! Sovia must know if a thread still runs a signal handler. The depth of the stack does not show if a thread has
//! left the handler. After a jump the thread may soon use as much stack as the handler did. So the hooks check
//! before the jump if the thread will continue on the handler's part of the stack. A thread can return to the
//! handler only after a `swapcontext`. So a thread that leaves a handler by `swapcontext` counts as running the
//! handler until the handler returns.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use libc::{c_int, ucontext_t};
use sovia_signal::chain;

/// Index of the stack pointer in a `jmp_buf`, in words.
const STACK: usize = if cfg!(target_arch = "x86_64") { 6 } else { 13 };

/// Guard by which libc hides addresses in a `jmp_buf` (an exclusive or). Valid if `IS_KNOWN` is set.
static GUARD: AtomicUsize = AtomicUsize::new(0);
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn __sigsetjmp(buffer: *mut c_void, saves_mask: c_int) -> c_int;
}

/// Undoes the rotation by which libc hides an address in a `jmp_buf`. Does not undo the exclusive or with the
/// guard.
fn turned_back(kept: usize) -> usize {
    if cfg!(target_arch = "x86_64") { kept.rotate_right(17) } else { kept }
}

/// Finds the guard. The library's constructor calls this function, before the program's own code runs. If this libc
/// hides addresses in another way, the hooks check nothing. Then a thread counts as running a handler until its
/// stack is less deep than the handler's stack.
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
    // SAFETY: `found` has room for both words.
    unsafe { keep_stack(&raw mut found) };
    turned_back(found[1]) ^ found[0]
}

/// Stores in `found` the stack pointer, and the value that libc stores for this stack pointer in a `jmp_buf`. No
/// code ever jumps to this `jmp_buf`.
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

/// Records that the calling thread is about to jump to the place that `buffer` describes.
pub(crate) extern "C" fn before_jump(buffer: *const usize) {
    if IS_KNOWN.load(Ordering::Relaxed) && !buffer.is_null() {
        // SAFETY: the program passes a valid `jmp_buf`, from which libc is about to read all registers.
        let kept = unsafe { buffer.add(STACK).read() };
        chain::goes_on_at(turned_back(kept) ^ GUARD.load(Ordering::Relaxed));
    }
}

/// Records that the calling thread is about to continue with `context`, and will not return to its present context.
pub(crate) extern "C" fn before_context(context: *const ucontext_t) {
    // SAFETY: the program passes null or a valid context, from which libc is about to read all registers.
    if let Some(context) = unsafe { context.as_ref() } {
        chain::goes_on_at(chain::stack_of(context));
    }
}

/// Records that the calling thread is about to continue with another context, and may return to its present
/// context.
pub(crate) extern "C" fn before_switch() {
    chain::switches();
}

#[cfg(test)]
mod tests;
