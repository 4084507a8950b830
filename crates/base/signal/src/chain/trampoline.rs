//! Where the kernel enters: before the program's handler, and after it.
//!
//! A handler may be left by unwinding: `pthread_exit` and cancellation do that, and a C++ exception thrown for a fault.
//! Rust's own functions let nothing unwind through them where a panic aborts, so none of them stands
//! between the kernel's frame and the handler. This one has no variables to drop, and says how its frame is unwound.

use super::{begin, end};
use core::ffi::{c_int, c_void};
use libc::siginfo_t;

/// Begins with every signal for which the program has a handler: [`begin`] says which, or none; what it notes for
/// [`end`] lies in this frame.
///
/// # Safety
/// To be installed as a handler with SA_SIGINFO only.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn trampoline(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 32",
        "mov [rbp - 8], rdi",
        "mov [rbp - 16], rsi",
        "mov [rbp - 24], rdx",
        "lea rcx, [rbp - 32]",
        "call {begin}",
        "test rax, rax",
        "jz 2f",
        "mov rdi, [rbp - 8]",
        "mov rsi, [rbp - 16]",
        "mov rdx, [rbp - 24]",
        "call rax",
        "mov rdi, [rbp - 24]",
        "mov rsi, [rbp - 32]",
        "call {end}",
        "2:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        begin = sym begin,
        end = sym end,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-48]!",
        ".cfi_def_cfa_offset 48",
        ".cfi_offset x29, -48",
        ".cfi_offset x30, -40",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "str x0, [x29, #16]",
        "str x1, [x29, #24]",
        "str x2, [x29, #32]",
        "add x3, x29, #40",
        "bl {begin}",
        "cbz x0, 2f",
        "mov x9, x0",
        "ldr x0, [x29, #16]",
        "ldr x1, [x29, #24]",
        "ldr x2, [x29, #32]",
        "blr x9",
        "ldr x0, [x29, #32]",
        "ldr x1, [x29, #40]",
        "bl {end}",
        "2:",
        "ldp x29, x30, [sp], #48",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        begin = sym begin,
        end = sym end,
    );
}
