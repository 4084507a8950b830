//! Which news of a VI the NIC's thread is told.

use crate::slot::lock;
use crate::state::{Card, Core, CqShared, Job, ViShared};
use std::sync::Arc;
use via::ViState;

impl Card {
    /// Has the NIC's channel tell of every VI's next completion.
    pub(crate) fn arm_all(&self) {
        self.all().iter().for_each(|vi| vi.arm(&mut lock(&vi.core)));
    }
}

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

    /// Takes what there is news of; whether threads sleep that are told of it.
    fn take_news(&self, core: &mut Core) -> bool {
        if let Some(link) = &mut core.link {
            link.is_armed = false;
        }
        self.poll(core);
        if core.sleepers > 0 {
            self.news.notify_all();
        }
        core.sleepers > 0
    }

    /// For the thread: there is news of this VI. Returns whether the program polls it, so that the thread need not.
    pub(crate) fn stirred(&self) -> bool {
        let core = &mut *lock(&self.core);
        let polls = self.take_news(core) || self.looks.are_new();
        if !polls {
            self.looks.shorten();
        }
        if core.wants() || !polls {
            self.arm(core);
        }
        polls
    }

    /// For the thread that has watched `cq`: there is news of this VI. The next watch arms those that are attached to that queue.
    pub(crate) fn stirred_for(self: &Arc<Self>, cq: &Arc<CqShared>) {
        if !self.is_attached_to(cq) {
            if self.stirred() {
                self.card.job(Job::Polled(Arc::downgrade(self)));
            }
            return;
        }
        let core = &mut *lock(&self.core);
        self.take_news(core);
        if core.wants() {
            self.arm(core);
        }
    }

    fn is_attached_to(&self, cq: &Arc<CqShared>) -> bool {
        let core = lock(&self.core);
        [&core.send.cq, &core.recv.cq].into_iter().flatten().any(|it| Arc::ptr_eq(it, cq))
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
