//! The lock of a connection, and what its holder has: the body, and the VI.

use super::{Body, Conn, flag};
use core::ops::{Deref, DerefMut};
use sovia_sync::{Acquired, section, thread};
use std::sync::OnceLock;

impl Conn {
    /// Takes the lock and with it the body.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        self.taken(self.lock.lock())
    }

    /// Takes the lock, unless others hold it for so many nanoseconds.
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

    /// Takes the lock of a connection that this process has on a VI; `None` if it has not, or no more.
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
        // Made only once the lock is held: one that is dropped gives the lock back, whichever thread has it.
        self.lock.try_lock().then(|| Locked { conn: self, is_outermost: true })
    }

    /// Whether the calling thread is in the middle of a call on it, which a signal handler has
    /// interrupted.
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.is_mine()
    }

    /// Whether a call of a signal handler must not go on here, because the handler has interrupted a
    /// call on the same connection. One that finds it so a thousand times in a row has left the
    /// interrupted call by `longjmp`; then the call goes on under the lock that the thread still has.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        // A thread that has the lock is in a section.
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

/// The locked body of a connection, wherever that runs.
#[derive(Debug)]
pub struct Locked<'a> {
    /// The connection.
    pub conn: &'a Conn,
    /// Whether the lock was free before.
    pub(super) is_outermost: bool,
}

impl Deref for Locked<'_> {
    type Target = Body;

    #[inline]
    fn deref(&self) -> &Body {
        // SAFETY: a Locked exists only while the lock is held.
        unsafe { &*self.conn.body.get() }
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Body {
        // SAFETY: as for `deref`, and it is borrowed mutably.
        unsafe { &mut *self.conn.body.get() }
    }
}

impl<'a> Locked<'a> {
    /// The same, if this process has the connection on a VI.
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
    /// What has been counted since the last time goes to the statistics.
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

/// The locked body of a connection that this process has on a VI: its endpoint may be used. The segment
/// stays mapped meanwhile, because the process leaves the VI only under the lock ([`crate::ops`]'s close,
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

/// Makes a body whole whose last owner died in the middle of something.
static REPAIR: OnceLock<fn(&mut Guard<'_>)> = OnceLock::new();

/// Has `repair` make bodies whole that the dead have left: what that takes is known to
/// [`crate::stream`] alone. Said once, at the start.
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
        // SAFETY: connections are made of zeroed memory of the family's.
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
