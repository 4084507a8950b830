//! Whether a thread looks at a receive queue; see [`crate::engine`].

use crate::bias::Held;
use crate::engine::Listed;
use crate::link::ENGINE;
use crate::vi::inner::Core;
use crate::vi::recv::RecvSide;
use crate::vi::target::is_staged;
use core::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

/// Looks of the program that show that it polls.
const POLLS: u32 = 64;

/// How a receive queue is looked after.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    /// The program has looked since the engine last did.
    seen: bool,
    /// What the engine has seen of the completion queue's looks.
    counted: u32,
    /// The program's looks while armed.
    polls: u32,
    /// Senders wake the engine for this queue.
    pub(crate) armed: bool,
    /// The engine looks from time to time.
    listed: bool,
    /// Threads asleep in a wait on this queue, which senders wake by themselves.
    pub(crate) sleepers: u32,
}

impl RecvSide {
    /// Whether the queue is to be listed: something is to come, and no thread looks after it.
    #[inline]
    pub(crate) fn wants_listing(&self) -> bool {
        !self.attention.listed
            && !self.attention.armed
            && self.lane().is_some()
            && self.queue.work.outstanding() > 0
    }

    /// Has senders wake the engine. What has come before that is for the caller to look at.
    pub(crate) fn arm(&mut self) {
        if let Some(lane) = self.lane()
            && !self.attention.armed
        {
            lane.direction().bell.watch(ENGINE);
            fence(Ordering::SeqCst);
            self.attention.armed = true;
            self.attention.polls = 0;
        }
    }

    /// The program polls: senders need wake no thread.
    #[cold]
    pub(crate) fn disarm(&mut self) {
        if let Some(lane) = self.lane()
            && self.attention.armed
        {
            lane.direction().bell.unwatch(ENGINE);
            self.attention.armed = false;
        }
    }

    /// The program has looked for a message, and found one or not; whether there is something
    /// else to see to. A program that polls stores nothing by this.
    #[inline]
    pub(crate) fn looked(&mut self) -> bool {
        if !self.attention.seen {
            self.attention.seen = true;
        }
        self.attention.armed || self.lane().is_some_and(|lane| is_staged(lane.direction()))
    }

    pub(crate) fn polled(&mut self) {
        if self.attention.armed && !self.queue.notices.has_callbacks() {
            self.attention.polls += 1;
            if self.attention.polls >= POLLS {
                self.disarm();
            }
        }
    }
}

impl Core {
    /// Has the engine look at the receive queue from time to time, if that is wanted.
    #[cold]
    pub(crate) fn list_if_wanted(self: &Arc<Self>, mut recv: Held<'_, RecvSide>) {
        if !recv.wants_listing() {
            return;
        }
        recv.attention.listed = true;
        // The engine's own lock is not taken under a queue's.
        drop(recv);
        let weak: Weak<dyn Listed> = Arc::downgrade(self) as _;
        self.nic.hub.engine.list(weak);
    }

    /// A thread that slept on the completion queue is awake: what is to be listed, if that is wanted.
    pub(crate) fn to_be_listed(self: &Arc<Self>) -> Option<Weak<dyn Listed>> {
        let mut recv = self.recv.lock();
        if !recv.wants_listing() {
            return None;
        }
        recv.attention.listed = true;
        Some(Arc::downgrade(self) as _)
    }

    /// Has senders wake the engine for the receive queue, and looks at what has come before.
    pub(crate) fn arm(&self) {
        self.recv.lock().arm();
        self.receive_all();
    }
}

impl Listed for Core {
    fn tick(&self) -> bool {
        let mut recv = self.recv.lock();
        let of_cq = recv.queue.notices.cq.as_ref().map_or(0, |cq| cq.looks());
        let looked = core::mem::take(&mut recv.attention.seen) || of_cq != recv.attention.counted;
        recv.attention.counted = of_cq;
        let needed = recv.lane().is_some() && recv.queue.work.outstanding() > 0;
        // A sleep on the completion queue counts once it has lasted from one look to the next: to list the
        // VIs again costs its thread time.
        let by_cq = needed
            && !looked
            && recv.queue.notices.cq.as_ref().is_some_and(|cq| cq.sleeps_by_itself());
        let asleep = recv.attention.sleepers > 0 || by_cq;
        if needed && looked && !asleep {
            return true;
        }
        recv.attention.listed = false;
        if needed && !asleep {
            recv.arm();
            // A program that then polls the completion queue has it disarmed.
            if let Some(cq) = &recv.queue.notices.cq {
                cq.was_armed();
            }
            drop(recv);
            self.receive_all();
        }
        false
    }
}
