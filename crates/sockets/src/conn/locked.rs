//! The lock of a connection, and what its holder may use: the body and the VI.

use super::{Body, Conn, flag};
use core::ops::{Deref, DerefMut};
use sovia_sync::{Acquired, section, thread};
use std::sync::OnceLock;

impl Conn {
    /// Takes the lock, which gives access to the body.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        self.taken(self.lock.lock())
    }

    /// Takes the lock. Returns `None` if other threads hold it for `ns` nanoseconds.
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

    /// Takes the lock of a connection that this process has on a VI. Returns `None` if this process does not have it on
    /// a VI.
    #[inline]
    pub fn attached(&self) -> Option<Guard<'_>> {
        self.lock().attached()
    }

    /// Takes the lock, unless a living thread holds it.
    pub(crate) fn lock_if_free(&self) -> Option<Locked<'_>> {
        let acquired = self.lock.lock_within(0).filter(|acquired| acquired.is_held())?;
        Some(self.taken(acquired))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        // Lazy, because dropping a `Locked` releases the lock, even if another thread holds it.
        self.lock.try_lock().then(|| Locked { conn: self, is_outermost: true })
    }

    /// Returns true if the calling thread holds the lock: it runs in a signal handler that has interrupted a call on
    /// the connection.
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.is_mine()
    }

    /// Returns true if a call in a signal handler has interrupted a call on the same connection, and so must not
    /// continue. If this happens a thousand times in a row, the thread must have left the interrupted call by
    /// `longjmp`. Then the call continues under the lock that the thread still has.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        // A thread that holds the lock is in a critical section.
        if !section::is_inside() && !thread::is_refused() {
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

/// The locked body of a connection, on TCP or on a VI.
#[derive(Debug)]
pub struct Locked<'a> {
    /// The connection.
    pub conn: &'a Conn,
    /// True if this value must release the lock: the thread did not already hold it.
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
        // SAFETY: a `Locked` exists only while the calling thread holds the lock, so no other thread accesses the body.
        // `self` is borrowed mutably, so this is the only reference through it.
        unsafe { &mut *self.conn.body.get() }
    }
}

impl<'a> Locked<'a> {
    /// Returns a [`Guard`] if this process has the connection on a VI. Repairs the body if a thread died while changing
    /// it.
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
    /// Adds the traffic since the last call to the statistics.
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

/// The locked body of a connection that this process has on a VI. The endpoint may be used: the segment stays mapped,
/// because a process leaves the VI only under the lock (close in [`crate::ops`], [`crate::fallback`]).
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

/// Function that repairs a body whose last owner died while changing it.
static REPAIR: OnceLock<fn(&mut Guard<'_>)> = OnceLock::new();

/// Registers the function that repairs bodies after the death of their owner. Only [`crate::stream`] knows how to
/// repair a body. Called once, at the start.
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
        // SAFETY: a connection is valid as all-zero memory, as in the family's memory.
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
