//! Whether somebody looks at a receive queue; see [`crate::engine`].

use crate::connect::link::ENGINE;
use crate::engine::Listed;
use crate::vi::inner::Core;
use crate::vi::recv::RecvSide;
use core::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

/// Looks of the program in a row that show that it polls.
const POLLS: u32 = 64;

/// Looks from one turn to see to something else to the next; a power of two.
const TURN: u32 = 16;

/// How a receive queue is looked after.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    /// Looks of the program so far, and how many the engine had counted last.
    pub(crate) looks: u32,
    counted: u32,
    /// The program's looks while armed.
    polls: u32,
    /// Senders wake the engine for this queue.
    pub(crate) armed: bool,
    /// The engine looks from time to time.
    listed: bool,
    /// Threads asleep in a wait on this queue, whom senders wake by themselves.
    pub(crate) sleepers: u32,
}

impl Attention {
    /// Whether it is the turn of something else.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.looks.is_multiple_of(TURN)
    }
}

impl RecvSide {
    /// Whether the queue is to be listed: something is to come, and nobody else looks after it.
    #[inline]
    pub(crate) fn wants_listing(&self) -> bool {
        !self.attention.listed && !self.attention.armed && self.lane().is_some()
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

    /// The program polls: senders need wake nobody.
    #[cold]
    pub(crate) fn disarm(&mut self) {
        if let Some(lane) = self.lane()
            && self.attention.armed
        {
            lane.direction().bell.unwatch(ENGINE);
            self.attention.armed = false;
        }
    }

    /// The program has looked for a message, and found one or not; whether the queue is to be
    /// listed.
    #[inline]
    pub(crate) fn looked(&mut self) -> bool {
        self.attention.looks = self.attention.looks.wrapping_add(1);
        self.attention.armed && self.polled()
    }

    #[cold]
    fn polled(&mut self) -> bool {
        self.attention.polls += 1;
        if self.attention.polls < POLLS || self.queue.notices.has_callbacks() {
            return false;
        }
        self.disarm();
        self.wants_listing()
    }
}

impl Core {
    /// Has the engine look at the receive queue from time to time.
    #[cold]
    pub(crate) fn list(self: &Arc<Self>) {
        {
            let mut recv = self.recv.lock();
            if recv.attention.listed {
                return;
            }
            recv.attention.listed = true;
        }
        let weak: Weak<dyn Listed> = Arc::downgrade(self) as _;
        self.nic.hub.engine.list(weak);
    }

    /// Has senders wake the engine for the receive queue, and looks at what has come before.
    pub(crate) fn arm(&self) {
        self.recv.lock().arm();
        self.receive_all();
    }

    /// The program polls, by a completion queue.
    pub(crate) fn disarm(self: &Arc<Self>) {
        let mut recv = self.recv.lock();
        if recv.queue.notices.has_callbacks() {
            return;
        }
        recv.disarm();
        let list = recv.wants_listing();
        drop(recv);
        if list {
            self.list();
        }
    }
}

impl Listed for Core {
    fn tick(&self) -> bool {
        let mut recv = self.recv.lock();
        let looks = match &recv.queue.notices.cq {
            Some(cq) => recv.attention.looks.wrapping_add(cq.looks()),
            None => recv.attention.looks,
        };
        let looked = looks != recv.attention.counted;
        recv.attention.counted = looks;
        let needed = recv.lane().is_some() && recv.queue.work.outstanding() > 0;
        let asleep = recv.attention.sleepers > 0;
        if needed && looked && !asleep {
            return true;
        }
        recv.attention.listed = false;
        if needed && !asleep {
            recv.arm();
            drop(recv);
            self.receive_all();
        }
        false
    }
}
