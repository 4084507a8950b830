//! `dprintf` and `__dprintf_chk`. Rust cannot define variadic functions, so these functions are written in
//! assembly.

use super::{__vdprintf_chk, vdprintf};

/// Defines a variadic function, whose `$named` named arguments are in the first registers. The function calls
/// `$by_list` with the named arguments and with a `va_list` of the other arguments.
macro_rules! with_list {
    ($name:ident calls $by_list:ident, $named:literal arguments, $x86:literal, $arm:literal) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            // Section 3.5.7 of the psABI defines the layout of a `va_list`.
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 208",
                "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx", "mov [rsp + 32], r8", "mov [rsp + 40], r9",
                "movups [rsp + 48], xmm0", "movups [rsp + 64], xmm1",
                "movups [rsp + 80], xmm2", "movups [rsp + 96], xmm3",
                "movups [rsp + 112], xmm4", "movups [rsp + 128], xmm5",
                "movups [rsp + 144], xmm6", "movups [rsp + 160], xmm7",
                // Fields of the `va_list`: offsets of the next general and vector registers, stack arguments, saved
                // registers.
                "mov dword ptr [rsp + 176], 8 * {named}",
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rbp + 16]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                concat!("lea ", $x86, ", [rsp + 176]"),
                "call {by_list}",
                "leave",
                "ret",
                named = const $named,
                by_list = sym $by_list,
            );
            // Appendix B of AAPCS64 defines the layout of a `va_list`.
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "sub sp, sp, #240",
                "stp x29, x30, [sp]",
                "mov x29, sp",
                "stp x0, x1, [sp, #48]", "stp x2, x3, [sp, #64]",
                "stp x4, x5, [sp, #80]", "stp x6, x7, [sp, #96]",
                "stp q0, q1, [sp, #112]", "stp q2, q3, [sp, #144]",
                "stp q4, q5, [sp, #176]", "stp q6, q7, [sp, #208]",
                // Fields of the `va_list`: stack arguments, end of the saved general registers, end of the saved
                // vector registers. Then the negative offsets of the next arguments from these two ends.
                "add x9, sp, #240",
                "str x9, [sp, #16]",
                "add x10, sp, #112",
                "str x10, [sp, #24]",
                "str x9, [sp, #32]",
                "mov w9, #(8 * {named} - 64)",
                "str w9, [sp, #40]",
                "mov w9, #-128",
                "str w9, [sp, #44]",
                concat!("add ", $arm, ", sp, #16"),
                "bl {by_list}",
                "ldp x29, x30, [sp]",
                "add sp, sp, #240",
                "ret",
                named = const $named,
                by_list = sym $by_list,
            );
        }
    };
}

with_list!(dprintf calls vdprintf, 2 arguments, "rdx", "x2");
with_list!(__dprintf_chk calls __vdprintf_chk, 3 arguments, "rcx", "x3");
