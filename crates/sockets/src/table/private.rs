//! Descriptors of the library itself.

use super::slots::{for_each_word, slot, slot_to_enter};
use super::word::{KIND, PRIVATE};
use crate::per_engine::per_engine;
use crate::process;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::fd;

/// From now on the table records private descriptors.
pub fn start() {
    fd::observe(observe);
}

/// Adds a private descriptor to the table, or removes it.
fn observe(fd: i32, made: bool) {
    if process::is_borrowed() {
        // In a child of vfork with a descriptor table of its own, the number means nothing here.
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
        // Counted before it is entered, so that a child forked in between does not close more than are counted.
        COUNT.fetch_add(1, Ordering::Relaxed);
        if slot.swap(word, Ordering::AcqRel) & KIND == PRIVATE {
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns true if `more` further private descriptors have free numbers, unless the program has taken these.
pub(crate) fn has_room_for(more: usize) -> bool {
    COUNT.load(Ordering::Relaxed) as usize + more <= fd::private_numbers()
}

per_engine! {
    /// Number of private descriptors in the table.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    /// Number of forks between this process and the first process of its family.
    static FORKS: AtomicU32 = AtomicU32::new(0);
}

/// Called in a forked child, to distinguish inherited descriptors from the child's own.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Calls `each` for every descriptor of the library that this process has inherited from its parent.
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
