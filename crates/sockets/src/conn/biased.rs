//! The lock of a connection, taken by the thread that it favours.
//!
//! It comes to the same as [`Conn::attached`], in fewer instructions: nothing is found out here that a thread which is
//! not favoured would have to know.

use super::{Conn, Guard, Locked, flag};
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use sovia_sync::thread;

/// The locked body of a connection that this process has on a VI, for the thread that the lock favours. Its lock is given
/// back in place: what drops a [`Guard`] looks first which way the lock was taken.
#[derive(Debug)]
pub struct Biased<'a>(ManuallyDrop<Guard<'a>>);

impl Conn {
    /// Takes the lock of a connection that this process has on a VI, if the lock favours the calling thread, which is
    /// under no lock; `None` otherwise, and where a thread has died under the lock.
    #[inline(always)]
    pub(crate) fn biased(&self, generation: u32) -> Option<Biased<'_>> {
        // A thread that has left a call by `longjmp` is told so where calls begin in general.
        if thread::is_refused() || !self.lock.lock_biased() {
            return None;
        }
        let biased = Biased(ManuallyDrop::new(Guard(Locked { conn: self, is_outermost: true })));
        // `biased` gives the lock back where it is not returned.
        let is_here = self.is_attached_here() && self.is_generation(generation);
        (is_here && !self.has(flag::TORN)).then_some(biased)
    }
}

impl Biased<'_> {
    /// Gives the lock back: the same as letting it go, in place.
    #[inline(always)]
    pub(crate) fn leave(self) {
        ManuallyDrop::new(self).0.conn.lock.unlock_biased();
    }
}

impl Drop for Biased<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The guard within has nothing else to give back.
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
