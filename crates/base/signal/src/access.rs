//! Copies between the program's memory and Sovia's memory.
//!
//! A table of the library (the section `sovia_fixups`) lists the instructions that access the program's memory.
//! If a listed instruction faults, the handler of [`crate::chain`] continues at the instruction's landing, which
//! reports the fault. So a good address costs nothing, and a bad address is an error, as in the kernel.
//!
//! Before the handler is installed ([`crate::chain::guards`]), a bad address kills the process.

mod words;

pub use words::{Fault, load_word, probe_byte, store_word};

use core::mem::MaybeUninit;
use libc::ucontext_t;
use sovia_sys::{UserSlice, UserSliceMut};

/// Number of bytes at the beginning of the address space that are never mapped.
const FIRST_PAGE: usize = 4096;

/// Error: the program has passed an address that it must not use in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAddress;

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod machine {
    use libc::ucontext_t;

    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        ".hidden __start_sovia_fixups",
        ".hidden __stop_sovia_fixups",
        ".pushsection .text.sovia_copy,\"ax\",@progbits",
        ".globl sovia_copy",
        ".hidden sovia_copy",
        ".type sovia_copy, @function",
        ".p2align 5",
        "sovia_copy:",
        ".cfi_startproc",
        "2:",
        "cmp rdx, 16",
        "jb 7f",
        "cmp rdx, 2048",
        "ja 6f",
        // The last 16 bytes overlap with earlier bytes of the copy.
        "12:",
        "movups xmm4, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 16]",
        "3:",
        "cmp rdx, 64",
        "jb 4f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "add rsi, 64",
        "add rdi, 64",
        "sub rdx, 64",
        "jmp 3b",
        "4:",
        "cmp rdx, 16",
        "jb 5f",
        "movups xmm0, [rsi]",
        "movups [rdi], xmm0",
        "add rsi, 16",
        "add rdi, 16",
        "sub rdx, 16",
        "jmp 4b",
        "5:",
        "movups [r8], xmm4",
        "xor eax, eax",
        "ret",
        // More than 2048 bytes. AMD's Zen 3 moves 2 bytes per nanosecond instead of 60 if the target lies 1 to 31
        // bytes after the source within the page. Then each load waits for a store that only seems to have the
        // same address.
        "6:",
        "lea eax, [edi - 1]",
        "sub eax, esi",
        "and eax, 4095",
        "cmp eax, 64",
        "jb 12b",
        "mov rcx, rdx",
        "rep movsb",
        "xor eax, eax",
        "ret",
        // Fewer than 16 bytes.
        "7:",
        "cmp rdx, 8",
        "jb 8f",
        "mov rax, [rsi]",
        "mov rcx, [rsi + rdx - 8]",
        "mov [rdi], rax",
        "mov [rdi + rdx - 8], rcx",
        "xor eax, eax",
        "ret",
        "8:",
        "cmp rdx, 4",
        "jb 9f",
        "mov eax, [rsi]",
        "mov ecx, [rsi + rdx - 4]",
        "mov [rdi], eax",
        "mov [rdi + rdx - 4], ecx",
        "xor eax, eax",
        "ret",
        "9:",
        "mov rcx, rdx",
        "rep movsb",
        "xor eax, eax",
        "ret",
        "22:",
        "mov eax, 1",
        "ret",
        ".cfi_endproc",
        ".size sovia_copy, . - sovia_copy",
        ".pushsection sovia_fixups,\"aR\",@progbits",
        ".balign 4",
        ".long 2b - .",
        ".long 22b - .",
        ".long 22b - .",
        ".popsection",
        ".popsection",
    );

    #[cfg(target_arch = "aarch64")]
    core::arch::global_asm!(
        ".hidden __start_sovia_fixups",
        ".hidden __stop_sovia_fixups",
        ".pushsection .text.sovia_copy,\"ax\",@progbits",
        ".globl sovia_copy",
        ".hidden sovia_copy",
        ".type sovia_copy, @function",
        ".p2align 5",
        "sovia_copy:",
        ".cfi_startproc",
        "2:",
        "add x3, x1, x2",
        "add x4, x0, x2",
        "cmp x2, #16",
        "b.lo 7f",
        // The last 16 bytes overlap with earlier bytes of the copy.
        "ldur q4, [x3, #-16]",
        "3:",
        "subs x2, x2, #64",
        "b.lo 4f",
        "ldp q0, q1, [x1]",
        "ldp q2, q3, [x1, #32]",
        "stp q0, q1, [x0]",
        "stp q2, q3, [x0, #32]",
        "add x1, x1, #64",
        "add x0, x0, #64",
        "b 3b",
        // The lowest six bits of x2 are the number of bytes left.
        "4:",
        "tbz x2, #5, 5f",
        "ldp q0, q1, [x1], #32",
        "stp q0, q1, [x0], #32",
        "5:",
        "tbz x2, #4, 6f",
        "ldr q0, [x1]",
        "str q0, [x0]",
        "6:",
        "stur q4, [x4, #-16]",
        "mov w0, wzr",
        "ret",
        // Fewer than 16 bytes.
        "7:",
        "tbz x2, #3, 8f",
        "ldr x5, [x1]",
        "ldur x6, [x3, #-8]",
        "str x5, [x0]",
        "stur x6, [x4, #-8]",
        "mov w0, wzr",
        "ret",
        "8:",
        "tbz x2, #2, 9f",
        "ldr w5, [x1]",
        "ldur w6, [x3, #-4]",
        "str w5, [x0]",
        "stur w6, [x4, #-4]",
        "mov w0, wzr",
        "ret",
        "9:",
        "tbz x2, #1, 12f",
        "ldrh w5, [x1]",
        "ldurh w6, [x3, #-2]",
        "strh w5, [x0]",
        "sturh w6, [x4, #-2]",
        "mov w0, wzr",
        "ret",
        "12:",
        "cbz x2, 13f",
        "ldrb w5, [x1]",
        "strb w5, [x0]",
        "13:",
        "mov w0, wzr",
        "ret",
        "22:",
        "mov w0, #1",
        "ret",
        ".cfi_endproc",
        ".size sovia_copy, . - sovia_copy",
        ".pushsection sovia_fixups,\"aR\",@progbits",
        ".balign 4",
        ".long 2b - .",
        ".long 22b - .",
        ".long 22b - .",
        ".popsection",
        ".popsection",
    );

    unsafe extern "C" {
        /// Copies `len` bytes. Returns 0 if all bytes were copied.
        pub(super) fn sovia_copy(to: *mut u8, from: *const u8, len: usize) -> u32;

        static __start_sovia_fixups: [i32; 0];
        static __stop_sovia_fixups: [i32; 0];
    }

    /// Continues at the landing if the table lists the interrupted instruction. Returns false if not.
    pub(super) fn resume(context: &mut ucontext_t) -> bool {
        #[cfg(target_arch = "x86_64")]
        let at = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
        #[cfg(target_arch = "aarch64")]
        let at = &mut context.uc_mcontext.pc;
        // Keeps the object with the table in the link. A linker defines the table's two symbols only if the
        // section exists.
        core::hint::black_box(sovia_copy as *const ());
        // SAFETY: the two symbols are the beginning and end of the table, which no code writes. An entry has
        // three distances, each relative to its own address: the first instruction, the instruction after the
        // last one, and the landing.
        unsafe {
            let mut entry = &raw const __start_sovia_fixups as *const i32;
            let end = &raw const __stop_sovia_fixups as *const i32;
            while entry < end {
                let place = |i: usize| {
                    let distance = entry.add(i);
                    distance.addr().wrapping_add_signed(*distance as isize)
                };
                if (place(0)..place(1)).contains(&(*at as usize)) {
                    *at = place(2) as _;
                    return true;
                }
                entry = entry.add(3);
            }
        }
        false
    }
}

/// Copies without a table, so a bad address kills the process.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod machine {
    use libc::ucontext_t;

    pub(super) unsafe fn sovia_copy(to: *mut u8, from: *const u8, len: usize) -> u32 {
        // SAFETY: by contract both ranges are valid and do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
        0
    }

    pub(super) fn resume(_: &mut ucontext_t) -> bool {
        false
    }
}

/// Resumes after a copy that met a bad address. Returns false if another instruction faulted.
pub(crate) fn resume(context: &mut ucontext_t) -> bool {
    machine::resume(context)
}

/// Copies `len` bytes. After an error, some bytes may have been copied.
///
/// # Safety
/// The two ranges must not overlap. Each range must be valid, or must not belong to this library. A range of the
/// second kind may be unmapped, and no code here may rely on its content.
///
/// # Errors
/// [`BadAddress`] if a part of either range cannot be accessed.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), BadAddress> {
    // No memory is ever mapped in the first page. This check works even without the handler, as in programs that
    // use libsovia.
    if (to as usize).min(from as usize) < FIRST_PAGE && len != 0 {
        return Err(BadAddress);
    }
    // SAFETY: by contract each range is valid or belongs to the program. The table lists the instructions of
    // `sovia_copy`, so a fault returns an error.
    match unsafe { machine::sovia_copy(to, from, len) } {
        0 => Ok(()),
        _ => Err(BadAddress),
    }
}

/// Copies the first bytes of `from` to the beginning of `to`, as many as fit. After an error, some bytes may have
/// been copied.
///
/// # Errors
/// [`BadAddress`] if a part of `from` cannot be read.
#[inline]
pub fn read(from: UserSlice<'_>, to: &mut [u8]) -> Result<(), BadAddress> {
    // SAFETY: `to` is borrowed for writing and has as many bytes. By the contract of `UserSlice::new`, the source
    // is valid or belongs to the program.
    unsafe { copy(to.as_mut_ptr(), from.as_ptr(), from.len().min(to.len())) }
}

/// Copies the first bytes of `from` to the beginning of `to`, as many as fit. After an error, some bytes may have
/// been copied.
///
/// # Errors
/// [`BadAddress`] if a part of `to` cannot be written.
#[inline]
pub fn write(to: UserSliceMut<'_>, from: &[u8]) -> Result<(), BadAddress> {
    // SAFETY: `from` is borrowed and has as many bytes. By the contract of `UserSliceMut::new`, the target is
    // valid or belongs to the program.
    unsafe { copy(to.as_mut_ptr(), from.as_ptr(), from.len().min(to.len())) }
}

/// Copies `len` bytes between valid ranges, fast at every alignment. For some pairs of addresses, glibc's memcpy
/// makes a processor copy at a twentieth of its speed (see `sovia_copy`).
///
/// # Safety
/// The two ranges must be valid and must not overlap.
#[inline(always)]
pub unsafe fn copy_valid(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by contract the two ranges are valid and do not overlap.
    let failed = unsafe { machine::sovia_copy(to, from, len) };
    debug_assert_eq!(failed, 0, "memory that is said to be there");
}

/// Copies the value at a program's pointer, which may have any alignment.
///
/// # Safety
/// Every bit pattern must be a valid `T`. The memory must belong to the program, as for [`copy`].
///
/// # Errors
/// [`BadAddress`] if the value cannot be read.
#[inline]
pub unsafe fn load<T: Copy>(from: *const T) -> Result<T, BadAddress> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the target is a local of this size. By contract the source belongs to the program, and all bits are
    // a valid `T`.
    unsafe {
        copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>())?;
        Ok(value.assume_init())
    }
}

/// Stores a value at a program's pointer, which may have any alignment.
///
/// # Safety
/// `T` must have no padding. The memory must belong to the program, as for [`copy`].
///
/// # Errors
/// [`BadAddress`] if the value cannot be written.
#[inline]
pub unsafe fn store<T: Copy>(to: *mut T, value: T) -> Result<(), BadAddress> {
    // SAFETY: the source is a local of this size. By contract the target belongs to the program.
    unsafe { copy(to.cast(), (&raw const value).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_are_exact() {
        let from: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
        for len in (0..300).chain([2047, 2048, 2049, 4999]) {
            for shift in [0, 1] {
                let mut to = vec![0xeeu8; 5010];
                // SAFETY: both ranges are live and long enough.
                unsafe {
                    copy(to.as_mut_ptr().add(3), from.as_ptr().add(shift), len - shift.min(len))
                }
                .unwrap();
                let n = len - shift.min(len);
                assert_eq!(to[3..3 + n], from[shift..shift + n]);
                assert!(to[3 + n..].iter().all(|&b| b == 0xee) && to[..3] == [0xee; 3]);
            }
        }
    }

    #[test]
    fn long_copies_are_exact_however_the_two_lie_to_each_other_in_their_pages() {
        const LEN: usize = 3001;
        let bytes: Vec<u8> = (0..LEN as u32).map(|i| (i * 13 + i / 256) as u8).collect();
        let mut from = vec![0; LEN + 8192];
        let mut to = vec![0xee; LEN + 16384];
        let start = |of: &[u8]| of.as_ptr().align_offset(4096);
        for (at, behind) in
            (0..80).map(|behind| (behind * 7 % 64, behind)).chain([(5, 4095), (0, 2048)])
        {
            let (source, target) = (start(&from) + at, start(&to) + at + behind);
            from[source..source + LEN].copy_from_slice(&bytes);
            to.fill(0xee);
            // SAFETY: both ranges are live and long enough.
            unsafe { copy_valid(to.as_mut_ptr().add(target), from.as_ptr().add(source), LEN) };
            assert_eq!(to[target..target + LEN], bytes, "{at}, {behind}");
            assert_eq!([to[target - 1], to[target + LEN]], [0xee; 2], "{at}, {behind}");
        }
    }
}
