//! Which news of a VI the NIC's thread is told.

use crate::slot::lock;
use crate::state::{Core, CqShared, ViShared};
use std::sync::Arc;
use via::ViState;

impl ViShared {
    /// Has the thread told of the next completion, and takes what was there before.
    pub(crate) fn arm(&self, core: &mut Core) {
        if let Some(link) = &mut core.link {
            if !link.is_armed {
                link.is_armed = link.pair.cq().arm().is_ok();
            }
            self.poll(core);
        }
    }

    /// For the thread: there is news of this VI. Returns whether the program polls it, so that the thread need not.
    pub(crate) fn stirred(&self) -> bool {
        let core = &mut *lock(&self.core);
        if let Some(link) = &mut core.link {
            link.is_armed = false;
        }
        self.poll(core);
        let polls = if core.sleepers > 0 {
            self.news.notify_all();
            true
        } else {
            self.looks.are_new()
        };
        if !polls {
            self.looks.shorten();
        }
        if core.wants() || !polls {
            self.arm(core);
        }
        polls
    }

    /// For the thread that has watched `cq`: there is news of this VI. The next watch asks for more of a VI that is attached to that queue.
    pub(crate) fn stirred_for(&self, cq: &Arc<CqShared>) {
        let core = &mut *lock(&self.core);
        if let Some(link) = &mut core.link {
            link.is_armed = false;
        }
        self.poll(core);
        if core.sleepers > 0 {
            self.news.notify_all();
        }
        let is_its =
            |queue: &Option<Arc<CqShared>>| queue.as_ref().is_some_and(|it| Arc::ptr_eq(it, cq));
        if core.wants() || !(is_its(&core.send.cq) || is_its(&core.recv.cq)) {
            self.arm(core);
        }
    }

    /// For the thread, once in a while: whether the program still polls this VI. If not, the thread is told of what comes from now on, so
    /// that a descriptor is done though its program makes no call.
    pub(crate) fn is_polled(&self) -> bool {
        if self.looks.are_new() {
            self.looks.lengthen();
            return true;
        }
        let core = &mut *lock(&self.core);
        let done = |core: &Core| (core.send.work.position(), core.recv.work.position());
        let before = done(core);
        self.arm(core);
        if done(core) != before {
            // It has waited for the thread.
            self.looks.shorten();
        }
        false
    }

    /// The connection is there.
    pub(crate) fn connected(&self, core: &mut Core) {
        core.state = ViState::Connected;
        core.attempt = None;
        self.looks.shorten();
        if core.wants() {
            self.arm(core);
        }
        self.news.notify_all();
    }
}
