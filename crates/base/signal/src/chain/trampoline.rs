//! Where the kernel enters: before the program's handler, and after it.
//!
//! A handler may be left by unwinding: `pthread_exit` and cancellation do that, and a C++ exception thrown for a fault.
//! Rust's own functions let nothing unwind through them where a panic aborts, so none of them stands
//! between the kernel's frame and the handler. This one has no variables to drop, and says how its frame is unwound.
//!
//! While an outermost handler is unwound, [`unwound`] is told. One within another is called from a part with unwind
//! tables of its own, which call nothing: the thread stays in the outer handler, or what it leaves by says more.

use super::{begin, end, unwound};
use core::ffi::{c_int, c_void};
use libc::siginfo_t;

/// Begins with every signal for which the program has a handler: [`begin`] says which, or none; what it says for
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
