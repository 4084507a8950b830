//! Fetching cache lines from other processors before they are needed.
//!
//! A line that another processor has written last takes 50 to 200 ns to come; several that are asked
//! for at the same time come at the same time. These are hints: they change nothing, whatever the
//! address, and where there is no instruction for one it is nothing.
//!
//! Lines to be written are better left alone until they are, but for those whose reader is known to
//! be done with them: from others they are taken away, and asked back (measured: a tenth to a third
//! fewer requests a second).

/// Bytes of a line.
pub const LINE: usize = 64;

/// The line at `place` will be read soon.
#[inline(always)]
pub fn will_read(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that accesses nothing; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The line at `place` will be written soon, and no other thread looks at it until then.
#[inline(always)]
pub fn will_write(place: *const u8) {
    // By its name: the compiler makes a hint for reading of its own hint for writing, unless it may
    // rely on a processor that has the instruction. Others pass over it.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that accesses nothing.
    unsafe {
        core::arch::asm!(
            "prefetchw byte ptr [{}]",
            in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: likewise.
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

/// For a thread that looks at a line again and again until another processor has written it: the next look is made
/// after this one. Otherwise the processor makes looks of the future beforehand, finds that the line has been taken
/// from it, and must throw away all that it has begun since: just when the news have come. Takes 1 to 2 ns; the
/// processor's own hint for such loops takes 30 on some, for the good of the other thread of its core.
#[inline(always)]
pub fn look_in_turn() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: no memory is accessed; every x86-64 has it.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
}
