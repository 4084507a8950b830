//! Descriptors of the library itself.

use super::slots::{for_each_word, slot, slot_to_enter};
use super::word::{KIND, PRIVATE};
use crate::per_engine::per_engine;
use crate::process;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::fd;

/// From here on private descriptors are in the table.
pub fn start() {
    fd::observe(observe);
}

/// Marks a private descriptor as such, or unmarks it.
fn observe(fd: i32, made: bool) {
    if process::is_borrowed() {
        // A number of another table of descriptors.
    } else if made {
        enter_private(fd);
    } else if let Some(slot) = slot(fd) {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == PRIVATE
            && slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Records a descriptor of the library itself.
fn enter_private(fd: i32) {
    if let Some(slot) = slot_to_enter(fd) {
        let word = PRIVATE | u64::from(FORKS.load(Ordering::Relaxed));
        // Before it is there: a child that is forked in between closes no more than are counted.
        COUNT.fetch_add(1, Ordering::Relaxed);
        if slot.swap(word, Ordering::AcqRel) & KIND == PRIVATE {
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether so many more private descriptors find numbers, unless the program has taken those.
pub(crate) fn has_room_for(more: usize) -> bool {
    COUNT.load(Ordering::Relaxed) as usize + more <= fd::private_numbers()
}

per_engine! {
    /// Private descriptors in the table.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    /// Counts the forks between this process and the first of its family.
    static FORKS: AtomicU32 = AtomicU32::new(0);
}

/// In a forked child: distinguishes what it has from its parent from what it makes itself.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Calls `each` for every descriptor of the library's that this process has from its parent.
pub(crate) fn for_each_inherited(mut each: impl FnMut(i32)) {
    let forks = u64::from(FORKS.load(Ordering::Relaxed));
    if forks == 0 {
        return;
    }
    for_each_word(|fd, slot| {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == PRIVATE && word != PRIVATE | forks {
            slot.store(PRIVATE | forks, Ordering::Release);
            each(fd);
        }
    });
}
