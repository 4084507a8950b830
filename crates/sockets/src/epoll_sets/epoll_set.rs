//! A set, which serves one epoll instance. The set keeps the entries of connections with a VI, and collects the
//! events of ready entries.

use super::NESTED;
use super::entries::{EpollEntry, Inner, NONE, WatchedPair};
use super::ready::check_exclusive;
use crate::conn::flag;
use crate::pair::{self, VIS};
use crate::stream;
use crate::table::Ref;
use crate::{Errno, Outcome, errno};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use libc::epoll_event;
use sovia_sync::{RobustBox, rank};
use sovia_sys::{call, poll};
use std::sync::Arc;

/// User data of the doorbell's entry in the kernel's instance. No pointer has this value, and a program is unlikely
/// to use this number.
const DOORBELL_TOKEN: u64 = 0xd5_0b1a_d00b_e115;

/// User data of an entry that EPOLLONESHOT has disabled, while the kernel's instance has the entry.
pub(super) const DISABLED: u64 = DOORBELL_TOKEN + 1;

/// Returns true if `data` belongs to the library's own entries, whose events the program must not get.
#[inline]
pub(crate) fn is_own(data: u64) -> bool {
    data == DOORBELL_TOKEN || data == DISABLED
}

/// Serves one epoll instance. After the end of this instance, the set may serve another one.
#[derive(Debug)]
pub(crate) struct EpollSet {
    /// Changes when the set starts or stops serving an instance. Odd while the set serves an instance.
    generation: AtomicU32,
    /// A descriptor of the epoll instance in this process. If the program closes this descriptor, another one
    /// replaces it.
    pub(super) epfd: AtomicI32,
    /// Number of entries that the set has instead of the kernel's instance.
    pub(crate) attached: AtomicU32,
    /// Number of descriptors of the epoll instance in this process.
    pub(super) references: AtomicU32,
    /// Id of the process that made the epoll instance.
    owner: AtomicI32,
    /// Number of threads asleep in the kernel's instance. Includes threads that began to sleep while `attached` was
    /// 0.
    pub(crate) asleep: AtomicU32,
    /// Set once something outside this process's `epoll_wait` waits for the epoll instance: another instance, poll,
    /// select or another process. These waits do not see readiness in memory, so no connection in the instance is
    /// accelerated.
    pub(crate) nested: AtomicBool,
    /// Set while `settled` is not empty: the set must move entries of connections back on TCP to the kernel's
    /// instance.
    pub(super) any_settled: AtomicBool,
    /// Number of entries so far that have moved to the kernel's instance or from there.
    pub(crate) moved: AtomicU32,
    pub(super) inner: RobustBox<Inner, { rank::EPOLL_SET }>,
}

impl EpollSet {
    /// Returns a set that serves no epoll instance.
    pub(super) fn new() -> EpollSet {
        EpollSet {
            generation: AtomicU32::new(0),
            epfd: AtomicI32::new(-1),
            attached: AtomicU32::new(0),
            references: AtomicU32::new(0),
            owner: AtomicI32::new(0),
            asleep: AtomicU32::new(0),
            nested: AtomicBool::new(false),
            any_settled: AtomicBool::new(false),
            moved: AtomicU32::new(0),
            inner: RobustBox::new(Inner::default()),
        }
    }

    /// Returns a number that identifies the served epoll instance among all instances that this set has served.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns true while the set serves an epoll instance.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.generation() & 1 != 0
    }

    /// Returns the id of the process that made the epoll instance.
    pub(super) fn owner(&self) -> i32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Starts serving the epoll instance `epfd`, with doorbell `doorbell`. Returns false if the set already serves an
    /// instance.
    pub(super) fn open(&self, epfd: i32, doorbell: u32) -> bool {
        !self.is_open()
            && self.with(|inner| {
                if self.is_open() {
                    return false;
                }
                inner.doorbell = doorbell;
                self.epfd.store(epfd, Ordering::Relaxed);
                self.references.store(1, Ordering::Relaxed);
                self.owner.store(call::getpid(), Ordering::Relaxed);
                self.generation.fetch_add(1, Ordering::Release);
                true
            })
    }

    /// Stops serving the epoll instance. The set itself stays, because threads may still be in calls on it.
    pub(super) fn close(&self) {
        // Do not free ready lists in a forked child, because they belong to the parent.
        let ours = self.owner() == call::getpid();
        self.with(|inner| {
            // `take` also frees the memory of all entries.
            for watched_pair in core::mem::take(inner).watched_pairs {
                if ours {
                    watched_pair.pair.give_ready_list(watched_pair.ready_list);
                }
            }
            self.attached.store(0, Ordering::SeqCst);
            self.any_settled.store(false, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
        });
    }

    /// Like [`EpollSet::with`], for the epoll instance with generation `generation`. Fails with EBADF if this instance
    /// has been closed.
    pub(crate) fn with_generation<R>(
        &self,
        generation: u32,
        f: impl FnOnce(&mut Inner) -> R,
    ) -> Result<R, Errno> {
        let is_same = || generation & 1 != 0 && self.generation() == generation;
        self.with(|inner| is_same().then(|| f(inner))).ok_or(libc::EBADF)
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        self.inner.with(f)
    }

    pub(crate) fn epfd(&self) -> i32 {
        self.epfd.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with(|inner| inner.entries.is_empty())
    }

    /// Starts to keep an entry in the set instead of the kernel's instance. Returns false if the pair has no free
    /// ready list. From now on the peer's marks queue the entry. Events before this call do not queue the entry.
    pub(crate) fn take_in(&self, inner: &mut Inner, i: u32) -> bool {
        let at = inner.entries[i as usize].at;
        let Some(pair) = pair::share(at.conn.pair.load(Ordering::Relaxed)) else { return false };
        let watched_pair = match inner
            .watched_pairs
            .iter()
            .position(|watched_pair| Arc::ptr_eq(&watched_pair.pair, &pair))
        {
            Some(watched_pair) => watched_pair,
            None => {
                let Some(ready_list) = pair.take_ready_list(inner.doorbell) else { return false };
                let entries = vec![NONE; VIS as usize];
                inner.watched_pairs.push(WatchedPair { pair, ready_list, entries, listens: false });
                inner.watched_pairs.len() - 1
            }
        };
        if !inner.doorbell_added
            && let Some(doorbell) = pair::doorbell(inner.doorbell as usize)
        {
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            let _ =
                poll::epoll_ctl(self.epfd(), libc::EPOLL_CTL_ADD, doorbell, events, DOORBELL_TOKEN);
            inner.doorbell_added = true;
        }
        if !core::mem::replace(&mut inner.watched_pairs[watched_pair].listens, true) {
            let index = at.conn.pair.load(Ordering::Relaxed);
            inner.watched_pairs[watched_pair].pair.listen(index, self.epfd(), inner.doorbell);
        }
        let ready_list = inner.watched_pairs[watched_pair].ready_list;
        let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
        let first = core::mem::replace(&mut inner.watched_pairs[watched_pair].entries[vi], i);
        let entry = &mut inner.entries[i as usize];
        entry.next = if first == i { NONE } else { first };
        entry.attached = true;
        if let Some(twin) = inner.entries.get_mut(first as usize).filter(|_| first != i) {
            twin.has_twin = true;
            inner.entries[i as usize].has_twin = true;
        }
        // SYNC: pairs with the increment and load in `KernelSleep::begin`. Either this thread finds the other
        // thread asleep, or the other thread finds this connection.
        self.attached.fetch_add(1, Ordering::SeqCst);
        {
            if let Some(mut guard) = at.attached() {
                stream::listeners::watch(&mut guard, ready_list);
            }
        }
        true
    }

    /// Checks an entry after it was added or changed, like the kernel does. Queues the entry if it is ready, after
    /// entries that became ready earlier. If the entry is not ready, the peer's mark will queue it.
    fn look(&self, inner: &mut Inner, i: u32) {
        let entry = &mut inner.entries[i as usize];
        let conn = entry.at.conn;
        let goes_back = conn.has(flag::LEFT_TO_EPOLL_SETS) || conn.is_going_back();
        if goes_back || !entry.at.is_attached_here() || entry.mask() != 0 {
            inner.drain();
            inner.enqueue(i);
        }
        self.wake_sleeper(inner);
    }

    pub(crate) fn control_attached(
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
        if op != libc::EPOLL_CTL_ADD && found.is_some_and(|i| !inner.entries[i as usize].attached) {
            // The connection got its VI a moment ago, and the kernel's instance still has the entry.
            let _ = poll::epoll_ctl(self.epfd(), libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
        let i = match (op, found) {
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(libc::EEXIST),
            (libc::EPOLL_CTL_ADD, None) => inner.entry(fd, at),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(libc::ENOENT),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, Some(i)) => i,
            _ => return Err(libc::EINVAL),
        };
        let entry = &mut inner.entries[i as usize];
        if op == libc::EPOLL_CTL_DEL {
            entry.registered = false;
        } else {
            let Some((events, data)) = event else { return Err(libc::EFAULT) };
            (entry.events, entry.data) = (events, data);
            (entry.registered, entry.armed) = (true, true);
        }
        if op != libc::EPOLL_CTL_ADD && !entry.update_copies() {
            let (events, data) = event.unwrap_or_default();
            return poll::epoll_ctl(self.epfd(), op, fd, events, data).map(|()| 0).map_err(errno);
        }
        if op == libc::EPOLL_CTL_DEL {
            return Ok(0);
        }
        if !entry.attached && !self.take_in(inner, i) {
            inner.entries[i as usize].registered = false;
            return Err(libc::ENOSPC);
        }
        self.look(inner, i);
        Ok(0)
    }

    /// Removes the calling thread from the count of sleeping threads. Returns true if no other thread sleeps. Keeps
    /// a count of 0, which is possible in a child forked by a signal handler during the sleep.
    pub(crate) fn count_awake(&self) -> bool {
        let sub = |n: u32| n.checked_sub(1);
        self.asleep.fetch_update(Ordering::SeqCst, Ordering::SeqCst, sub) == Ok(1)
    }

    /// Announces a thread's sleep to the peers of all connections, so that a peer with an event rings.
    pub(crate) fn announce_sleep(&self, inner: &Inner) {
        for watched_pair in &inner.watched_pairs {
            watched_pair.ready_list().rung_by(inner.doorbell);
            watched_pair.ready_list().going_to_sleep();
        }
    }

    /// Announces the sleep of threads that still sleep in the set. If there is an event, wakes one of them. Call it
    /// after a change of the set, or after taking the doorbell's event. The reason is that a ring wakes one thread,
    /// and a peer does not ring again until the next announcement.
    pub(crate) fn wake_sleeper(&self, inner: &Inner) {
        if self.asleep.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.announce_sleep(inner);
        if (inner.has_events() || !inner.ready.is_empty())
            && let Some(doorbell) = pair::doorbell(inner.doorbell as usize)
        {
            let _ = call::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Begins to use an epoll instance that this process has inherited. The set's entries are copies of the
    /// parent's entries.
    pub(crate) fn catch_up(&self) {
        self.with(|inner| {
            inner.entries.iter_mut().filter(|entry| entry.attached).for_each(EpollEntry::catch_up);
            // Queue all entries. For events since the fork, peers marked only the ready lists of the process that
            // uses the instance.
            for i in 0..inner.entries.len() as u32 {
                if inner.entries[i as usize].attached {
                    inner.enqueue(i);
                }
            }
        });
    }

    /// Sets [`EpollSet::nested`]. Returns the connections of the set's own entries, which must go back to TCP.
    pub(crate) fn nest(&self) -> Vec<(i32, Ref)> {
        if !self.nested.swap(true, Ordering::AcqRel) {
            NESTED.fetch_add(1, Ordering::AcqRel);
        }
        self.with(|inner| {
            inner
                .entries
                .iter_mut()
                .filter(|e| e.attached)
                .map(|e| (e.kernel_socket(), e.at))
                .collect()
        })
    }

    /// Removes the doorbell from the kernel's instance. Call it while the set has no entries of its own.
    pub(crate) fn drop_doorbell(&self) {
        self.with(|inner| self.close_epoll_of_doorbell(inner));
    }

    /// Removes the doorbell from the kernel's instance if the set has no entries of its own.
    pub(super) fn drop_idle_doorbell(&self) {
        self.with(|inner| {
            if self.attached.load(Ordering::Acquire) == 0 {
                self.close_epoll_of_doorbell(inner);
            }
        });
    }

    fn close_epoll_of_doorbell(&self, inner: &mut Inner) {
        if core::mem::take(&mut inner.doorbell_added)
            && let Some(doorbell) = pair::doorbell(inner.doorbell as usize)
        {
            let _ = poll::epoll_ctl(self.epfd(), libc::EPOLL_CTL_DEL, doorbell, 0, 0);
        }
        for watched_pair in &mut inner.watched_pairs {
            if core::mem::take(&mut watched_pair.listens) {
                watched_pair.pair.listen_no_more(self.epfd(), inner.doorbell);
            }
        }
    }

    /// Calls `settle` for each connection that is back on TCP, without the set's lock. Returns true if an entry has
    /// moved to or from the kernel's instance meanwhile.
    pub(crate) fn settle(&self, settle: impl Fn(Ref)) -> bool {
        if !self.any_settled.load(Ordering::Relaxed) {
            return false;
        }
        let before = self.moved.load(Ordering::Acquire);
        let settled = self.with(|inner| {
            self.any_settled.store(false, Ordering::Relaxed);
            core::mem::take(&mut inner.settled)
        });
        settled.into_iter().for_each(settle);
        self.moved.load(Ordering::Acquire) != before
    }

    /// Starts a collection: writes events of ready entries into `out`, and returns their number.
    pub(crate) fn collect(&self, inner: &mut Inner, out: &mut [epoll_event]) -> usize {
        inner.drain();
        inner.unvisited = inner.ready.len();
        inner.collections += 1;
        self.visit(inner, out, inner.collections)
    }

    /// Continues a [`EpollSet::collect`] that has filled its buffer. Skips entries that collection `number` or a later
    /// collection has reported.
    pub(crate) fn visit(&self, inner: &mut Inner, out: &mut [epoll_event], number: u64) -> usize {
        let mut n = 0;
        while inner.unvisited > 0 && n < out.len() {
            inner.unvisited -= 1;
            let Some(i) = inner.ready.pop_front() else { break };
            let entry = &mut inner.entries[i as usize];
            if !entry.registered || !entry.armed || !entry.attached {
                entry.queued = false;
                continue;
            }
            if entry.collected >= number {
                inner.ready.push_back(i);
                continue;
            }
            let at = entry.at;
            if at.conn.has(flag::LEFT_TO_EPOLL_SETS) || !at.is_attached_here() {
                // The connection is back on TCP. A forked relative may have done the fallback.
                entry.queued = false;
                inner.settled.push(at);
                self.any_settled.store(true, Ordering::Relaxed);
                continue;
            }
            let mask = entry.mask();
            if at.conn.is_going_back() || !at.is_attached_here() {
                // The fallback to TCP may have begun after the check above.
                inner.settled.push(at);
                self.any_settled.store(true, Ordering::Relaxed);
            }
            if mask == 0 {
                entry.queued = false;
                continue;
            }
            if entry.events & libc::EPOLLONESHOT as u32 != 0 {
                entry.armed = false;
                if !entry.update_copies() {
                    // A forked relative has moved the entry to the kernel's instance, which reports the event.
                    entry.queued = false;
                    continue;
                }
            }
            out[n] = epoll_event { events: mask, u64: entry.data };
            entry.collected = inner.collections;
            n += 1;
            let has_twin = entry.has_twin;
            if entry.events & (libc::EPOLLONESHOT | libc::EPOLLET) as u32 != 0 {
                entry.queued = false;
            } else {
                // The entry is level-triggered, so the next collection checks it again, after the other entries.
                inner.ready.push_back(i);
            }
            if has_twin {
                inner.unvisited += inner.enqueue_twins(i, mask);
            }
        }
        n
    }
}
