//! The lock of a connection. Only the lock's holder may use the connection's body and its endpoint of the VI.

use super::{Body, Conn, flag};
use core::ops::{Deref, DerefMut};
use sovia_sync::{Acquired, critical_section, thread};
use std::sync::OnceLock;

impl Conn {
    /// Takes the connection's lock, which gives access to the body. Waits for other threads.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        self.taken(self.lock.lock())
    }

    /// Takes the connection's lock. Returns `None` if other threads hold the lock for `ns` nanoseconds.
    pub(crate) fn lock_within(&self, ns: u64) -> Option<Locked<'_>> {
        self.lock.lock_within(ns).map(|acquired| self.taken(acquired))
    }

    #[inline]
    fn taken(&self, acquired: Acquired) -> Locked<'_> {
        if acquired == Acquired::FromTheDead {
            self.set(flag::TORN);
        }
        Locked { conn: self, is_outermost: acquired.is_held() }
    }

    /// Takes the connection's lock. Returns `None` if this process does not have the connection on a VI.
    #[inline]
    pub fn attached(&self) -> Option<Guard<'_>> {
        self.lock().attached()
    }

    /// Takes the connection's lock without waiting. Returns `None` if a living thread holds the lock.
    pub(crate) fn lock_if_free(&self) -> Option<Locked<'_>> {
        let acquired = self.lock.lock_within(0).filter(|acquired| acquired.is_held())?;
        Some(self.taken(acquired))
    }

    /// Takes the connection's lock without waiting. Returns `None` if the lock is not free.
    #[inline]
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        // A closure, so that no `Locked` is made if the lock is not free: dropping it would release another
        // thread's lock.
        self.lock.try_lock().then(|| Locked { conn: self, is_outermost: true })
    }

    /// Returns true if the calling thread holds the connection's lock. In a signal handler, this means that the
    /// handler has interrupted a call on the connection.
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.is_mine()
    }

    /// Returns true if the caller runs in a signal handler that has interrupted a call on the same connection. Then
    /// the caller must not use the connection. After 1000 such results in a row, the thread must have left the
    /// interrupted call by `longjmp`. So this returns false, and the caller uses the lock that the thread still
    /// holds.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        // Fast path: a thread that is in no critical section does not hold the lock.
        if !critical_section::is_inside() && !thread::is_refused() {
            return false;
        }
        self.is_refused()
    }

    #[cold]
    #[inline(never)]
    fn is_refused(&self) -> bool {
        const PATIENCE: u32 = 1000;
        let mine = self.lock.is_mine();
        let before = thread::count_refusal(mine);
        mine && before < PATIENCE
    }
}

/// The locked body of a connection, on TCP or on a VI. Dropping this value releases the lock.
#[derive(Debug)]
pub struct Locked<'a> {
    /// The locked connection.
    pub conn: &'a Conn,
    /// True if dropping this value must release the lock. False if the thread already held the lock before.
    pub(super) is_outermost: bool,
}

impl Deref for Locked<'_> {
    type Target = Body;

    #[inline]
    fn deref(&self) -> &Body {
        // SAFETY: a `Locked` exists only while the calling thread holds the lock, so no other thread accesses the body.
        unsafe { &*self.conn.body.get() }
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Body {
        // SAFETY: a `Locked` exists only while the calling thread holds the lock, so no other thread accesses the
        // body. `self` is borrowed mutably, so no other reference to the body comes from this `Locked`.
        unsafe { &mut *self.conn.body.get() }
    }
}

impl<'a> Locked<'a> {
    /// Returns a [`Guard`] if this process has the connection on a VI. Repairs the body if a thread died while it
    /// held the lock.
    #[inline]
    pub(crate) fn attached(self) -> Option<Guard<'a>> {
        let conn = self.conn;
        if !conn.is_attached_here() {
            return None;
        }
        let mut guard = Guard(self);
        if conn.has(flag::TORN) {
            conn.clear(flag::TORN);
            repair(&mut guard);
        }
        Some(guard)
    }
}

impl Locked<'_> {
    /// Adds the traffic since the last call of this function to the statistics.
    pub(crate) fn settle_traffic(&mut self) {
        let traffic = core::mem::take(&mut self.traffic);
        self.past += traffic;
        for page in crate::stats::pages() {
            page.add(&traffic);
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_outermost {
            self.conn.lock.unlock();
        }
    }
}

/// The locked body of a connection that this process has on a VI. The holder may use the endpoint, because the
/// segment stays mapped. A process leaves the VI only under the lock (at a close in [`crate::ops`], and in
/// [`crate::fallback`]).
#[derive(Debug)]
pub struct Guard<'a>(pub(super) Locked<'a>);

impl<'a> Deref for Guard<'a> {
    type Target = Locked<'a>;

    #[inline]
    fn deref(&self) -> &Locked<'a> {
        &self.0
    }
}

impl<'a> DerefMut for Guard<'a> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Locked<'a> {
        &mut self.0
    }
}

/// Function that repairs a connection's body after a thread died while it held the connection's lock.
static REPAIR: OnceLock<fn(&mut Guard<'_>)> = OnceLock::new();

/// Registers the function that repairs a connection's body after the death of the lock's holder. [`crate::stream`]
/// has this function. Called once, at the process's start.
pub(crate) fn repair_by(repair: fn(&mut Guard<'_>)) {
    let _ = REPAIR.set(repair);
}

#[cold]
#[inline(never)]
fn repair(guard: &mut Guard<'_>) {
    if let Some(repair) = REPAIR.get() {
        repair(guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_thread_holds_is_not_given_back_by_trying() {
        // SAFETY: all-zero memory is a valid `Conn`, a free slot.
        let conn: Box<Conn> = unsafe { Box::<Conn>::new_zeroed().assume_init() };
        let guard = conn.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(conn.try_lock().is_none()));
        });
        assert!(conn.is_mine());
        drop(guard);
        assert!(conn.try_lock().is_some());
        assert!(!conn.is_mine());
    }
}
