//! Words of the program's memory, in the middle of other work.
//!
//! Faults are gathered in a flag that is looked at once, after the last word: so a word costs what a
//! plain access costs.

use super::BadAddress;

/// Whether one of several accesses has met a bad address.
#[derive(Debug, Default)]
pub struct Fault(u32);

impl Fault {
    /// None yet.
    #[inline(always)]
    pub fn none() -> Fault {
        Fault(0)
    }

    /// What has become of all accesses.
    ///
    /// # Errors
    /// [`BadAddress`] if one of them failed.
    #[inline(always)]
    pub fn check(self) -> Result<(), BadAddress> {
        if self.0 == 0 { Ok(()) } else { Err(BadAddress) }
    }
}

/// Whole numbers that are accessed by one instruction.
pub trait Word: Copy {
    /// Loads one.
    ///
    /// # Safety
    /// See [`load_word`].
    unsafe fn load(from: *const Self, fault: &mut Fault) -> Self;

    /// Stores one.
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
                // SAFETY: the instruction is in the table of those that may fault, and its landing
                // sets the flag; the value is then whatever the register held.
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
                // SAFETY: as above; the flag is set if nothing was stored.
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
                // SAFETY: the table lists the instruction, so a fault in it goes on at the landing, which
                // sets the flag. The value is then whatever the register held.
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
                // SAFETY: the table lists the instruction, so a fault in it goes on at the landing, which
                // sets the flag. Nothing was stored then.
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
                // SAFETY: the caller's contract.
                unsafe { from.read_unaligned() }
            }

            unsafe fn store(to: *mut $type, value: $type, _: &mut Fault) {
                // SAFETY: the caller's contract.
                unsafe { to.write_unaligned(value) }
            }
        })*
    };
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
word!(u8 u16 u32 u64);

/// Loads a word, however it is aligned; anything if that fails.
///
/// # Safety
/// The memory is the program's: it may be unmapped, but no reference of Rust's may be relied on there.
#[inline(always)]
pub unsafe fn load_word<W: Word>(from: *const W, fault: &mut Fault) -> W {
    // SAFETY: the caller's contract.
    unsafe { W::load(from, fault) }
}

/// Stores a word, however it is aligned; nothing if that fails.
///
/// # Safety
/// As for [`load_word`].
#[inline(always)]
pub unsafe fn store_word<W: Word>(to: *mut W, value: W, fault: &mut Fault) {
    // SAFETY: the caller's contract.
    unsafe { W::store(to, value, fault) }
}
