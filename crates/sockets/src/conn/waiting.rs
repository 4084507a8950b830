//! Counts the threads that wait for a connection without holding its lock, and the number of their sleeps.

use super::Conn;
use crate::process_slots::{self, COUNTERS};
use core::sync::atomic::{AtomicU16, Ordering};

impl Conn {
    /// Returns the connection's address. Waiting threads announce this address, so that the connection stays valid
    /// ([`sovia_sync::hazard`]).
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Counts the calling thread among the threads that wait for the connection.
    #[inline]
    pub fn begin_waiting(&self) {
        self.waiting_of(process_slots::own_slot()).fetch_add(1, Ordering::AcqRel);
    }

    /// Removes the calling thread from the count of threads that wait for the connection. A child that was forked
    /// during a wait was not counted, so its counter may already be 0.
    #[inline]
    pub fn end_waiting(&self) {
        let less = |count: u16| count.checked_sub(1);
        let counter = self.waiting_of(process_slots::own_slot());
        let _ = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// Returns the counter of waiting threads for process slot `slot`. Process slots whose numbers differ by a
    /// multiple of [`COUNTERS`] share a counter.
    fn waiting_of(&self, slot: usize) -> &AtomicU16 {
        &self.waiting[slot % COUNTERS]
    }

    /// Clears the counter of process slot `slot`, because a new process has taken this process slot. Does nothing
    /// if processes may share counters. A count that is too high causes only needless wake-ups, but with a count
    /// that is too low wake-ups would be lost.
    pub(crate) fn forget_waiting(&self, slot: usize) {
        if !process_slots::have_been(COUNTERS) {
            self.waiting_of(slot).store(0, Ordering::Relaxed);
        }
    }

    /// Returns true if any thread of the family waits for the connection.
    pub fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|count| count.load(Ordering::Acquire) != 0)
    }

    /// Returns an upper limit of the number of this process's threads that wait for the connection.
    pub fn waiting_here(&self) -> usize {
        if !process_slots::is_known() {
            return 0;
        }
        usize::from(self.waiting_of(process_slots::own_slot()).load(Ordering::Acquire))
    }

    /// Counts a sleep of a thread that waits for the connection.
    pub(crate) fn sleeping(&self) {
        self.sleeps.store(self.sleeps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns how often threads have slept for the connection.
    pub(crate) fn sleeps(&self) -> u64 {
        u64::from(self.sleeps.load(Ordering::Relaxed))
    }
}
