//! The process's sleepers. A sleeper lets one call at a time sleep in the kernel's poll until a VI has an event.

use super::lists::Lists;
use crate::pair::{self, Pair};
use crate::per_engine::per_engine;
use crate::{Errno, Outcome, epoll, errno, kernel_sockets, stream, wait};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_signal::chain;
use sovia_signal::interrupt::Moment;
use sovia_sync::hazard::User;
use sovia_sys::poll::{self, PollFd};
use sovia_sys::{call, clock};
use std::sync::Arc;

/// Number of calls that can sleep with a sleeper at the same time. Further calls sleep in short steps.
const SLEEPERS: usize = 16;
/// Value of `used` in a free sleeper.
const FREE: u32 = 0;
/// Length of a short sleep without a sleeper, in nanoseconds.
const STEP_NS: u64 = 1_000_000;

struct Sleeper {
    /// Thread that uses this sleeper, as a [`User::word`], or [`FREE`].
    used: AtomicU32,
    epfd: AtomicI32,
    /// Process to which the epoll instance belongs.
    owner: AtomicI32,
    pairs: UnsafeCell<Vec<(Arc<Pair>, u32)>>,
}

// SAFETY: only the thread named in `used` accesses `pairs`.
unsafe impl Sync for Sleeper {}

per_engine! {
    static POOL: [Sleeper; SLEEPERS] = [const {
        Sleeper {
            used: AtomicU32::new(FREE),
            epfd: AtomicI32::new(-1),
            owner: AtomicI32::new(0),
            pairs: UnsafeCell::new(Vec::new()),
        }
    }; SLEEPERS];
}

/// Conditions that end a sleep.
pub(super) struct Terms<'a> {
    /// Time at which the call must give up; `None`: never.
    pub(super) until: Option<u64>,
    pub(super) mask: Option<&'a libc::sigset_t>,
    /// Time of the call's begin. A signal handler that runs later interrupts the call.
    pub(super) since: Moment,
}

impl Terms<'_> {
    /// Calls ppoll until `until`, but for at most `longest` nanoseconds.
    fn ppoll(&self, fds: &mut [PollFd], longest: Option<u64>) -> Outcome {
        let left = self.until.map(|until| until.saturating_sub(clock::now_ns()));
        let timeout = left.into_iter().chain(longest).min();
        poll::ppoll_by(|call| self.since.make(call), fds, timeout, self.mask).map_err(errno)
    }
}

/// Sleeps until an event may have happened, or until the call must give up.
pub(super) fn sleep(lists: &mut Lists<'_>, terms: &Terms<'_>) -> Result<(), Errno> {
    let Some((number, sleeper)) = take() else { return step(lists, terms) };
    let result = sleeper.sleep(number, lists, terms);
    sleeper.used.store(FREE, Ordering::Release);
    result
}

/// Takes a free sleeper for the calling thread. A sleeper also counts as free if its thread has ended, or has left
/// its call by `longjmp`.
fn take() -> Option<(usize, &'static Sleeper)> {
    let me = User::me();
    let is_outermost = !chain::is_in_handler();
    let is_free = |user: u32| user == FREE || is_outermost && user == me.word();
    let take = |is_free: &dyn Fn(u32) -> bool| {
        POOL.iter().enumerate().find(|(_, sleeper)| {
            let user = sleeper.used.load(Ordering::Relaxed);
            is_free(user)
                && sleeper
                    .used
                    .compare_exchange(user, me.word(), Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        })
    };
    // Check for ended threads only if no other sleeper is free, because this check takes one or two system calls.
    take(&is_free).or_else(|| take(&|user| !User::from_word(user).lives()))
}

impl Sleeper {
    fn sleep(&self, number: usize, lists: &mut Lists<'_>, terms: &Terms<'_>) -> Result<(), Errno> {
        let doorbell = pair::doorbell_for(number as u32);
        // SAFETY: this thread is named in `used`, so no other thread accesses `pairs`.
        let pairs = unsafe { &mut *self.pairs.get() };
        let pid = call::getpid();
        if self.owner.load(Ordering::Relaxed) != pid {
            // A forked relative has used the sleeper. The epoll instance contains the relative's doorbell.
            pairs.clear();
            self.epfd.store(-1, Ordering::Relaxed);
            self.owner.store(pid, Ordering::Relaxed);
        }
        if self.epfd.load(Ordering::Relaxed) < 0 {
            let Some(epfd) = pair::epoll_of_doorbell(doorbell, 0) else {
                return step(lists, terms);
            };
            self.epfd.store(epfd.into_raw(), Ordering::Relaxed);
        }
        let epfd = self.epfd.load(Ordering::Relaxed);
        pairs.retain(|(pair, _)| pair::is_current(pair));
        if !watch_all(lists, pairs, doorbell) {
            return step(lists, terms);
        }
        for (pair, ready_list) in pairs.iter() {
            let ready_list = pair.ready_list(*ready_list);
            ready_list.drain(|_| {});
            ready_list.rung_by(doorbell);
            ready_list.going_to_sleep();
        }
        let result = if lists.any_has_left() || lists.look() > 0 {
            // Do not sleep. The caller checks the connections again, and asks the kernel.
            Ok(())
        } else {
            crate::stats::slept();
            let instance = PollFd { fd: epfd, events: libc::POLLIN, revents: 0 };
            let (n, rung) = lists.ask_kernel_with(instance, |kernel| {
                wait::cancellable(|| terms.ppoll(kernel, kernel_sockets::longest_sleep()))
            });
            if rung {
                let mut events = [epoll::Event { events: 0, u64: 0 }; 8];
                let n = poll::epoll_wait(epfd, &mut events, Some(0), None).unwrap_or(0);
                epoll::filter(&mut events[..n], None);
            }
            n.map(|_| ())
        };
        for (pair, ready_list) in pairs.iter() {
            pair.ready_list(*ready_list).awake();
        }
        // The call is over, so peers need not mark VIs for it any more.
        for at in lists.ours() {
            if let Some(mut guard) = at.attached() {
                // Remove the ready list only in its own pair. In another pair, the same number means another ready
                // list.
                let pair = pair::of(&guard).map_or(core::ptr::null(), core::ptr::from_ref);
                for (known, ready_list) in pairs.iter() {
                    if Arc::as_ptr(known) == pair {
                        stream::listeners::unwatch(&mut guard, *ready_list);
                    }
                }
            }
        }
        result
    }
}

/// Makes the peers of all connections ring `doorbell`. For this, takes a ready list in each connection's pair. Returns
/// false if a pair has no free ready list.
fn watch_all(lists: &Lists<'_>, pairs: &mut Vec<(Arc<Pair>, u32)>, doorbell: u32) -> bool {
    for at in lists.ours() {
        let Some(pair) = pair::share(at.conn.pair.load(Ordering::Relaxed)) else { continue };
        let ready_list = match pairs.iter().find(|(known, _)| Arc::ptr_eq(known, &pair)) {
            Some(&(_, ready_list)) => ready_list,
            None => match pair.take_ready_list(doorbell) {
                Some(ready_list) => {
                    pairs.push((pair, ready_list));
                    ready_list
                }
                None => return false,
            },
        };
        if let Some(mut guard) = at.attached() {
            stream::listeners::watch(&mut guard, ready_list);
        }
    }
    true
}

/// Sleeps for a short time, without a sleeper.
fn step(lists: &mut Lists<'_>, terms: &Terms<'_>) -> Result<(), Errno> {
    wait::cancellable(|| terms.ppoll(lists.kernel(), Some(STEP_NS))).map(|_| ())
}

/// Drops the sleepers' pairs. Called after the process has left all pairs.
pub(crate) fn begin_anew() {
    for sleeper in POOL.iter() {
        let me = User::me().word();
        if sleeper.used.compare_exchange(FREE, me, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: this thread is named in `used`, so no other thread accesses `pairs`.
            unsafe { &mut *sleeper.pairs.get() }.clear();
            sleeper.used.store(FREE, Ordering::Release);
        }
    }
}

/// Frees all sleepers in a forked child. The threads that used them exist only in the parent.
pub(crate) fn forked() {
    for sleeper in POOL.iter() {
        sleeper.used.store(FREE, Ordering::Release);
    }
}
