//! Takes the lock of a connection on the thread that has the lock's bias.
//!
//! The result is that of [`Conn::attached`], in fewer instructions. This module omits the checks that only other
//! threads need.

use super::{Conn, Guard, Locked, flag};
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use sovia_sync::thread;

/// The locked body of a connection that this process has on a VI, for the thread that has the lock's bias. Releases the
/// lock inline, without first finding out how it was taken, as a [`Guard`] must.
#[derive(Debug)]
pub struct Biased<'a>(ManuallyDrop<Guard<'a>>);

impl Conn {
    /// Takes the lock of a connection that this process has on a VI, if the calling thread has the lock's bias.
    /// Otherwise returns `None`. Also returns `None` in a critical section, or if a thread has died under the lock.
    #[inline(always)]
    pub(crate) fn biased(&self, generation: u32) -> Option<Biased<'_>> {
        // The general path handles a thread that has left a call by `longjmp`.
        if thread::is_refused() || !self.lock.lock_biased() {
            return None;
        }
        let biased = Biased(ManuallyDrop::new(Guard(Locked { conn: self, is_outermost: true })));
        // Dropping `biased` releases the lock if this function does not return it.
        let is_here = self.is_attached_here() && self.is_generation(generation);
        (is_here && !self.has(flag::TORN)).then_some(biased)
    }
}

impl Biased<'_> {
    /// Releases the lock. Equivalent to a drop, but inlined.
    #[inline(always)]
    pub(crate) fn leave(self) {
        ManuallyDrop::new(self).0.conn.lock.unlock_biased();
    }
}

impl Drop for Biased<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The inner guard has nothing else to release.
        self.0.conn.lock.unlock_biased();
    }
}

impl<'a> Deref for Biased<'a> {
    type Target = Guard<'a>;

    #[inline(always)]
    fn deref(&self) -> &Guard<'a> {
        &self.0
    }
}

impl<'a> DerefMut for Biased<'a> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Guard<'a> {
        &mut self.0
    }
}
