//! Events of a VI, for the NIC's thread.

use crate::slot::lock;
use crate::state::{Card, Core, CqShared, Job, ViShared};
use std::sync::Arc;
use via::ViState;

impl Card {
    /// Arms all VIs, so that the NIC's channel reports the next completion of each.
    pub(crate) fn arm_all(&self) {
        self.all().iter().for_each(|vi| vi.arm(&mut lock(&vi.core)));
    }
}

impl ViShared {
    /// Arms the VI, so that the NIC's channel reports its next completion. Takes the completions from before.
    pub(crate) fn arm(&self, core: &mut Core) {
        if let Some(link) = &mut core.link {
            if !link.is_armed {
                link.is_armed = link.pair.cq().arm().is_ok();
            }
            self.poll(core);
        }
    }

    /// Takes the completions after an event, and wakes sleeping threads. Returns true if there was such a thread.
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

    /// Handles an event of this VI, on the NIC's thread. Returns true if the program polls the VI or waits for it, so
    /// that the NIC's thread need not.
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

    /// Handles an event of this VI, on a thread that has watched `cq`. The next watch arms the VIs that are attached to
    /// this queue.
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

    /// Returns true if the program still polls this VI. The NIC's thread asks now and then. If the program does not
    /// poll, this call arms the VI. Then descriptors complete although the program makes no call.
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
            // A completion has waited for the NIC's thread, so the thread must ask again soon.
            self.looks.shorten();
        }
        false
    }

    /// Records that the VI is connected, and notifies waiting threads.
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
