//! epoll over kernel descriptors and VIs at once.
//!
//! The program's epoll instance is a real one, and everything but attached connections is in it
//! as the program asked. An attached connection is kept here instead, so changing its interest
//! costs no system call, and its readiness comes from memory: each pair of processes gets a
//! waiter ([`via_shm::waiter`]) in which the peer marks the VIs that have news, and only those are
//! looked at. To sleep, the set's doorbell is in the kernel's instance, edge-triggered, so that a
//! ring needs no read to take it back.

use crate::conn::{Phase, flag};
use crate::pair::{self, Pair};
use crate::table::{self, Ref};
use crate::wait::Spin;
use crate::retreat::{self, Cause};
use crate::{Errno, Outcome, errno, ops, stream};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use sovia_sys::{RobustLock, call, clock, poll};
use std::collections::VecDeque;
use via_shm::layout::{DOORBELLS, VIS};
use via_shm::waiter::Waiter;

/// Epoll instances that are followed; in more, connections stay on TCP.
const SETS: usize = 4096;
/// User data of the doorbell in the kernel's instance: no pointer, and unlikely as a number.
const DOOR: u64 = 0xd5_0b1a_d00b_e115;
/// The kernel's instance is looked at this often, in nanoseconds, however much the VIs have.
const KERNEL_NS: u64 = 10_000;
/// And at least every so many calls.
const KERNEL_EVERY: u32 = 32;
const NONE: u32 = u32::MAX;

/// Instances that are waited on themselves.
static NESTED: AtomicU32 = AtomicU32::new(0);
static TABLE: [AtomicPtr<Set>; SETS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; SETS];

/// An epoll event as the program sees it.
pub use libc::epoll_event as Event;

/// One epoll instance.
#[derive(Debug)]
pub struct Set {
    epfd: i32,
    lock: RobustLock,
    /// Attached connections in the set.
    attached: AtomicU32,
    /// Threads asleep in it.
    asleep: AtomicU32,
    /// Another instance, poll or select waits for this one. The kernel knows nothing of readiness
    /// in memory, so nothing in it is accelerated.
    nested: AtomicBool,
    inner: UnsafeCell<Inner>,
}

// SAFETY: `inner` is reached through `Set::with` only, under the lock.
unsafe impl Sync for Set {}

#[derive(Debug)]
struct Inner {
    entries: Vec<Entry>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    lanes: Vec<Lane>,
    /// When the kernel's instance was last looked at.
    looked: u64,
    /// Calls since then.
    rounds: u32,
    /// Whose turn it is to be first, where `out` may hold one kind only.
    kernel_first: bool,
    door: u32,
    door_added: bool,
    /// Connections seen to be back on TCP in both directions.
    settled: Vec<Ref>,
}

#[derive(Debug)]
struct Entry {
    fd: i32,
    at: Ref,
    events: u32,
    data: u64,
    /// In the set, as the program knows it.
    registered: bool,
    /// Kept here and not in the kernel's instance.
    attached: bool,
    /// Not disabled by EPOLLONESHOT.
    armed: bool,
    queued: bool,
    /// Next entry of the same connection.
    next: u32,
}

/// What connects a set with one pair of processes.
#[derive(Debug)]
struct Lane {
    pair: &'static Pair,
    waiter: u32,
    /// For each VI the first entry of the connection on it.
    entries: Vec<u32>,
}

impl Lane {
    fn waiter(&self) -> &'static Waiter {
        self.pair.segment.waiter(self.pair.side, self.waiter)
    }
}

fn get(index: u32) -> Option<&'static Set> {
    // SAFETY: null, or a leaked box: sets are recycled, never freed.
    unsafe { TABLE.get(index as usize)?.load(Ordering::Acquire).as_ref() }
}

/// Follows a new epoll instance.
pub fn created(epfd: i32) {
    let fresh = || Inner {
        entries: Vec::new(),
        free: Vec::new(),
        ready: VecDeque::new(),
        lanes: Vec::new(),
        looked: 0,
        rounds: 0,
        kernel_first: false,
        door: 0,
        door_added: false,
        settled: Vec::new(),
    };
    for (index, slot) in TABLE.iter().enumerate() {
        if slot.load(Ordering::Acquire).is_null() {
            let set = Box::into_raw(Box::new(Set {
                epfd,
                lock: RobustLock::new(),
                attached: AtomicU32::new(0),
                asleep: AtomicU32::new(0),
                nested: AtomicBool::new(false),
                inner: UnsafeCell::new(Inner {
                    door: 1 + index as u32 % (DOORBELLS as u32 - 1),
                    ..fresh()
                }),
            }));
            let null = core::ptr::null_mut();
            if slot.compare_exchange(null, set, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                table::enter_epoll(epfd, index as u32);
                return;
            }
            // SAFETY: it was made a moment ago and nobody else has seen it.
            drop(unsafe { Box::from_raw(set) });
        }
    }
}

/// The instance's last known descriptor is closed.
pub fn closed(index: u32) {
    if let Some(set) = get(index) {
        set.with(|inner| {
            for lane in inner.lanes.drain(..) {
                lane.pair.give_waiter(lane.waiter);
            }
            inner.entries.clear();
            inner.ready.clear();
        });
        set.attached.store(0, Ordering::Release);
        // A thread may still be inside a wait: the box stays, only its place is given up.
        TABLE[index as usize].store(core::ptr::null_mut(), Ordering::Release);
    }
}

fn each(mut f: impl FnMut(&'static Set)) {
    for index in 0..SETS as u32 {
        match get(index) {
            Some(set) => f(set),
            // Places are filled from the front.
            None if index >= 64 => break,
            None => {}
        }
    }
}

/// A pair is about to be unmapped.
pub(crate) fn forget_pair(pair: *const Pair) {
    each(|set| {
        set.with(|inner| inner.lanes.retain(|lane| !core::ptr::eq(lane.pair, pair)));
    });
}

/// A connection has been given its VI: take it out of the kernel's instances.
pub(crate) fn attached(fd: i32, at: Ref) {
    each(|set| {
        set.with(|inner| {
            for i in 0..inner.entries.len() {
                let entry = &mut inner.entries[i];
                if entry.registered && !entry.attached && entry.at.same(at) {
                    let _ = poll::epoll_ctl(set.epfd, libc::EPOLL_CTL_DEL, entry.fd, 0, 0);
                    set.take_in(inner, i as u32, fd);
                }
            }
        });
    });
}

/// A connection is back on TCP: put it where the program believes it to be.
pub(crate) fn detached(at: Ref) {
    each(|set| {
        set.with(|inner| {
            for i in 0..inner.entries.len() {
                let entry = &mut inner.entries[i];
                if entry.attached && entry.at.same(at) {
                    entry.attached = false;
                    set.attached.fetch_sub(1, Ordering::AcqRel);
                    if entry.registered {
                        let oneshot = libc::EPOLLONESHOT as u32;
                        let events = if entry.armed { entry.events } else { oneshot };
                        let _ = poll::epoll_ctl(
                            set.epfd,
                            libc::EPOLL_CTL_ADD,
                            entry.fd,
                            events,
                            entry.data,
                        );
                    }
                    unlink(inner, i as u32);
                }
            }
        });
    });
}

/// The last descriptor of a connection in this process is closed.
pub(crate) fn conn_closed(at: Ref) {
    each(|set| {
        if set.is_empty() {
            return;
        }
        set.with(|inner| {
            for i in 0..inner.entries.len() {
                let entry = &mut inner.entries[i];
                if (entry.registered || entry.attached) && entry.at.same(at) {
                    entry.registered = false;
                    if core::mem::take(&mut entry.attached) {
                        set.attached.fetch_sub(1, Ordering::AcqRel);
                    }
                    unlink(inner, i as u32);
                    inner.entries[i].events = 0;
                    inner.free.push(i as u32);
                }
            }
        });
    });
}

/// Takes an entry out of its lane's chain.
fn unlink(inner: &mut Inner, index: u32) {
    let at = inner.entries[index as usize].at;
    let next = core::mem::replace(&mut inner.entries[index as usize].next, NONE);
    let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
    for lane in &mut inner.lanes {
        let Some(first) = lane.entries.get_mut(vi) else { continue };
        if *first == index {
            *first = next;
            return;
        }
        let mut i = *first;
        while let Some(entry) = inner.entries.get_mut(i as usize) {
            if entry.next == index {
                entry.next = next;
                return;
            }
            i = entry.next;
        }
    }
}

/// `epoll_ctl` for an instance that is followed; `kernel` makes the real call.
pub fn control(
    index: u32,
    op: i32,
    fd: i32,
    event: Option<(u32, u64)>,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let Some(set) = get(index) else { return kernel() };
    let at = match table::get(fd) {
        table::Entry::Conn(at) if at.conn.is_generation(at.generation) => at,
        table::Entry::Epoll(inner) => {
            if let Some(inner) = get(inner) {
                inner.make_nested();
            }
            return kernel();
        }
        table::Entry::Private => return Err(libc::EBADF),
        // A stream may join before it connects.
        table::Entry::Foreign if op == libc::EPOLL_CTL_ADD && ops::opening(fd) => {
            match table::conn(fd) {
                Some(at) => at,
                None => return kernel(),
            }
        }
        _ => return kernel(),
    };
    if set.nested.load(Ordering::Acquire) && at.conn.phase() == Phase::Attached {
        retreat::now(fd, at, Cause::Call);
    }
    if at.conn.phase() == Phase::Plain {
        return kernel();
    }
    // The lock is held across the phase's test and the kernel's call, so that the connection
    // cannot be attached in between and be in both places, or in none.
    set.with(|inner| match at.conn.phase() {
        Phase::Attached => set.control_attached(inner, op, fd, at, event),
        _ => {
            let result = kernel()?;
            match (op, event) {
                (libc::EPOLL_CTL_DEL, _) => inner.drop_entry(fd, at),
                (_, Some((events, data))) => {
                    let i = inner.entry(fd, at);
                    let entry = &mut inner.entries[i as usize];
                    (entry.events, entry.data) = (events, data);
                    (entry.registered, entry.armed) = (true, true);
                }
                _ => {}
            }
            Ok(result)
        }
    })
}

impl Inner {
    fn find(&self, fd: i32, at: Ref) -> Option<u32> {
        // The VI's chain is short; the list is the way for those not attached.
        if at.conn.phase() == Phase::Attached {
            let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
            for lane in &self.lanes {
                let mut i = lane.entries.get(vi).copied().unwrap_or(NONE);
                while let Some(entry) = self.entries.get(i as usize) {
                    if entry.fd == fd && entry.at.same(at) {
                        return Some(i);
                    }
                    i = entry.next;
                }
            }
        }
        self.entries
            .iter()
            .position(|e| e.fd == fd && e.at.same(at) && (e.registered || e.attached))
            .map(|i| i as u32)
    }

    fn entry(&mut self, fd: i32, at: Ref) -> u32 {
        if let Some(i) = self.find(fd, at) {
            return i;
        }
        let entry = Entry {
            fd,
            at,
            events: 0,
            data: 0,
            registered: false,
            attached: false,
            armed: true,
            queued: false,
            next: NONE,
        };
        match self.free.pop() {
            Some(i) => {
                let queued = self.entries[i as usize].queued;
                self.entries[i as usize] = Entry { queued, ..entry };
                i
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    fn drop_entry(&mut self, fd: i32, at: Ref) {
        if let Some(i) = self.find(fd, at) {
            self.entries[i as usize].registered = false;
            if !self.entries[i as usize].attached {
                self.free.push(i);
            }
        }
    }

    #[inline]
    fn enqueue(&mut self, i: u32) {
        let entry = &mut self.entries[i as usize];
        if !entry.queued {
            entry.queued = true;
            self.ready.push_back(i);
        }
    }

    /// Takes the peers' marks.
    #[inline]
    fn drain(&mut self) {
        for l in 0..self.lanes.len() {
            let waiter = self.lanes[l].waiter();
            if !waiter.has_news() {
                continue;
            }
            waiter.drain(|vi| {
                let mut i = self.lanes[l].entries.get(vi as usize).copied().unwrap_or(NONE);
                while let Some(entry) = self.entries.get_mut(i as usize) {
                    if !entry.queued {
                        entry.queued = true;
                        self.ready.push_back(i);
                    }
                    i = entry.next;
                }
            });
        }
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.lanes.iter().any(|lane| lane.waiter().has_news())
    }
}

impl Set {
    /// Lets connections that are back on TCP go, which takes the lock again.
    fn settle(&self) {
        // SAFETY: only looks whether there is something; the list is taken under the lock.
        if unsafe { &*self.inner.get() }.settled.is_empty() {
            return;
        }
        for at in self.with(|inner| core::mem::take(&mut inner.settled)) {
            retreat::settle(at);
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.inner.get() });
        self.lock.unlock();
        result
    }

    fn is_empty(&self) -> bool {
        self.with(|inner| inner.entries.is_empty())
    }

    /// Starts to keep an entry here instead of in the kernel.
    fn take_in(&self, inner: &mut Inner, i: u32, _fd: i32) {
        let at = inner.entries[i as usize].at;
        let Some(pair) = pair::get(at.conn.pair.load(Ordering::Relaxed)) else { return };
        let lane = match inner.lanes.iter().position(|lane| core::ptr::eq(lane.pair, pair)) {
            Some(lane) => lane,
            None => {
                let Some(waiter) = pair.take_waiter(inner.door) else { return };
                let entries = vec![NONE; VIS as usize];
                inner.lanes.push(Lane { pair, waiter, entries });
                inner.lanes.len() - 1
            }
        };
        if !inner.door_added
            && let Some(door) = pair::door(inner.door as usize)
        {
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            let _ = poll::epoll_ctl(self.epfd, libc::EPOLL_CTL_ADD, door, events, DOOR);
            inner.door_added = true;
        }
        let waiter = inner.lanes[lane].waiter;
        let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
        let first = core::mem::replace(&mut inner.lanes[lane].entries[vi], i);
        let entry = &mut inner.entries[i as usize];
        entry.next = if first == i { NONE } else { first };
        entry.attached = true;
        self.attached.fetch_add(1, Ordering::AcqRel);
        {
            let guard = at.conn.lock();
            let endpoint = guard.endpoint_ref();
            endpoint.rx.direction().bell.watch(waiter);
            endpoint.tx.direction().room.watch(waiter);
        }
        inner.enqueue(i);
        // Somebody may be asleep in the kernel's instance right now, uncounted if there was nothing
        // of ours in the set until now.
        if self.attached.load(Ordering::Acquire) == 1 || self.asleep.load(Ordering::Acquire) != 0 {
            self.ring(inner);
        }
    }

    fn control_attached(
        &self,
        inner: &mut Inner,
        op: i32,
        fd: i32,
        at: Ref,
        event: Option<(u32, u64)>,
    ) -> Outcome {
        let found = inner.find(fd, at).filter(|&i| inner.entries[i as usize].registered);
        let before = found.map_or(0, |i| inner.entries[i as usize].events);
        if let Some((events, _)) = event {
            check_exclusive(op, events, before)?;
        }
        let i = match (op, found) {
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(libc::EEXIST),
            (libc::EPOLL_CTL_ADD, None) => inner.entry(fd, at),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(libc::ENOENT),
            (libc::EPOLL_CTL_MOD, Some(i)) => i,
            (libc::EPOLL_CTL_DEL, Some(i)) => {
                inner.entries[i as usize].registered = false;
                return Ok(0);
            }
            _ => return Err(libc::EINVAL),
        };
        let Some((events, data)) = event else { return Err(libc::EFAULT) };
        let entry = &mut inner.entries[i as usize];
        (entry.events, entry.data) = (events, data);
        (entry.registered, entry.armed) = (true, true);
        let known = entry.attached;
        if !known {
            self.take_in(inner, i, fd);
        }
        inner.enqueue(i);
        if self.asleep.load(Ordering::Acquire) != 0 {
            self.ring(inner);
        }
        Ok(0)
    }

    /// Wakes those of this process who sleep in the set.
    fn ring(&self, inner: &Inner) {
        if let Some(door) = pair::door(inner.door as usize) {
            let _ = call::write(door, &1u64.to_ne_bytes());
        }
    }

    /// From now on somebody waits for the instance itself: everything in it is the kernel's.
    fn make_nested(&self) {
        if !self.nested.swap(true, Ordering::AcqRel) {
            NESTED.fetch_add(1, Ordering::AcqRel);
        }
        let attached: Vec<(i32, Ref)> = self.with(|inner| {
            inner.entries.iter().filter(|e| e.attached).map(|e| (e.fd, e.at)).collect()
        });
        for (fd, at) in attached {
            retreat::now(fd, at, Cause::Call);
        }
        self.with(|inner| {
            if core::mem::take(&mut inner.door_added)
                && let Some(door) = pair::door(inner.door as usize)
            {
                let _ = poll::epoll_ctl(self.epfd, libc::EPOLL_CTL_DEL, door, 0, 0);
            }
        });
    }

    /// Puts ready events into `out`; how many.
    fn collect(&self, inner: &mut Inner, out: &mut [Event]) -> usize {
        inner.drain();
        let mut n = 0;
        for _ in 0..inner.ready.len() {
            if n == out.len() {
                break;
            }
            let Some(i) = inner.ready.pop_front() else { break };
            let entry = &mut inner.entries[i as usize];
            if !entry.registered || !entry.armed || !entry.attached {
                entry.queued = false;
                continue;
            }
            let at = entry.at;
            let mask = readiness(at, entry.fd, entry.events)
                & (entry.events | (libc::EPOLLERR | libc::EPOLLHUP) as u32);
            if retreat::is_back(at.conn) {
                inner.settled.push(at);
            }
            if mask == 0 {
                entry.queued = false;
                continue;
            }
            out[n] = Event { events: mask, u64: entry.data };
            n += 1;
            if entry.events & libc::EPOLLONESHOT as u32 != 0 {
                entry.armed = false;
            }
            if entry.events & (libc::EPOLLONESHOT | libc::EPOLLET) as u32 != 0 {
                entry.queued = false;
            } else {
                // Level-triggered: to be looked at again, after the others.
                inner.ready.push_back(i);
            }
        }
        n
    }
}

/// What the kernel refuses about EPOLLEXCLUSIVE.
fn check_exclusive(op: i32, events: u32, before: u32) -> Result<(), Errno> {
    const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
    const ALLOWED: u32 = EXCLUSIVE
        | (libc::EPOLLIN
            | libc::EPOLLOUT
            | libc::EPOLLERR
            | libc::EPOLLHUP
            | libc::EPOLLWAKEUP
            | libc::EPOLLET) as u32;
    let refused = match op {
        libc::EPOLL_CTL_MOD => (events | before) & EXCLUSIVE != 0,
        libc::EPOLL_CTL_ADD => events & EXCLUSIVE != 0 && events & !ALLOWED != 0,
        _ => false,
    };
    if refused { Err(libc::EINVAL) } else { Ok(()) }
}

/// The events that hold for an attached connection, of those that matter for `interest`.
#[inline]
pub(crate) fn readiness(at: Ref, fd: i32, interest: u32) -> u32 {
    const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
    const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
    let mut guard = at.conn.lock();
    if !at.conn.is_generation(at.generation) || at.conn.phase() != Phase::Attached {
        return 0;
    }
    let mut mask = 0;
    // What the kernel alone knows: urgent data, bands. Asked for only by those who want it.
    const REST: u32 = (libc::EPOLLPRI | libc::EPOLLRDBAND | libc::EPOLLMSG) as u32;
    if interest & REST != 0 {
        mask |= poll::probe(fd, (interest & REST) as i16) as u16 as u32 & interest & REST;
    }
    if interest & IN != 0 && stream::readable(&mut guard, fd) {
        mask |= IN;
    }
    if interest & OUT != 0 && stream::writable(&mut guard, fd) {
        mask |= OUT;
    }
    let conn = at.conn;
    if conn.has(flag::ANCHOR | flag::EOF | flag::PEER_GONE | flag::DAMAGED | flag::SHUT_RD) {
        // The anchor knows about ends and errors what the VI does not.
        let probe = poll::probe(fd, libc::POLLRDHUP) as u32;
        mask |= probe & (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32;
        if conn.has(flag::DAMAGED) {
            mask |= IN | OUT | (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        }
    }
    mask
}

/// Whether `epoll_wait` on that instance needs us at all.
#[inline]
pub fn is_ours(index: u32) -> bool {
    get(index).is_some_and(|set| set.attached.load(Ordering::Acquire) != 0)
}

/// `epoll_wait` and its relatives. `timeout` in nanoseconds, `None` for ever.
pub fn wait(
    index: u32,
    out: &mut [Event],
    timeout: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Outcome {
    let Some(set) = get(index) else { return Err(libc::EBADF) };
    let mut deadline = None;
    loop {
        let (mut n, look) = set.with(|inner| {
            let now = clock::now_ns();
            inner.rounds += 1;
            let look = now - inner.looked >= KERNEL_NS || inner.rounds >= KERNEL_EVERY;
            if look {
                inner.rounds = 0;
                inner.looked = now;
                inner.kernel_first = !inner.kernel_first;
            }
            // Neither kind may starve the other: half the places for the kernel's, in turn.
            let places = if look && inner.kernel_first { out.len() / 2 } else { out.len() };
            let n = set.collect(inner, &mut out[..places]);
            if n == out.len() {
                // There was no place left for anything else.
                inner.rounds += KERNEL_EVERY / 4;
            }
            (n, look)
        });
        set.settle();
        if n > 0 || look {
            if look && n < out.len() {
                n += set
                    .kernel(&mut out[n..], Some(0), mask)
                    .or_else(|e| if n > 0 { Ok(0) } else { Err(e) })?;
            }
            if n == 0 {
                n = set.with(|inner| set.collect(inner, out));
            }
            if n > 0 || timeout == Some(0) {
                return Ok(n);
            }
        }
        if timeout == Some(0) {
            return set.kernel(out, Some(0), mask);
        }
        let until = match (timeout, deadline) {
            (None, _) => None,
            (Some(_), Some(deadline)) => Some(deadline),
            (Some(timeout), None) => Some(clock::now_ns().saturating_add(timeout)),
        };
        deadline = until;
        match set.spin_or_sleep(out, until, mask) {
            Ok(0) if until.is_some_and(|until| clock::now_ns() >= until) => {
                return Ok(set.with(|inner| set.collect(inner, out)));
            }
            Ok(0) => {}
            other => return other,
        }
    }
}

impl Set {
    /// Asks the kernel's instance; the doorbell's event is taken out.
    fn kernel(
        &self,
        out: &mut [Event],
        timeout: Option<u64>,
        mask: Option<&libc::sigset_t>,
    ) -> Outcome {
        let n = poll::epoll_wait(self.epfd, out, timeout, mask).map_err(errno)?;
        let mut kept = 0;
        for i in 0..n {
            let event = out[i];
            if { event.u64 } != DOOR {
                out[kept] = event;
                kept += 1;
            }
        }
        Ok(kept)
    }

    /// Waits once; events of the kernel's instance, or 0 for "look again".
    fn spin_or_sleep(
        &self,
        out: &mut [Event],
        until: Option<u64>,
        mask: Option<&libc::sigset_t>,
    ) -> Result<usize, Errno> {
        // The waiters stay where they are while we look, unless another thread closes the
        // instance meanwhile; a few are remembered here, which is all but always all.
        let mut waiters: [Option<&'static Waiter>; 16] = [None; 16];
        let (count, worth) = self.with(|inner| {
            for (to, lane) in waiters.iter_mut().zip(&inner.lanes) {
                *to = Some(lane.waiter());
            }
            (inner.lanes.len(), inner.lanes.iter().any(|lane| lane.pair.worth_spinning()))
        });
        let waiters = &waiters[..count.min(16)];
        let news = || waiters.iter().flatten().any(|waiter| waiter.has_news());
        let mut spin = Spin::begin(worth);
        let mut from_kernel = Ok(0);
        let found = spin.run(news, KERNEL_NS, || {
            from_kernel = self.kernel(out, Some(0), mask);
            !matches!(from_kernel, Ok(0))
        });
        if found {
            spin.learn();
            return from_kernel;
        }
        if crate::progress::is_missing() {
            crate::progress::restart();
        }
        self.asleep.fetch_add(1, Ordering::AcqRel);
        let news = self.with(|inner| {
            for lane in &inner.lanes {
                lane.waiter().going_to_sleep();
            }
            inner.has_news() || !inner.ready.is_empty()
        });
        let result = if news {
            Ok(0)
        } else {
            let left = until.map(|until| until.saturating_sub(clock::now_ns()));
            crate::stats::slept();
            crate::wait::cancellable(|| self.kernel(out, left, mask))
        };
        let asleep = self.asleep.fetch_sub(1, Ordering::AcqRel) - 1;
        self.with(|inner| {
            // Another thread may sleep on, and must be rung for.
            if asleep == 0 {
                for lane in &inner.lanes {
                    lane.waiter().awake();
                }
            }
        });
        spin.learn();
        result
    }
}

/// Takes the library's own events out of what the kernel reported; how many are left.
pub fn filter(events: &mut [Event]) -> usize {
    let mut kept = 0;
    for i in 0..events.len() {
        let event = events[i];
        if { event.u64 } != DOOR {
            events[kept] = event;
            kept += 1;
        }
    }
    kept
}

/// The instance is itself waited on by poll or select.
pub fn polled(index: u32) {
    if let Some(set) = get(index) {
        set.make_nested();
    }
}

/// Whether a connection is in an instance that is itself waited on: then it stays on TCP.
pub(crate) fn is_nested(at: Ref) -> bool {
    let mut found = false;
    if NESTED.load(Ordering::Acquire) != 0 {
        each(|set| {
            found |= set.nested.load(Ordering::Acquire)
                && set.with(|inner| {
                    inner.entries.iter().any(|e| e.registered && e.at.same(at))
                });
        });
    }
    found
}
