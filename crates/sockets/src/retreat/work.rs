//! Which thread takes a connection back: one at a time, of all processes that have it.

use crate::conn::{Guard, flag};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_sync::thread;
use sovia_sys::call;

/// The work of taking a connection back. Until this is dropped the calling thread alone does it.
///
/// Another thread may close the connection meanwhile, and the slot may get another connection. The
/// work is begun and ended under the slot's lock, for the connection that is meant and no other.
pub(super) struct Work(Ref);

/// What became of a thread's wish to take a connection back.
pub(super) enum Begun {
    /// The calling thread does it.
    Mine(Work, Guard<'static>),
    /// Another one does it.
    Others,
    /// The connection is on no VI, or this process has it no more.
    Over,
}

impl Work {
    /// Begins the work, unless another thread has.
    pub(super) fn begin(at: Ref) -> Begun {
        let Some(guard) = at.attached() else { return Begun::Over };
        if at.conn.set(flag::RETREATING) & flag::RETREATING != 0 {
            return Begun::Others;
        }
        at.conn.retreater.store(thread::thread_id() as u32, Ordering::Release);
        Begun::Mine(Work(at), guard)
    }

    /// What it is done to.
    pub(super) fn connection(&self) -> Ref {
        self.0
    }

    /// Takes the work over from a thread that has died over it. What it had in its hands is lost, as with any
    /// reader that dies.
    pub(super) fn inherit(at: Ref) -> Option<Work> {
        let _guard = at.attached()?;
        let other = at.conn.retreater.load(Ordering::Acquire);
        if !at.conn.has(flag::RETREATING) || other == 0 || call::task_exists(other as i32) {
            return None;
        }
        at.conn.set(flag::DAMAGED);
        at.conn.retreater.store(thread::thread_id() as u32, Ordering::Release);
        Some(Work(at))
    }

    /// Ends it for a connection that stays on its VI.
    pub(super) fn give_up(self, guard: &mut Guard<'_>) {
        guard.conn.clear(flag::RETREATING);
        core::mem::forget(self);
        // What a thread of Sovia's has left alone meanwhile.
        crate::stream::handled::handle(guard);
    }

    /// Leaves it to the relay, a relative of this process.
    pub(super) fn leave(self) {
        core::mem::forget(self);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let at = self.0;
        let _locked = at.conn.lock();
        if at.conn.is_generation(at.generation) {
            at.conn.clear(flag::RETREATING);
        }
    }
}
