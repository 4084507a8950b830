//! Fast path: takes the lock of a connection on the thread that has the lock's bias.
//!
//! Takes the same lock as [`Conn::attached`] in fewer instructions, because the thread with the bias needs fewer
//! checks.

#[cfg(doc)]
use super::flag;
use super::{Conn, Guard, Locked};
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use sovia_sync::thread;

/// Like [`Guard`], for the thread that has the lock's bias. Releases the lock in fewer instructions, because it
/// need not check how the lock was taken.
#[derive(Debug)]
pub struct Biased<'a>(ManuallyDrop<Guard<'a>>);

impl Conn {
    /// Takes the lock of a connection that this process has on a VI, if the calling thread has the lock's bias.
    /// Otherwise returns `None`. Also returns `None` in a critical section. If a thread has died under the lock
    /// ([`flag::TORN`]), the caller must take the slower path.
    #[inline(always)]
    pub(crate) fn biased(&self, generation: u32) -> Option<Biased<'_>> {
        // If the thread may have left an earlier call by `longjmp`, the caller must take the slower path.
        if thread::is_refused() || !self.lock.lock_biased() {
            return None;
        }
        let biased = Biased(ManuallyDrop::new(Guard(Locked { conn: self, is_outermost: true })));
        // If this function returns `None`, dropping `biased` releases the lock.
        (self.is_attached_here() && self.is_generation(generation)).then_some(biased)
    }
}

impl Biased<'_> {
    /// Releases the lock, like a drop, but inlined into the caller.
    #[inline(always)]
    pub(crate) fn leave(self) {
        ManuallyDrop::new(self).0.conn.lock.unlock_biased();
    }
}

impl Drop for Biased<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The inner `Guard` is never dropped. It has nothing else to release.
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
