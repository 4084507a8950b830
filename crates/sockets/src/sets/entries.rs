//! Contents of a set: connections by descriptor and by VI, and the queue of entries that may be ready.

use super::COPIED;
use super::order::Order;
use super::ready::readiness_under;
use super::set::DISABLED;
use crate::conn::{Fate, Phase, flag};
use crate::pair::{Pair, ReadyList};
use crate::table::{self, Ref};
use crate::{family, members};
use core::sync::atomic::Ordering;
use sovia_sys::{Fd, call, poll};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) entries: Vec<Entry>,
    pub(super) free: Vec<u32>,
    pub(crate) ready: VecDeque<u32>,
    /// Number of entries at the front of `ready` that have not been visited since the last collection.
    pub(super) unvisited: usize,
    /// Number of collections so far.
    pub(crate) collections: u64,
    /// Entries whose marks [`Inner::drain`] has taken, each with the time of its mark. Empty between calls.
    marked: Vec<(u64, u32)>,
    pub(crate) lanes: Vec<Lane>,
    /// Time of the last look at the kernel's instance.
    pub(crate) looked: u64,
    /// Number of rounds of `epoll_wait` since then.
    pub(crate) rounds: u32,
    /// Order of events of both sources.
    pub(crate) order: Order,
    /// Alternates, and gives the first places of `out` to the kernel's events if `out` may hold only one kind.
    pub(crate) kernel_first: bool,
    pub(crate) door: u32,
    pub(super) door_added: bool,
    /// Connections that are back on TCP in both directions.
    pub(super) settled: Vec<Ref>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    /// Number of the entry, in this process and its forked children.
    pub(super) number: u64,
    /// The number by which the program knows the entry. The program may close this number while the connection has
    /// others.
    pub(super) fd: i32,
    pub(super) at: Ref,
    /// Descriptor by which Sovia asks the kernel.
    through: i32,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// Set while the program has the entry in the set.
    pub(crate) registered: bool,
    /// Set while the entry is kept here and not in the kernel's instance.
    pub(super) attached: bool,
    /// Cleared while EPOLLONESHOT has disabled the entry.
    pub(crate) armed: bool,
    pub(super) queued: bool,
    /// Next entry of the same connection.
    pub(super) next: u32,
    /// Number of the last collection that reported the entry.
    pub(super) collected: u64,
    /// Set once the connection has had another entry in the same set.
    pub(super) has_twin: bool,
}

impl Entry {
    /// Returns the events that hold for the connection now, and that the program wants or cannot refuse.
    pub(super) fn mask(&mut self) -> u32 {
        let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let kernel_socket = self.kernel_socket();
        let Some(mut guard) = self.at.attached() else { return 0 };
        let mask = readiness_under(&mut guard, self.at, kernel_socket, self.events);
        if mask & libc::EPOLLERR as u32 != 0 {
            guard.own.is_end_reported = true;
        }
        mask & (self.events | always)
    }

    /// Returns a descriptor of the connection in this process.
    #[inline]
    pub(super) fn kernel_socket(&mut self) -> i32 {
        if !table::refers(self.through, self.at)
            && let Some(other) = table::descriptor_of(self.at.conn)
        {
            self.through = other;
        }
        self.through
    }

    /// Gives the entry to the kernel's instance `epfd`, in the state that a forked relative has given its copy.
    pub(super) fn go_over(&mut self, epfd: i32) {
        // The lock is held until the kernel has the entry. A relative that changes the entry then finds it there.
        let mut locked = self.at.conn.lock();
        let fate = locked.copies.fate(self.number);
        if fate != Some(Fate::Over) {
            self.change_as(fate);
            self.give_to_kernel(epfd);
            // Recorded only now: if this process is killed before, a relative gives its copy to the kernel again.
            locked.copies.record(self.number, Fate::Over);
        }
    }

    fn change_as(&mut self, fate: Option<Fate>) {
        if let Some(Fate::Changed { events, data, armed }) = fate {
            (self.events, self.data, self.armed) = (events, data, armed);
        }
    }

    /// Applies the changes that relatives have made to the entry since the fork.
    pub(super) fn catch_up(&mut self) {
        let conn = self.at.conn;
        let fate = conn.lock().copies.fate(self.number);
        self.change_as(fate);
        // An entry that the kernel has leaves the set together with its connection.
        let has_left = !self.at.is_attached_here() || conn.is_going_back();
        if fate == Some(Fate::Over) && !has_left && !conn.has(flag::LEFT_TO_SETS) {
            self.registered = false;
            self.renew();
        }
    }

    /// Gives the entry a new number, so that no other process has a copy of it.
    fn renew(&mut self) {
        self.number = family::number_set_entry();
    }

    /// Records the entry's state, or its removal, for the copies of relatives. Returns false if a relative has already
    /// given the entry to the kernel.
    #[inline]
    pub(super) fn tell_copies(&mut self) -> bool {
        self.number >= COPIED.load(Ordering::Acquire) || self.record()
    }

    #[cold]
    #[inline(never)]
    fn record(&mut self) -> bool {
        let conn = self.at.conn;
        let mut locked = conn.lock();
        let before = locked.copies.fate(self.number);
        let is_here = before != Some(Fate::Over);
        let is_alone = conn.holders.load(Ordering::Acquire) == members::only_me();
        if is_here && (is_alone || before.is_none() && !members::others_live(&conn.holders)) {
            // No copy of any entry is left.
            locked.copies.forget();
            self.renew();
            return true;
        }
        let (events, data, armed) = (self.events, self.data, self.armed);
        let now = if self.registered { Fate::Changed { events, data, armed } } else { Fate::Over };
        if is_here {
            locked.copies.record(self.number, now);
        }
        if !self.registered {
            // An entry that is added in this place later is another one.
            self.renew();
        }
        is_here
    }

    /// Registers the connection in the kernel's instance `epfd`. If the program has closed the entry's number, this
    /// adds a number that is open only during this call. The connection's other numbers have entries of their own. The
    /// kernel keeps this entry until the last of them is closed.
    fn give_to_kernel(&mut self, epfd: i32) {
        let fd = self.kernel_socket();
        let (events, data) = if self.armed {
            (self.events, self.data)
        } else {
            // The kernel cannot add a disabled entry. This one reports an end once, and [`super::is_own`] recognises
            // it.
            (libc::EPOLLONESHOT as u32, DISABLED)
        };
        let add = |fd| poll::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, events, data);
        if fd == self.fd {
            let _ = add(fd);
            return;
        }
        let mut first = fd + 1;
        while let Ok(copy) = Fd::duplicate(fd, first)
            && add(copy.raw()) == Err(call::Errno::EEXIST)
        {
            // Another entry is registered by that number.
            first = copy.raw() + 1;
        }
    }
}

/// Connects a set with one pair of processes.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) pair: Arc<Pair>,
    pub(super) ready_list: u32,
    /// First entry of the connection on each VI.
    pub(super) entries: Vec<u32>,
    /// Set while the instance is notified of the rings of another user's process.
    pub(super) listens: bool,
}

impl Lane {
    pub(crate) fn ready_list(&self) -> &ReadyList {
        self.pair.ready_list(self.ready_list)
    }
}

/// Takes an entry out of its lane's chain.
pub(super) fn unlink(inner: &mut Inner, index: u32) {
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

impl Inner {
    /// Records that the caller is about to look at the kernel's instance.
    pub(crate) fn looks_at_kernel(&mut self, now: u64) {
        (self.rounds, self.looked) = (0, now);
    }

    pub(crate) fn find(&self, fd: i32, at: Ref) -> Option<u32> {
        // A VI's chain is short. Entries that are not attached are found in the list.
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

    pub(crate) fn entry(&mut self, fd: i32, at: Ref) -> u32 {
        if let Some(i) = self.find(fd, at) {
            return i;
        }
        let entry = Entry {
            number: family::number_set_entry(),
            fd,
            at,
            through: fd,
            events: 0,
            data: 0,
            registered: false,
            attached: false,
            armed: true,
            queued: false,
            next: NONE,
            collected: 0,
            has_twin: false,
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

    pub(crate) fn drop_entry(&mut self, fd: i32, at: Ref) {
        if let Some(i) = self.find(fd, at) {
            self.entries[i as usize].registered = false;
            if !self.entries[i as usize].attached {
                self.free.push(i);
            }
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, i: u32) {
        let entry = &mut self.entries[i as usize];
        if !entry.queued {
            entry.queued = true;
            self.ready.push_back(i);
        }
    }

    /// Queues an entry that comes from the kernel's instance, at the turn that it had there.
    pub(super) fn enqueue_in_turn(&mut self, i: u32) {
        let entry = &mut self.entries[i as usize];
        if !entry.queued {
            entry.queued = true;
            let data = entry.data;
            let queue = self.ready.iter().map(|&other| self.entries[other as usize].data);
            let place = self.order.place(data, queue);
            self.ready.insert(place, i);
        }
    }

    /// Queues, before all others, the other entries of a ready entry's connection that want events of `mask`. Returns
    /// their number. The peer may be about to mark these entries, and the kernel marks all entries of a socket at once.
    /// Edge-triggered entries wait for their marks: otherwise an edge would be reported twice.
    #[cold]
    pub(super) fn enqueue_twins(&mut self, of: u32, mask: u32) -> usize {
        let at = self.entries[of as usize].at;
        let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
        let mut count = 0;
        for lane in &self.lanes {
            let mut i = lane.entries.get(vi).copied().unwrap_or(NONE);
            while let Some(twin) = self.entries.get_mut(i as usize) {
                let is_level = twin.events & libc::EPOLLET as u32 == 0;
                let is_awaited = twin.registered && twin.armed && twin.events & mask != 0;
                if i != of && is_level && is_awaited && !twin.queued && twin.at.same(at) {
                    twin.queued = true;
                    self.ready.push_front(i);
                    count += 1;
                }
                i = twin.next;
            }
        }
        count
    }

    /// Queues the entries that wait for a VI, without regard to the ready list's marks. An edge may have been reported
    /// already, so it is queued again only if the segment is `suspect`.
    pub(super) fn untold(&mut self, pair: &Pair, vi: u32, suspect: bool) {
        let edge = libc::EPOLLET as u32;
        for l in 0..self.lanes.len() {
            if !core::ptr::eq(&*self.lanes[l].pair, pair) {
                continue;
            }
            self.lanes[l].ready_list().summarise();
            let mut i = self.lanes[l].entries.get(vi as usize).copied().unwrap_or(NONE);
            while let Some(entry) = self.entries.get(i as usize) {
                let next = entry.next;
                if suspect || entry.events & edge == 0 {
                    self.enqueue(i);
                }
                i = next;
            }
        }
    }

    /// Takes the peers' marks. Entries become ready in the order of the marks, as in the kernel's list.
    #[inline]
    pub(super) fn drain(&mut self) {
        for lane in &self.lanes {
            let ready_list = lane.ready_list();
            if !ready_list.has_news() {
                continue;
            }
            ready_list.drain(|vi| {
                let mut i = lane.entries.get(vi as usize).copied().unwrap_or(NONE);
                while let Some(entry) = self.entries.get_mut(i as usize) {
                    if !core::mem::replace(&mut entry.queued, true) {
                        self.marked.push((lane.pair.marked(vi), i));
                    }
                    if entry.attached {
                        // Prefetches: the connections of all marked entries are used next, so their cache lines can
                        // come at the same time.
                        entry.at.conn.fetch_next();
                    }
                    i = entry.next;
                }
            });
        }
        self.marked.sort_unstable();
        self.ready.extend(self.marked.drain(..).map(|(_, i)| i));
    }

    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.lanes.iter().any(|lane| lane.ready_list().has_news())
    }
}
