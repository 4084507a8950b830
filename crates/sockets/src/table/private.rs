//! The library's own descriptors, which are private.

use super::slots::{for_each_word, slot, slot_to_enter};
use super::word::{KIND, PRIVATE};
use crate::per_engine::per_engine;
use crate::process;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::fd;

/// Makes the table record private descriptors from now on.
pub fn start() {
    fd::observe(observe);
}

/// Adds a private descriptor to the table if `made` is true. Removes the descriptor if `made` is false.
fn observe(fd: i32, made: bool) {
    if process::is_borrowed() {
        // Ignore a descriptor of a vfork child with its own descriptor table. Its number means nothing in this
        // process.
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

/// Records a private descriptor.
fn enter_private(fd: i32) {
    if let Some(slot) = slot_to_enter(fd) {
        let word = PRIVATE | u64::from(FORKS.load(Ordering::Relaxed));
        // Count the descriptor before it is entered. A child forked in between closes at most the counted number.
        COUNT.fetch_add(1, Ordering::Relaxed);
        if slot.swap(word, Ordering::AcqRel) & KIND == PRIVATE {
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns true if there are free numbers for `more` further private descriptors. Ignores numbers that the program
/// has taken.
pub(crate) fn has_room_for(more: usize) -> bool {
    COUNT.load(Ordering::Relaxed) as usize + more <= fd::private_numbers()
}

per_engine! {
    /// Number of private descriptors in the table.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    /// Number of forks between this process and the first process of its family.
    static FORKS: AtomicU32 = AtomicU32::new(0);
}

/// Counts a fork, to distinguish inherited private descriptors from the child's own. Called in a forked child.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Calls `each` for every private descriptor that this process has inherited from its parent. A second call finds
/// no descriptor.
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
