//! Threads that wait for a connection outside its lock, and how often threads have slept for it.

use super::Conn;
use crate::members::{self, COUNTERS};
use core::sync::atomic::{AtomicU16, Ordering};

impl Conn {
    /// By what a thread that waits for the connection is known to ([`sovia_sync::hazard`]).
    pub(crate) fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Counts the calling thread among those that wait for the connection.
    #[inline]
    pub fn begin_waiting(&self) {
        self.waiting_of(members::place()).fetch_add(1, Ordering::AcqRel);
    }

    /// Counts it out. In a child that was forked in the middle of a wait, it has not been counted in.
    #[inline]
    pub fn end_waiting(&self) {
        let less = |count: u16| count.checked_sub(1);
        let counter = self.waiting_of(members::place());
        let _ = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// The counter of the process with that place in the family. Places whose numbers differ by a multiple of [`COUNTERS`] share one.
    fn waiting_of(&self, place: usize) -> &AtomicU16 {
        &self.waiting[place % COUNTERS]
    }

    /// No thread of the process that has that place in the family waits: it is a new one. What a process with a shared counter
    /// has left there stays: it wakes threads for nothing, and none is forgotten.
    pub(crate) fn forget_waiting(&self, place: usize) {
        if !members::have_been(COUNTERS) {
            self.waiting_of(place).store(0, Ordering::Relaxed);
        }
    }

    /// Whether any thread of the family waits.
    pub fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|count| count.load(Ordering::Acquire) != 0)
    }

    /// How many threads of this process wait, at most.
    pub fn waiting_here(&self) -> usize {
        if !members::is_known() {
            return 0;
        }
        usize::from(self.waiting_of(members::place()).load(Ordering::Acquire))
    }

    /// Counts a sleep for it.
    pub(crate) fn sleeping(&self) {
        self.sleeps.store(self.sleeps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How often threads have slept for it.
    pub(crate) fn sleeps(&self) -> u64 {
        u64::from(self.sleeps.load(Ordering::Relaxed))
    }
}
