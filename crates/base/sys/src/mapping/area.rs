//! Addresses of shared memory, which a program must be able to map again after an exec.
//!
//! The shared memory contains addresses of itself, so all its processes map it at the same address. After an exec the
//! address space is empty. The kernel and the dynamic linker choose random addresses for the program, its heap, its
//! stack and its libraries. They choose none in this area. So a mapping in this area can have the same address in the
//! next program.

use crate::call;
use core::sync::atomic::{AtomicUsize, Ordering};

/// First address of the area. Linux on x86-64 and aarch64 places programs, libraries and stacks above the area, or in
/// the lowest part of the address space. The memory of AddressSanitizer and ThreadSanitizer lies elsewhere, too.
const FROM: usize = 0x3400_0000_0000;
const END: usize = 0x5400_0000_0000;
/// Distance between the first bytes of two places.
const STEP: usize = 1 << 30;
const PAGE: usize = 1 << 12;
/// Number of places to try for one mapping. Only memory that the program has mapped at fixed addresses takes places.
const TRIES: usize = 16;

/// The next place to use; 0 before the first use.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Returns true if a program that this process executes most likely has no other memory at this address.
pub fn is_free_in_programs(base: usize) -> bool {
    (FROM..END).contains(&base)
}

/// Returns addresses for a mapping of `len` bytes, in the order in which to try them.
pub(super) fn places(len: usize) -> impl Iterator<Item = usize> {
    core::iter::repeat_with(move || staggered(take(len), len)).take(TRIES)
}

/// Returns an address for `len` bytes in the room from `place` to the next multiple of [`STEP`].
///
/// A program reads the same few pages of each of its segments. Without the stagger, these pages would compete for one
/// set of the TLB, and their page-table entries for one set of the cache.
fn staggered(place: usize, len: usize) -> usize {
    let pages = (len.next_multiple_of(STEP) - len) / PAGE + 1;
    // Fibonacci hashing spreads consecutive numbers evenly.
    let spread = (place / STEP).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    place + spread % pages * PAGE
}

fn take(len: usize) -> usize {
    let len = len.next_multiple_of(STEP);
    let after = |place: usize| if place + len <= END - len { place + len } else { FROM };
    let next = |place: usize| Some(after(if place == 0 { first() } else { place }));
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    match NEXT.fetch_update(success, failure, next) {
        Ok(0) | Err(_) => take(len),
        Ok(place) if place + len <= END => place,
        Ok(_) => FROM,
    }
}

/// Returns a random place. Processes choose different places, so a program finds the places free that it must map
/// for another process.
fn first() -> usize {
    let mut bytes = [0; 8];
    let _ = call::getrandom(&mut bytes);
    let place = usize::from_ne_bytes(bytes) % ((END - FROM) / STEP);
    FROM + place * STEP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Mapping, sealed_memory};
    use std::collections::HashSet;

    #[test]
    fn a_mapping_lies_in_the_area_and_can_be_repeated_there() {
        let file = sealed_memory(c"test", 4096).unwrap();
        let base = {
            let mapping = Mapping::shared_with_programs(file.raw(), 4096).unwrap();
            let base = mapping.base() as usize;
            assert!(is_free_in_programs(base), "{base:#x}");
            assert_eq!(
                Mapping::shared_at(base, file.raw(), 4096).unwrap_err(),
                call::Errno::EEXIST
            );
            base
        };
        assert_eq!(Mapping::shared_at(base, file.raw(), 4096).unwrap().base() as usize, base);
        // Memory that no program takes over must not take these addresses.
        let other = Mapping::shared(file.raw(), 4096).unwrap();
        assert!(!is_free_in_programs(other.base() as usize));
    }

    #[test]
    fn places_stay_in_the_area() {
        for len in [1, PAGE, 6 << 20, STEP - 1, STEP, (20 << 30) + (40 << 20)] {
            for place in places(len).chain(places(len)) {
                assert!(place >= FROM && place + len <= END, "{place:#x}");
                assert!(place.is_multiple_of(PAGE));
            }
        }
    }

    #[test]
    fn consecutive_places_differ_in_the_lowest_bits_of_their_page_numbers() {
        const LEN: usize = (20 << 30) + (40 << 20);
        let sets: HashSet<usize> = (0..128)
            .map(|i| staggered(FROM + i * LEN.next_multiple_of(STEP), LEN) / PAGE % 128)
            .collect();
        assert!(sets.len() > 64, "{} sets", sets.len());
    }
}
