//! The code that the kernel calls for a signal, and that calls the program's handler.
//!
//! A handler may be left by unwinding, through `pthread_exit`, cancellation, or a C++ exception thrown for a
//! fault. Where a panic aborts, nothing can unwind through Rust functions. So no Rust function is between the
//! kernel's frame and the handler. The function here has no variables to drop, and describes how to unwind its
//! frame.
//!
//! The unwinder calls [`unwound`] when it unwinds an outermost handler. A handler within another handler is
//! called from a part with separate unwind tables, which call nothing. In this case the thread stays in the outer
//! handler, or leaves it by a way that this library sees.

use super::{begin, end, unwound};
use core::ffi::{c_int, c_void};
use libc::siginfo_t;

/// Receives every signal for which the program has a handler. [`begin`] returns the handler to call, or none. The
/// argument for [`end`] is kept in this frame.
///
/// # Safety
/// The kernel must call this, as a handler that is installed with SA_SIGINFO.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn trampoline(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {unwound}",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 32",
        "mov [rbp - 8], rdi",
        "mov [rbp - 16], rsi",
        "mov [rbp - 24], rdx",
        "call {begin}",
        "test rax, rax",
        "jz 3f",
        "mov [rbp - 32], rdx",
        "mov rdi, [rbp - 8]",
        "mov rsi, [rbp - 16]",
        "test rdx, rdx",
        "mov rdx, [rbp - 24]",
        "jnz 4f",
        "call rax",
        "2:",
        "mov rdi, [rbp - 24]",
        "mov rsi, [rbp - 32]",
        "call {end}",
        "3:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        ".cfi_startproc",
        ".cfi_def_cfa rbp, 16",
        ".cfi_offset rbp, -16",
        "4:",
        "call rax",
        "jmp 2b",
        ".cfi_endproc",
        begin = sym begin,
        end = sym end,
        unwound = sym unwound,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {unwound}",
        "stp x29, x30, [sp, #-48]!",
        ".cfi_def_cfa_offset 48",
        ".cfi_offset x29, -48",
        ".cfi_offset x30, -40",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "str x0, [x29, #16]",
        "str x1, [x29, #24]",
        "str x2, [x29, #32]",
        "bl {begin}",
        "cbz x0, 3f",
        "str x1, [x29, #40]",
        "mov x9, x0",
        "mov x10, x1",
        "ldr x0, [x29, #16]",
        "ldr x1, [x29, #24]",
        "ldr x2, [x29, #32]",
        "cbnz x10, 4f",
        "blr x9",
        "2:",
        "ldr x0, [x29, #32]",
        "ldr x1, [x29, #40]",
        "bl {end}",
        "3:",
        "ldp x29, x30, [sp], #48",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        ".cfi_startproc",
        ".cfi_def_cfa x29, 48",
        ".cfi_offset x29, -48",
        ".cfi_offset x30, -40",
        "4:",
        "blr x9",
        "b 2b",
        ".cfi_endproc",
        begin = sym begin,
        end = sym end,
        unwound = sym unwound,
    );
}
