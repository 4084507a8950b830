//! Hints that fetch cache lines from other processors before they are needed.
//!
//! A line that another processor has written last takes 50 to 200 ns to arrive. Several requested lines arrive at
//! the same time. The hints change no data and never fault, whatever the address. On a processor without such an
//! instruction they do nothing.
//!
//! A program should not request lines for writing early, unless the reader has finished with them. Otherwise it
//! takes the lines from readers, which then request them again (measured: a tenth to a third fewer requests per
//! second).

/// Number of bytes in a cache line.
pub const LINE: usize = 64;

/// Fetches the line at `place`, which this thread will soon read.
#[inline(always)]
pub fn will_read(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the hint accesses no data, and every x86-64 processor has this instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Fetches the line at `place` for writing. No other thread should read the line before this thread writes it.
#[inline(always)]
pub fn will_write(place: *const u8) {
    // Use the instruction by name. For its own hint for writing, the compiler emits a hint for reading, unless it may
    // rely on a processor with this instruction. Other processors ignore the instruction.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the hint accesses no data.
    unsafe {
        core::arch::asm!(
            "prefetchw byte ptr [{}]",
            in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the hint accesses no data.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{}]",
            in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

/// Orders the next read of a line after this one, in a loop that waits until another processor has written the
/// line. Without this, the processor executes later reads in advance. When the other processor takes the line,
/// this processor must discard all this work, just when the new value arrives. Takes 1 to 2 ns. On some
/// processors the usual hint for such loops takes 30 ns, for the benefit of the core's other thread.
#[inline(always)]
pub fn look_in_turn() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction accesses no memory, and every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
}
