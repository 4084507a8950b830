//! poll and select over kernel descriptors and VIs at once.
//!
//! Nothing is registered between two calls, so each call looks at all its descriptors, as the
//! kernel does. To sleep, a call borrows one of the process's sleepers: a waiter with an epoll
//! instance of its own in which a doorbell lies, edge-triggered, and which the kernel's poll can
//! wait on beside the program's descriptors.

use crate::ops::keep;
use crate::pair::{self, Pair};
use crate::per_engine::per_engine;
use crate::process::PLAIN;
use crate::stream::{self, Watch, combine};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, FRUITLESS, Spin, Want};
use crate::{Outcome, anchors, epoll, errno, process, sets};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_signal::interrupt::Moment;
use sovia_sync::hazard::Waits;
use sovia_sys::poll::{self, PollFd};
use sovia_sys::{call, clock};
use std::sync::Arc;

/// Calls that can sleep at once with a sleeper; more sleep in short steps.
const SLEEPERS: usize = 16;
/// The length of such a step, in nanoseconds.
const STEP_NS: u64 = 1_000_000;
/// While spinning the kernel is asked this often.
const KERNEL_NS: u64 = 8_000;

/// Whether any of the descriptors is an attached connection. An epoll instance among them is
/// waited on from outside from here on.
pub fn is_ours(fds: &[PollFd]) -> bool {
    let mut ours = false;
    for p in fds {
        match table::get(p.fd) {
            table::Entry::Foreign | table::Entry::Private => {}
            table::Entry::Epoll(index) => epoll::polled(index),
            table::Entry::Conn(_) => ours |= attached(p.fd).is_some(),
        }
    }
    ours
}

fn attached(fd: i32) -> Option<Ref> {
    table::conn(fd).filter(|at| at.conn.is_attached_here())
}

/// `ppoll`. `timeout` in nanoseconds, `None` for ever.
pub fn wait(fds: &mut [PollFd], timeout: Option<u64>, mask: Option<&libc::sigset_t>) -> Outcome {
    crate::wait::cancellation_point();
    let until = timeout.map(|t| clock::now_ns().saturating_add(t));
    let terms = Terms { until, mask, since: Moment::now() };
    if let [one] = fds
        && timeout != Some(0)
        && mask.is_none()
        && let Some(result) = wait_for_one(one, until)
    {
        return result;
    }
    let ours: Vec<(usize, Ref)> =
        fds.iter().enumerate().filter_map(|(i, p)| Some((i, attached(p.fd)?))).collect();
    // What the kernel is asked: the same, without ours.
    let mut kernel: Vec<PollFd> = fds.to_vec();
    for &(i, _) in &ours {
        kernel[i].fd = -1;
    }
    let mut fruitless = 0;
    let mut inside = None;
    if !ours.is_empty() {
        anchors::ensure_for_a_look();
    }
    loop {
        if process::is_confined() {
            return Err(PLAIN);
        }
        // A connection may have gone back to TCP meanwhile, or to a relay.
        for &(i, at) in &ours {
            crate::retreat::settle(at);
            let back = !at.is_attached_here();
            kernel[i].fd = if back { fds[i].fd } else { -1 };
        }
        let only_ours = kernel.iter().all(|p| p.fd < 0);
        let mut n = look(fds, &ours);
        if any_has_left(&ours, &kernel) {
            continue;
        }
        if n > 0 || timeout == Some(0) {
            if !only_ours || n == 0 {
                poll::ppoll(&mut kernel, Some(0), mask).map_err(errno)?;
            }
            n += merge(fds, &kernel);
            return Ok(n);
        }
        if inside.is_none() {
            inside = Some(process::begin_waiting()?);
        }
        let waits = wait::begin();
        let (mut spin, watches) = begin_spin(&ours, &waits);
        let mut from_kernel = Ok(0);
        let found = spin.run(
            || watches.iter().any(Watch::changed),
            KERNEL_NS,
            || {
                from_kernel = poll::ppoll(&mut kernel, Some(0), mask);
                !matches!(from_kernel, Ok(0))
            },
        );
        drop(watches);
        drop(waits);
        end_spin(&ours);
        if found {
            spin.learn();
            if let Ok(0) = from_kernel {
                // News that turn out to be none must not starve the kernel's descriptors.
                from_kernel = poll::ppoll(&mut kernel, Some(0), mask);
            }
            if let Err(e) = from_kernel {
                return Err(errno(e));
            }
            let n = look(fds, &ours) + merge(fds, &kernel);
            if n > 0 || until.is_some_and(|until| clock::now_ns() >= until) {
                return Ok(n);
            }
            fruitless += 1;
            if fruitless < FRUITLESS {
                continue;
            }
        }
        fruitless = 0;
        anchors::ensure();
        let slept = sleep(fds, &ours, &mut kernel, &terms)?;
        spin.learn();
        let n = look(fds, &ours) + merge(fds, &kernel);
        if n > 0 || (!slept && until.is_some_and(|until| clock::now_ns() >= until)) {
            return Ok(n);
        }
    }
}

/// A call about one connection and one direction sleeps as a receive or a send would, on the
/// direction's own word: no sleeper, no doorbell, one system call. `None` if it is not such a call, or
/// no more.
fn wait_for_one(one: &mut PollFd, until: Option<u64>) -> Option<Outcome> {
    const IN: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP;
    const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;
    let want = match one.events {
        0 | libc::POLLRDHUP => return None,
        events if events & !IN == 0 => Want::Receive,
        events if events & !OUT == 0 => Want::Send,
        _ => return None,
    };
    let at = attached(one.fd)?;
    crate::retreat::settle(at);
    let (fd, interest) = (one.fd, one.events as u16 as u32);
    let told = one.events | libc::POLLERR | libc::POLLHUP;
    let mut call = Call::begin(fd, at, until);
    call.ends_at_handler = true;
    let result = wait::until(&mut call, want, |guard| {
        let fd = keep::descriptor(fd, at);
        let mask = sets::readiness_under(guard, at, fd, interest) as u16 as i16 & told;
        (mask != 0).then_some(mask)
    });
    keep::leave();
    match result {
        Ok(mask) => {
            one.revents = mask;
            Some(Ok(1))
        }
        Err(Ended::Failed(libc::EAGAIN)) => {
            one.revents = 0;
            Some(Ok(0))
        }
        Err(Ended::Failed(libc::EINTR)) => Some(Err(libc::EINTR)),
        // Back on TCP, or closed meanwhile by another thread.
        Err(_) => None,
    }
}

/// Whether one of ours has left its VI since the kernel's list was made, where it is missing.
fn any_has_left(ours: &[(usize, Ref)], kernel: &[PollFd]) -> bool {
    ours.iter().any(|&(i, at)| kernel[i].fd < 0 && !at.is_attached_here())
}

/// Sets `revents` of ours; how many have any.
fn look(fds: &mut [PollFd], ours: &[(usize, Ref)]) -> usize {
    let mut n = 0;
    for &(i, at) in ours {
        let p = &mut fds[i];
        let interest = p.events as u16 as u32;
        let mask = sets::readiness(at, p.fd, interest);
        p.revents =
            (mask as u16 as i16) & (p.events | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL);
        n += usize::from(p.revents != 0);
    }
    n
}

/// Takes the kernel's answers over; how many there are.
fn merge(fds: &mut [PollFd], kernel: &[PollFd]) -> usize {
    let mut n = 0;
    for (to, from) in fds.iter_mut().zip(kernel) {
        if from.fd >= 0 {
            to.revents = from.revents;
            n += usize::from(from.revents != 0);
        } else if to.fd < 0 {
            to.revents = 0;
        }
    }
    n
}

fn begin_spin<'w>(ours: &[(usize, Ref)], waits: &'w Waits) -> (Spin, Vec<Watch<'w>>) {
    combine::before_waiting();
    let mut worth = false;
    let mut watches = Vec::with_capacity(ours.len());
    for &(_, at) in ours {
        at.conn.begin_waiting();
        if let Some(guard) = at.attached() {
            watches.push(Watch::new(&guard, waits));
            worth |= pair::of(&guard).is_some_and(Pair::worth_spinning);
        }
    }
    (Spin::begin(worth), watches)
}

fn end_spin(ours: &[(usize, Ref)]) {
    for &(_, at) in ours {
        at.conn.end_waiting();
    }
}

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
struct Terms<'a> {
    /// When it gives up.
    until: Option<u64>,
    mask: Option<&'a libc::sigset_t>,
    /// Since when handlers interrupt it.
    since: Moment,
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
fn sleep(
    fds: &mut [PollFd],
    ours: &[(usize, Ref)],
    kernel: &mut Vec<PollFd>,
    terms: &Terms<'_>,
) -> Result<bool, crate::Errno> {
    let Some((number, sleeper)) = POOL.iter().enumerate().find(|(_, sleeper)| {
        sleeper.used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }) else {
        return step(kernel, terms);
    };
    let result = sleeper.sleep(number, fds, ours, kernel, terms);
    sleeper.used.store(0, Ordering::Release);
    result
}

impl Sleeper {
    fn sleep(
        &self,
        number: usize,
        fds: &mut [PollFd],
        ours: &[(usize, Ref)],
        kernel: &mut Vec<PollFd>,
        terms: &Terms<'_>,
    ) -> Result<bool, crate::Errno> {
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
            let Some(epfd) = pair::epoll_of_door(door, 0) else { return step(kernel, terms) };
            self.epfd.store(epfd.into_raw(), Ordering::Relaxed);
        }
        let epfd = self.epfd.load(Ordering::Relaxed);
        lanes.retain(|(pair, _)| pair::is_current(pair));
        for &(_, at) in ours {
            let Some(pair) = pair::share(at.conn.pair.load(Ordering::Relaxed)) else { continue };
            let waiter = match lanes.iter().find(|(known, _)| Arc::ptr_eq(known, &pair)) {
                Some(&(_, waiter)) => waiter,
                None => match pair.take_waiter(door) {
                    Some(waiter) => {
                        lanes.push((pair, waiter));
                        waiter
                    }
                    None => return step(kernel, terms),
                },
            };
            if let Some(mut guard) = at.attached() {
                stream::listeners::watch(&mut guard, waiter);
            }
        }
        for (pair, waiter) in lanes.iter() {
            let waiter = pair.waiter(*waiter);
            waiter.drain(|_| {});
            waiter.rung_by(door);
            waiter.going_to_sleep();
        }
        let result = if any_has_left(ours, kernel) || look(fds, ours) > 0 {
            Ok(true)
        } else {
            crate::stats::slept();
            kernel.push(PollFd { fd: epfd, events: libc::POLLIN, revents: 0 });
            let n = crate::wait::cancellable(|| terms.ppoll(kernel, None));
            let rung = kernel.pop().is_some_and(|p| p.revents != 0);
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
        for &(_, at) in ours {
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

/// Without a sleeper: a short sleep, then another look.
fn step(kernel: &mut [PollFd], terms: &Terms<'_>) -> Result<bool, crate::Errno> {
    terms.ppoll(kernel, Some(STEP_NS)).map(|_| true)
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
