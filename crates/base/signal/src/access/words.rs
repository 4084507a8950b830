//! Access to single words of the program's memory, between other work.
//!
//! Each access records a fault in a flag, and the caller checks this flag once, after the last word. So a word
//! costs as much as a plain access.

use super::BadAddress;

/// Set after one of several accesses has met a bad address.
#[derive(Debug, Default)]
pub struct Fault(u32);

impl Fault {
    /// Returns the state without a fault.
    #[inline(always)]
    pub fn none() -> Fault {
        Fault(0)
    }

    /// Returns the result of all accesses.
    ///
    /// # Errors
    /// [`BadAddress`] if one of them failed.
    #[inline(always)]
    pub fn check(self) -> Result<(), BadAddress> {
        if self.0 == 0 { Ok(()) } else { Err(BadAddress) }
    }
}

/// Integers that one instruction can access.
pub trait Word: Copy {
    /// Loads a word.
    ///
    /// # Safety
    /// See [`load_word`].
    unsafe fn load(from: *const Self, fault: &mut Fault) -> Self;

    /// Stores a word.
    ///
    /// # Safety
    /// See [`store_word`].
    unsafe fn store(to: *mut Self, value: Self, fault: &mut Fault);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! word {
    ($($type:ty: $class:ident $size:literal $modifier:literal;)*) => {
        $(impl Word for $type {
            #[inline(always)]
            unsafe fn load(from: *const $type, fault: &mut Fault) -> $type {
                let value: $type;
                // SAFETY: the table lists the instruction, so after a fault the thread continues at the landing,
                // which sets the flag. The value is then whatever the register held.
                unsafe {
                    core::arch::asm!(
                        concat!("2: mov {value", $modifier, "}, ", $size, " ptr [{from}]"),
                        "3:",
                        ".pushsection .text.sovia_landings,\"ax\",@progbits",
                        "4: mov {fault:e}, 1",
                        "jmp 3b",
                        ".popsection",
                        ".pushsection sovia_fixups,\"aR\",@progbits",
                        ".balign 4",
                        ".long 2b - .",
                        ".long 3b - .",
                        ".long 4b - .",
                        ".popsection",
                        from = in(reg) from,
                        value = lateout($class) value,
                        fault = inout(reg) fault.0,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }

            #[inline(always)]
            unsafe fn store(to: *mut $type, value: $type, fault: &mut Fault) {
                // SAFETY: the table lists the instruction, so after a fault the thread continues at the landing,
                // which sets the flag. Then nothing was stored.
                unsafe {
                    core::arch::asm!(
                        concat!("2: mov ", $size, " ptr [{to}], {value", $modifier, "}"),
                        "3:",
                        ".pushsection .text.sovia_landings,\"ax\",@progbits",
                        "4: mov {fault:e}, 1",
                        "jmp 3b",
                        ".popsection",
                        ".pushsection sovia_fixups,\"aR\",@progbits",
                        ".balign 4",
                        ".long 2b - .",
                        ".long 3b - .",
                        ".long 4b - .",
                        ".popsection",
                        to = in(reg) to,
                        value = in($class) value,
                        fault = inout(reg) fault.0,
                        options(nostack, preserves_flags),
                    );
                }
            }
        })*
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
word! {
    u8: reg_byte "byte" "";
    u16: reg "word" ":x";
    u32: reg "dword" ":e";
    u64: reg "qword" ":r";
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! word {
    ($($type:ty: $load:literal $store:literal $modifier:literal;)*) => {
        $(impl Word for $type {
            #[inline(always)]
            unsafe fn load(from: *const $type, fault: &mut Fault) -> $type {
                let value: $type;
                // SAFETY: the table lists the instruction, so after a fault the thread continues at the landing,
                // which sets the flag. The value is then whatever the register held.
                unsafe {
                    core::arch::asm!(
                        concat!("2: ", $load, " {value:", $modifier, "}, [{from}]"),
                        "3:",
                        ".pushsection .text.sovia_landings,\"ax\",@progbits",
                        "4: mov {fault:w}, #1",
                        "b 3b",
                        ".popsection",
                        ".pushsection sovia_fixups,\"aR\",@progbits",
                        ".balign 4",
                        ".long 2b - .",
                        ".long 3b - .",
                        ".long 4b - .",
                        ".popsection",
                        from = in(reg) from,
                        value = lateout(reg) value,
                        fault = inout(reg) fault.0,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                value
            }

            #[inline(always)]
            unsafe fn store(to: *mut $type, value: $type, fault: &mut Fault) {
                // SAFETY: the table lists the instruction, so after a fault the thread continues at the landing,
                // which sets the flag. Then nothing was stored.
                unsafe {
                    core::arch::asm!(
                        concat!("2: ", $store, " {value:", $modifier, "}, [{to}]"),
                        "3:",
                        ".pushsection .text.sovia_landings,\"ax\",@progbits",
                        "4: mov {fault:w}, #1",
                        "b 3b",
                        ".popsection",
                        ".pushsection sovia_fixups,\"aR\",@progbits",
                        ".balign 4",
                        ".long 2b - .",
                        ".long 3b - .",
                        ".long 4b - .",
                        ".popsection",
                        to = in(reg) to,
                        value = in(reg) value,
                        fault = inout(reg) fault.0,
                        options(nostack, preserves_flags),
                    );
                }
            }
        })*
    };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
word! {
    u8: "ldrb" "strb" "w";
    u16: "ldrh" "strh" "w";
    u32: "ldr" "str" "w";
    u64: "ldr" "str" "x";
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
macro_rules! word {
    ($($type:ty)*) => {
        $(impl Word for $type {
            unsafe fn load(from: *const $type, _: &mut Fault) -> $type {
                // SAFETY: by contract the memory belongs to the program, and no reference of Rust points there.
                unsafe { from.read_unaligned() }
            }

            unsafe fn store(to: *mut $type, value: $type, _: &mut Fault) {
                // SAFETY: by contract the memory belongs to the program, and no reference of Rust points there.
                unsafe { to.write_unaligned(value) }
            }
        })*
    };
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
word!(u8 u16 u32 u64);

/// Loads a word of any alignment. Returns an arbitrary value after a fault.
///
/// # Safety
/// The memory must belong to the program, and no reference of Rust may point there. Unmapped memory is allowed.
#[inline(always)]
pub unsafe fn load_word<W: Word>(from: *const W, fault: &mut Fault) -> W {
    // SAFETY: by contract the memory belongs to the program, and no reference of Rust points there.
    unsafe { W::load(from, fault) }
}

/// Stores a word of any alignment. Stores nothing after a fault.
///
/// # Safety
/// The contract of [`load_word`].
#[inline(always)]
pub unsafe fn store_word<W: Word>(to: *mut W, value: W, fault: &mut Fault) {
    // SAFETY: by contract the memory belongs to the program, and no reference of Rust points there.
    unsafe { W::store(to, value, fault) }
}

/// Finds out whether a byte is writable. The byte keeps its value, and no store of another thread gets lost.
///
/// # Safety
/// The contract of [`load_word`].
#[inline]
pub unsafe fn probe_byte(at: *mut u8, fault: &mut Fault) {
    // SAFETY: the table lists the instruction, so after a fault the thread continues at the landing, which sets the
    // flag. By contract the memory belongs to the program.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!(
            "2: lock or byte ptr [{at}], 0",
            "3:",
            ".pushsection .text.sovia_landings,\"ax\",@progbits",
            "4: mov {fault:e}, 1",
            "jmp 3b",
            ".popsection",
            ".pushsection sovia_fixups,\"aR\",@progbits",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".long 4b - .",
            ".popsection",
            at = in(reg) at,
            fault = inout(reg) fault.0,
            options(nostack),
        );
    }
    // SAFETY: as on x86-64, for the two instructions between the labels 2 and 3.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        core::arch::asm!(
            "2: ldxrb {value:w}, [{at}]",
            "stxrb {failed:w}, {value:w}, [{at}]",
            "cbnz {failed:w}, 2b",
            "3:",
            ".pushsection .text.sovia_landings,\"ax\",@progbits",
            "4: mov {fault:w}, #1",
            "b 3b",
            ".popsection",
            ".pushsection sovia_fixups,\"aR\",@progbits",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".long 4b - .",
            ".popsection",
            at = in(reg) at,
            value = out(reg) _,
            failed = out(reg) _,
            fault = inout(reg) fault.0,
            options(nostack),
        );
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = (at, fault);
}
