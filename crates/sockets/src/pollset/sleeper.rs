//! The process's sleepers: each lets one call at a time sleep in the kernel's poll for VIs as well.

use super::lists::Lists;
use crate::pair::{self, Pair};
use crate::per_engine::per_engine;
use crate::{Errno, Outcome, epoll, errno, stream, wait};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_signal::interrupt::Moment;
use sovia_sys::poll::{self, PollFd};
use sovia_sys::{call, clock};
use std::sync::Arc;

/// Calls that can sleep at once with a sleeper; more sleep in short steps.
const SLEEPERS: usize = 16;
/// The length of such a step, in nanoseconds.
const STEP_NS: u64 = 1_000_000;

struct Sleeper {
    used: AtomicU32,
    epfd: AtomicI32,
    /// The process that the instance belongs to.
    owner: AtomicI32,
    lanes: UnsafeCell<Vec<(Arc<Pair>, u32)>>,
}

// SAFETY: only the thread that has set `used` touches `lanes`.
unsafe impl Sync for Sleeper {}

per_engine! {
    static POOL: [Sleeper; SLEEPERS] = [const {
        Sleeper {
            used: AtomicU32::new(0),
            epfd: AtomicI32::new(-1),
            owner: AtomicI32::new(0),
            lanes: UnsafeCell::new(Vec::new()),
        }
    }; SLEEPERS];
}

/// How a call sleeps.
pub(super) struct Terms<'a> {
    /// When it gives up.
    pub(super) until: Option<u64>,
    pub(super) mask: Option<&'a libc::sigset_t>,
    /// Since when handlers interrupt it.
    pub(super) since: Moment,
}

impl Terms<'_> {
    /// ppoll, for no longer than `longest`.
    fn ppoll(&self, fds: &mut [PollFd], longest: Option<u64>) -> Outcome {
        let left = self.until.map(|until| until.saturating_sub(clock::now_ns()));
        let timeout = left.into_iter().chain(longest).min();
        poll::ppoll_by(|call| self.since.make(call), fds, timeout, self.mask).map_err(errno)
    }
}

/// Sleeps until something may have happened. False if the time ran out.
pub(super) fn sleep(lists: &mut Lists<'_>, terms: &Terms<'_>) -> Result<bool, Errno> {
    let Some((number, sleeper)) = POOL.iter().enumerate().find(|(_, sleeper)| {
        sleeper.used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }) else {
        return step(lists, terms);
    };
    let result = sleeper.sleep(number, lists, terms);
    sleeper.used.store(0, Ordering::Release);
    result
}

impl Sleeper {
    fn sleep(
        &self,
        number: usize,
        lists: &mut Lists<'_>,
        terms: &Terms<'_>,
    ) -> Result<bool, Errno> {
        let door = pair::door_for(number as u32);
        // SAFETY: `used` is set, by us.
        let lanes = unsafe { &mut *self.lanes.get() };
        let pid = call::getpid();
        if self.owner.load(Ordering::Relaxed) != pid {
            // A relative's: its instance knows the relative's doorbell.
            lanes.clear();
            self.epfd.store(-1, Ordering::Relaxed);
            self.owner.store(pid, Ordering::Relaxed);
        }
        if self.epfd.load(Ordering::Relaxed) < 0 {
            let Some(epfd) = pair::epoll_of_door(door, 0) else { return step(lists, terms) };
            self.epfd.store(epfd.into_raw(), Ordering::Relaxed);
        }
        let epfd = self.epfd.load(Ordering::Relaxed);
        lanes.retain(|(pair, _)| pair::is_current(pair));
        if !watch_all(lists, lanes, door) {
            return step(lists, terms);
        }
        for (pair, waiter) in lanes.iter() {
            let waiter = pair.waiter(*waiter);
            waiter.drain(|_| {});
            waiter.rung_by(door);
            waiter.going_to_sleep();
        }
        let result = if lists.any_has_left() || lists.look() > 0 {
            Ok(true)
        } else {
            crate::stats::slept();
            let bell = PollFd { fd: epfd, events: libc::POLLIN, revents: 0 };
            let (n, rung) = lists
                .ask_kernel_with(bell, |kernel| wait::cancellable(|| terms.ppoll(kernel, None)));
            if rung {
                let mut events = [epoll::Event { events: 0, u64: 0 }];
                let _ = poll::epoll_wait(epfd, &mut events, Some(0), None);
            }
            n.map(|n| n > 0)
        };
        for (pair, waiter) in lanes.iter() {
            pair.waiter(*waiter).awake();
        }
        // Senders need not mark for a call that is over.
        for at in lists.ours() {
            if let Some(mut guard) = at.attached() {
                // In another pair the same number is another waiter's.
                let pair = pair::of(&guard).map_or(core::ptr::null(), core::ptr::from_ref);
                for (known, waiter) in lanes.iter() {
                    if Arc::as_ptr(known) == pair {
                        stream::listeners::unwatch(&mut guard, *waiter);
                    }
                }
            }
        }
        result
    }
}

/// Has the peers of all connections ring `door`, by a waiter in the segment of each pair; false if a segment has none left.
fn watch_all(lists: &Lists<'_>, lanes: &mut Vec<(Arc<Pair>, u32)>, door: u32) -> bool {
    for at in lists.ours() {
        let Some(pair) = pair::share(at.conn.pair.load(Ordering::Relaxed)) else { continue };
        let waiter = match lanes.iter().find(|(known, _)| Arc::ptr_eq(known, &pair)) {
            Some(&(_, waiter)) => waiter,
            None => match pair.take_waiter(door) {
                Some(waiter) => {
                    lanes.push((pair, waiter));
                    waiter
                }
                None => return false,
            },
        };
        if let Some(mut guard) = at.attached() {
            stream::listeners::watch(&mut guard, waiter);
        }
    }
    true
}

/// Without a sleeper: a short sleep, then another look.
fn step(lists: &mut Lists<'_>, terms: &Terms<'_>) -> Result<bool, Errno> {
    terms.ppoll(lists.kernel(), Some(STEP_NS)).map(|_| true)
}

/// The process has left all pairs: sleepers begin anew.
pub(crate) fn begin_anew() {
    for sleeper in POOL.iter() {
        if sleeper.used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: `used` is set, by us.
            unsafe { &mut *sleeper.lanes.get() }.clear();
            sleeper.used.store(0, Ordering::Release);
        }
    }
}

/// In a forked child: calls of the parent's other threads do not sleep here.
pub(crate) fn forked() {
    for sleeper in POOL.iter() {
        sleeper.used.store(0, Ordering::Release);
    }
}
