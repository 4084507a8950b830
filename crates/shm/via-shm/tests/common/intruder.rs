//! Finds the segments in this process and writes to them, as an intruder would.

#![allow(dead_code, reason = "each test file uses what it needs")]

use crate::common::Random;
use sovia_ring::layout::SEGMENT;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the addresses of all segments mapped into this process.
pub(crate) fn segments() -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        (rest.contains("/memfd:sovia") && to - from == SEGMENT).then_some(from)
    };
    maps.lines().filter_map(line).collect()
}

/// Overwrites a word of a segment.
pub(crate) fn scribble(at: usize, value: u64) {
    // SAFETY: `at` is a multiple of 8 in a segment, which stays mapped as long as its VIs live. The segment holds only
    // atomics and pool bytes, and the crate under test accepts any value there.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Relaxed);
}

/// Returns a value that may do harm: random, near a limit, or the old value with a changed bit.
pub(crate) fn evil(random: &mut Random, at: usize) -> u64 {
    // SAFETY: `at` is a multiple of 8 in a segment, which stays mapped as long as its VIs live.
    let old = unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Ordering::Relaxed);
    match random.below(9) {
        0 => random.next(),
        5 => old & 0xffff_ffff | random.next() << 32,
        6 => old & !0xffff_ffff | random.next() >> 32,
        7 => old & 0xffff_ffff | (random.next() & 0x801f_ffff) << 32,
        1 => u64::MAX,
        2 => 0,
        3 => old ^ 1 << random.below(64),
        4 => old.wrapping_add(1 << random.below(34)),
        _ => random.next() >> random.below(64),
    }
}
