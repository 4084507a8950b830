//! Which thread takes a connection back: one at a time, of all processes that have it.

use crate::conn::{Guard, flag};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_sync::section::{self, Inside};
use sovia_sync::thread;
use sovia_sys::call;

/// The work of taking a connection back. Until this is dropped the calling thread alone does it, and no signal
/// handler of the program runs in it: one that left by `longjmp` would leave the work half done, and every
/// thread that waits for it waiting.
///
/// Another thread may close the connection meanwhile, and the slot may get another connection. The
/// work is begun and ended under the slot's lock, for the connection that is meant and no other.
pub(super) struct Work {
    at: Ref,
    inside: Option<Inside>,
}

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
        let inside = Some(section::inside());
        let Some(guard) = at.attached() else { return Begun::Over };
        if at.conn.set(flag::RETREATING) & flag::RETREATING != 0 {
            return Begun::Others;
        }
        at.conn.retreater.store(thread::thread_id() as u32, Ordering::Release);
        Begun::Mine(Work { at, inside }, guard)
    }

    /// What it is done to.
    pub(super) fn connection(&self) -> Ref {
        self.at
    }

    /// Takes the work over from a thread that has died over it, to begin anew. If that thread had bytes in its
    /// hands ([`flag::IN_HANDS`]) they are lost.
    pub(super) fn inherit(at: Ref) -> Option<(Work, Guard<'static>)> {
        let inside = Some(section::inside());
        let guard = at.attached()?;
        let other = at.conn.retreater.load(Ordering::Acquire);
        if !at.conn.has(flag::RETREATING) || other == 0 || call::task_exists(other as i32) {
            return None;
        }
        at.conn.retreater.store(thread::thread_id() as u32, Ordering::Release);
        Some((Work { at, inside }, guard))
    }

    /// Ends it for a connection that stays on its VI.
    pub(super) fn give_up(self, guard: &mut Guard<'_>) {
        guard.conn.clear(flag::RETREATING | flag::IN_HANDS);
        self.leave();
        // What a thread of Sovia's has left alone meanwhile.
        crate::stream::handled::handle(guard);
    }

    /// Leaves it to the relay, a relative of this process.
    pub(super) fn leave(mut self) {
        drop(self.inside.take());
        core::mem::forget(self);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let at = self.at;
        let _locked = at.conn.lock();
        if at.conn.is_generation(at.generation) {
            at.conn.clear(flag::RETREATING | flag::IN_HANDS);
        }
    }
}
