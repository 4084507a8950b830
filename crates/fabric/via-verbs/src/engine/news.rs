//! Which news of a VI the NIC's thread is told.

use crate::slot::lock;
use crate::state::{Core, ViShared};
use sovia_verbs::Cq;
use std::sync::Arc;
use via::ViState;

impl ViShared {
    /// Has the thread told of the next completion, and takes what was there before.
    pub(crate) fn arm(&self, core: &mut Core) {
        if let Some(link) = &core.link {
            let cq: Arc<Cq> = link.pair.cq().clone();
            let _ = cq.arm();
            self.poll(core);
        }
    }

    /// For the thread: there is news of this VI. Returns whether the program polls it, so that the thread need not.
    pub(crate) fn stirred(&self) -> bool {
        let core = &mut *lock(&self.core);
        self.poll(core);
        self.news.notify_all();
        let polls = core.looks != core.looked;
        core.looked = core.looks;
        if core.wants() || !polls {
            self.arm(core);
        }
        polls
    }

    /// For the thread, once in a while: whether the program still polls this VI. If not, the thread is told of what comes from now on, so
    /// that a descriptor is done though its program makes no call.
    pub(crate) fn is_polled(&self) -> bool {
        let core = &mut *lock(&self.core);
        let polls = core.looks != core.looked && core.link.is_some();
        core.looked = core.looks;
        if !polls {
            self.arm(core);
        }
        polls
    }

    /// The connection is there.
    pub(crate) fn connected(&self, core: &mut Core) {
        core.state = ViState::Connected;
        core.attempt = None;
        if core.wants() {
            self.arm(core);
        }
        self.news.notify_all();
    }
}
