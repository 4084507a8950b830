//! Waits until a descriptor is done: spins for a while, then sleeps.
//!
//! A thread that waits for a receive or a send sleeps on a futex word of that direction, by the protocol of
//! [`sovia_ring::ready_list`]. On a VI without a connection, the thread sleeps on `Core::changes`. The peer wakes the
//! thread when it sends a message or frees room. This process wakes the thread when the connection or the peer's
//! process ends.

use crate::patience::{Deadline, LOOKS, NAP_MAX, deadline, left};
use crate::vi::inner::Core;
use crate::words;
use core::sync::atomic::Ordering;
use core::time::Duration;
use sovia_ring::layout::Direction;
use sovia_sys::{Errno, call, clock, futex};
use std::sync::Arc;
use via::error::WaitError;
use via::queue::{Completion, Done};

/// Number of looks at the queue before the first look at the clock.
const QUICK_LOOKS: u32 = 64;

/// One of a VI's two work queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Recv,
}

/// Returns the result of a wait; `None` if the thread must continue to wait.
fn settled(done: Done) -> Option<Result<Completion, WaitError>> {
    match done {
        Done::Completion(completion) => Some(Ok(completion)),
        Done::Empty => Some(Err(WaitError::Empty)),
        Done::NotDone => None,
    }
}

impl Core {
    #[inline]
    fn done(self: &Arc<Self>, side: Side) -> Done {
        match side {
            Side::Send => self.send_done(),
            Side::Recv => self.recv_done(),
        }
    }

    fn look(self: &Arc<Self>, side: Side) -> Option<Result<Completion, WaitError>> {
        settled(self.done(side))
    }

    /// Waits until the oldest descriptor of a queue is done, and takes it.
    #[inline]
    pub(crate) fn wait(
        self: &Arc<Self>,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Completion, WaitError> {
        for _ in 0..QUICK_LOOKS {
            // Call `done` and not `look`, to save a copy of the completion.
            match self.done(side) {
                Done::Completion(completion) => return Ok(completion),
                Done::Empty => return Err(WaitError::Empty),
                Done::NotDone => core::hint::spin_loop(),
            }
        }
        self.wait_longer(side, timeout)
    }

    #[inline(never)]
    fn wait_longer(
        self: &Arc<Self>,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Completion, WaitError> {
        let start = clock::now_ns();
        let until = deadline(timeout);
        let budget = match side {
            Side::Send => &self.send_budget,
            Side::Recv => &self.recv_budget,
        };
        if self.may_spin() {
            let mut end = start + budget.get();
            if let Some(until) = until {
                end = end.min(until);
            }
            while clock::now_ns() < end {
                for _ in 0..LOOKS {
                    if let Some(result) = self.look(side) {
                        budget.learn(0, false);
                        return result;
                    }
                    core::hint::spin_loop();
                }
                self.help();
            }
        }
        self.sleeps(side, true);
        let result = loop {
            if let Some(result) = self.nap(side, until) {
                break result;
            }
            if left(until) == Some(0) {
                break Err(WaitError::Timeout);
            }
        };
        self.sleeps(side, false);
        if result == Err(WaitError::Timeout) {
            return result;
        }
        budget.learn(clock::now_ns() - start, true);
        result
    }

    /// Records that a thread begins or ends a sleep on the queue. While a thread sleeps there, the engine need not poll
    /// the queue.
    fn sleeps(self: &Arc<Self>, side: Side, asleep: bool) {
        if side == Side::Send {
            return;
        }
        let mut recv = self.recv.lock();
        if asleep {
            recv.attention.sleepers += 1;
            if !recv.queue.notices.has_callbacks() {
                recv.disarm();
            }
            return;
        }
        recv.attention.sleepers -= 1;
        self.list_if_wanted(recv);
    }

    /// Does other work while the thread spins on one queue: executes the peer's RDMAs, and continues sends that wait
    /// for room.
    fn help(&self) {
        self.serve_if_staged();
        if self.send.lock().awaits_room {
            self.send_all();
        }
    }

    /// Returns true if spinning can help. Spinning cannot help if the peer's thread last waited on this processor,
    /// because that thread can run only while this thread does not.
    pub(crate) fn may_spin(&self) -> bool {
        let Some(attachment) = self.machine().attachment.clone() else { return false };
        let mine = u64::from(call::current_cpu()) + 1;
        let word = |direction: &Direction| direction.reader.0[words::R_CPU].load(Ordering::Relaxed);
        if word(attachment.back()) != mine {
            attachment.back().reader.0[words::R_CPU].store(mine, Ordering::Relaxed);
        }
        word(attachment.out()) != mine
    }

    /// Looks for a completion, sleeps once if there is none, and looks again.
    fn nap(self: &Arc<Self>, side: Side, until: Deadline) -> Option<Result<Completion, WaitError>> {
        let time = Some(left(until).unwrap_or(NAP_MAX).min(NAP_MAX));
        // Load `changes` before the attachment. Other threads change the attachment first, so a change that this
        // thread has missed keeps it from sleeping.
        let seen = self.changes.load(Ordering::SeqCst);
        let attachment = self.machine().attachment.clone();
        let Some(attachment) = attachment else {
            if let Some(result) = self.look(side) {
                return Some(result);
            }
            let _ = futex::wait(&self.changes, seen, time);
            return self.look(side);
        };
        let wake_word = attachment.wake_word(side == Side::Recv);
        let seen = wake_word.word().load(Ordering::SeqCst);
        wake_word.going_to_sleep();
        let mut found = self.look(side);
        if found.is_none() {
            let slept = futex::wait(wake_word.word(), seen, time);
            found = self.look(side);
            if found.is_none() && side == Side::Send && slept == Err(Errno::ETIMEDOUT) {
                attachment.insist();
            }
        }
        found
    }
}
