//! A lane: packets that a device hands over, and what a peer tells of its receives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::input::Input;
use sovia_lane::fuzzing::{credit, packet};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    if kind & 1 == 0 {
        return packet(rest);
    }
    let mut input = Input::new(rest);
    // Counts near those that can be, and others.
    let mut told = 0u32;
    credit(core::iter::from_fn(|| {
        if input.is_empty() {
            return None;
        }
        Some(match input.u8() {
            255 => Some(input.u64() as u32),
            step if step & 1 == 0 => {
                told = told.wrapping_add(u32::from(step) * 2);
                Some(told)
            }
            _ => None,
        })
    }));
});
