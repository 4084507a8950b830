//! This process, and how it is told from a child that borrows its memory.

use core::sync::atomic::{AtomicI32, Ordering};

/// The process whose tables these are. A vfork'ed child runs on our memory under another id.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Whether the caller is a vfork'ed child: it may use what we know, but not change it.
pub fn is_borrowed() -> bool {
    OWNER.load(Ordering::Relaxed) != crate::process_id()
}

/// This process's id, as it was noted at its start: no system call.
#[inline]
pub fn owner() -> i32 {
    OWNER.load(Ordering::Relaxed)
}

/// Notes that the tables are this process's: at its start, and in a forked child.
pub(crate) fn own() {
    OWNER.store(crate::process_id(), Ordering::Relaxed);
}
