//! Keeps track of which thread polls a receive queue; see [`crate::engine`].

use crate::bias::Held;
use crate::engine::Listed;
use crate::link::ENGINE;
use crate::vi::inner::Core;
use crate::vi::recv::RecvSide;
use crate::vi::target::is_staged;
use core::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

/// Number of the program's looks at an armed queue after which the queue is disarmed.
const POLLS: u32 = 64;

/// Records which thread polls a receive queue, or which thread senders wake for the queue.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    /// Set if the program has looked for messages since the engine's last look.
    seen: bool,
    /// Number of the completion queue's looks, at the time of the engine's last look.
    counted: u32,
    /// Number of the program's looks while the queue is armed.
    polls: u32,
    /// Set while senders wake the engine for this queue.
    pub(crate) armed: bool,
    /// Set while the engine looks at the queue from time to time.
    listed: bool,
    /// Number of threads that sleep in a wait on this queue. Senders wake these threads directly.
    pub(crate) sleepers: u32,
}

impl RecvSide {
    /// Returns true if the engine should list the queue: receives are posted, and the queue is neither listed nor
    /// armed.
    #[inline]
    pub(crate) fn wants_listing(&self) -> bool {
        !self.attention.listed
            && !self.attention.armed
            && self.lane().is_some()
            && self.queue.work.outstanding() > 0
    }

    /// Makes senders wake the engine. The caller must then look for messages that arrived earlier.
    pub(crate) fn arm(&mut self) {
        if let Some(lane) = self.lane()
            && !self.attention.armed
        {
            lane.direction().wake_word.watch(ENGINE);
            fence(Ordering::SeqCst);
            self.attention.armed = true;
            self.attention.polls = 0;
        }
    }

    /// Keeps senders from waking the engine. Called when the program polls, or when a thread sleeps on the queue.
    #[cold]
    pub(crate) fn disarm(&mut self) {
        if let Some(lane) = self.lane()
            && self.attention.armed
        {
            lane.direction().wake_word.unwatch(ENGINE);
            self.attention.armed = false;
        }
    }

    /// Records that the program has looked for a message. Returns true if [`Core::between_looks`] has work to do.
    /// Stores to `seen` only if it is not set, because a program that polls calls this function often.
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
    /// Lists the receive queue with the engine, if it should be listed.
    #[cold]
    pub(crate) fn list_if_wanted(self: &Arc<Self>, mut recv: Held<'_, RecvSide>) {
        if !recv.wants_listing() {
            return;
        }
        recv.attention.listed = true;
        // Release the queue's lock first, because a thread must not take the engine's lock under the queue's lock.
        drop(recv);
        let weak: Weak<dyn Listed> = Arc::downgrade(self) as _;
        self.nic.hub.engine.list(weak);
    }

    /// Returns this VI for the engine's list, if its receive queue should be listed. Called after a thread that
    /// slept on the completion queue has woken.
    pub(crate) fn to_be_listed(self: &Arc<Self>) -> Option<Weak<dyn Listed>> {
        let mut recv = self.recv.lock();
        if !recv.wants_listing() {
            return None;
        }
        recv.attention.listed = true;
        Some(Arc::downgrade(self) as _)
    }

    /// Makes senders wake the engine for the receive queue, and receives messages that arrived earlier.
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
        // Count a sleep on the completion queue only if no thread has looked since the engine's last look. If short
        // sleeps counted, the sleeping thread would often have to list its VIs again.
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
            // If the program then polls the completion queue, the completion queue disarms this VI.
            if let Some(cq) = &recv.queue.notices.cq {
                cq.was_armed();
            }
            drop(recv);
            self.receive_all();
        }
        false
    }
}
