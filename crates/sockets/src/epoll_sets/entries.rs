//! Contents of an epoll set: entries by descriptor and by VI, and the queue of entries that may be ready.

use super::COPIED;
use super::epoll_set::DISABLED;
use super::order::ReportOrder;
use super::ready::readiness_under;
use crate::conn::{Fate, Phase, flag};
use crate::pair::{Pair, ReadyList};
use crate::table::{self, Ref};
use crate::{family, process_slots};
use core::sync::atomic::Ordering;
use sovia_sys::{Fd, call, poll};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) entries: Vec<EpollEntry>,
    pub(super) free: Vec<u32>,
    pub(crate) ready: VecDeque<u32>,
    /// Number of entries at the front of `ready` that have not been checked since the last collection of events.
    pub(super) unvisited: usize,
    /// Number of collections of events so far.
    pub(crate) collections: u64,
    /// Entries whose marks in ready lists [`Inner::drain`] has taken, each with the time of its mark. Empty between
    /// calls.
    marked: Vec<(u64, u32)>,
    pub(crate) watched_pairs: Vec<WatchedPair>,
    /// Time of the last check of the kernel's epoll instance.
    pub(crate) looked: u64,
    /// Number of rounds of `epoll_wait` since this check.
    pub(crate) rounds: u32,
    /// Order of events from VIs and from the kernel's instance.
    pub(crate) order: ReportOrder,
    /// Set if the kernel's events come first in the next wait. Alternates if the program's buffer may hold only one
    /// kind of events.
    pub(crate) kernel_first: bool,
    pub(crate) doorbell: u32,
    pub(super) doorbell_added: bool,
    /// Connections whose directions are both back on TCP.
    pub(super) settled: Vec<Ref>,
}

#[derive(Debug)]
pub(crate) struct EpollEntry {
    /// Number that identifies the entry. A copy in a forked child has the same number.
    pub(super) number: u64,
    /// Descriptor by which the program knows the entry. The program may have closed it, while the connection has
    /// other descriptors.
    pub(super) fd: i32,
    pub(super) at: Ref,
    /// Descriptor by which Sovia asks the kernel about the connection.
    through: i32,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// Set while the program has the entry in the set.
    pub(crate) registered: bool,
    /// Set while Sovia serves the entry. Cleared while the kernel's instance has the entry.
    pub(super) attached: bool,
    /// Cleared while EPOLLONESHOT has disabled the entry.
    pub(crate) armed: bool,
    pub(super) queued: bool,
    /// Index of the next entry of the same connection, or `NONE`.
    pub(super) next: u32,
    /// Number of the last collection of events that reported the entry.
    pub(super) collected: u64,
    /// Set once the connection has had another entry in this epoll set.
    pub(super) has_twin: bool,
}

impl EpollEntry {
    /// Returns the events that hold for the connection now, and that the program wants or always gets.
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

    /// Returns a descriptor of the connection in this process, to ask the kernel.
    #[inline]
    pub(super) fn kernel_socket(&mut self) -> i32 {
        if let Some(open) = table::open_descriptor(self.through, self.at) {
            self.through = open;
        }
        self.through
    }

    /// Moves the entry to the kernel's instance `epfd`. If a forked relative has changed its copy of the entry,
    /// first applies this change.
    pub(super) fn go_over(&mut self, epfd: i32) {
        // Hold the lock until the kernel has the entry. A forked relative that then changes the entry finds it in
        // the kernel's instance.
        let mut locked = self.at.conn.lock();
        let fate = locked.copies.fate(self.number);
        if fate != Some(Fate::Over) {
            self.change_as(fate);
            self.give_to_kernel(epfd);
            // Record this last. If this process is killed earlier, a forked relative moves its copy to the kernel's
            // instance again.
            locked.copies.record(self.number, Fate::Over);
        }
    }

    fn change_as(&mut self, fate: Option<Fate>) {
        if let Some(Fate::Changed { events, data, armed }) = fate {
            (self.events, self.data, self.armed) = (events, data, armed);
        }
    }

    /// Applies the changes that forked relatives have made to their copies of the entry.
    pub(super) fn catch_up(&mut self) {
        let conn = self.at.conn;
        let fate = conn.lock().copies.fate(self.number);
        self.change_as(fate);
        // Ignore an entry that the kernel has because the connection left its VI. This entry leaves the set with
        // its connection.
        let has_left = !self.at.is_attached_here() || conn.is_going_back();
        if fate == Some(Fate::Over) && !has_left && !conn.has(flag::LEFT_TO_EPOLL_SETS) {
            self.registered = false;
            self.renew();
        }
    }

    /// Gives the entry a new number, so that no other process has a copy with this number.
    fn renew(&mut self) {
        self.number = family::number_epoll_entry();
    }

    /// Records the entry's state, or its removal, for the copies in forked relatives. Returns false if a relative
    /// has already moved the entry to the kernel's instance.
    #[inline]
    pub(super) fn update_copies(&mut self) -> bool {
        self.number >= COPIED.load(Ordering::Acquire) || self.record()
    }

    #[cold]
    #[inline(never)]
    fn record(&mut self) -> bool {
        let conn = self.at.conn;
        let mut locked = conn.lock();
        let before = locked.copies.fate(self.number);
        let is_here = before != Some(Fate::Over);
        let is_alone = conn.references.load(Ordering::Acquire) == process_slots::only_me();
        if is_here
            && (is_alone || before.is_none() && !process_slots::others_live(&conn.references))
        {
            // No other process has a copy of any entry of this connection.
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
            // Use a new number, because an entry that is added here later has no copies.
            self.renew();
        }
        is_here
    }

    /// Registers the connection in the kernel's instance `epfd`. If the program has closed the entry's descriptor,
    /// registers a duplicate that is open only during this call. The kernel keeps the duplicate's entry until the
    /// connection's last descriptor is closed. The connection's other descriptors have their own entries.
    fn give_to_kernel(&mut self, epfd: i32) {
        let fd = self.kernel_socket();
        let (events, data) = if self.armed {
            (self.events, self.data)
        } else {
            // The kernel cannot add a disabled entry. So add an entry that reports an end once, with user data that
            // [`super::is_own`] recognises.
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
            // The kernel already has an entry with this number, so take a higher number.
            first = copy.raw() + 1;
        }
    }
}

/// The part of an epoll set that concerns one pair of processes.
#[derive(Debug)]
pub(crate) struct WatchedPair {
    pub(crate) pair: Arc<Pair>,
    pub(super) ready_list: u32,
    /// Index of the first entry of the connection on each VI, by the VI's number.
    pub(super) entries: Vec<u32>,
    /// Set while the epoll instance contains the pair's notification socket, for a peer process of another user.
    pub(super) listens: bool,
}

impl WatchedPair {
    pub(crate) fn ready_list(&self) -> &ReadyList {
        self.pair.ready_list(self.ready_list)
    }
}

/// Removes the entry with number `index` from the chain of its VI.
pub(super) fn unlink(inner: &mut Inner, index: u32) {
    let at = inner.entries[index as usize].at;
    let next = core::mem::replace(&mut inner.entries[index as usize].next, NONE);
    let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
    for watched_pair in &mut inner.watched_pairs {
        let Some(first) = watched_pair.entries.get_mut(vi) else { continue };
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
    /// Records that the caller is about to check the kernel's instance.
    pub(crate) fn looks_at_kernel(&mut self, now: u64) {
        (self.rounds, self.looked) = (0, now);
    }

    pub(crate) fn find(&self, fd: i32, at: Ref) -> Option<u32> {
        // Search the VI's chain first, because it is short. An entry that the kernel's instance has is found only
        // in the list.
        if at.conn.phase() == Phase::Attached {
            let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
            for watched_pair in &self.watched_pairs {
                let mut i = watched_pair.entries.get(vi).copied().unwrap_or(NONE);
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
        let entry = EpollEntry {
            number: family::number_epoll_entry(),
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
                self.entries[i as usize] = EpollEntry { queued, ..entry };
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

    /// Queues an entry that comes from the kernel's instance. Keeps the order of the last wait: inserts the entry
    /// before entries that came later in this order.
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

    /// Queues other entries of the connection of entry `of` that want events of `mask`, in front of all queued
    /// entries. Returns the number of queued entries. The kernel, too, marks all entries of a socket at once, but
    /// the peer may not have marked these entries yet. Does not queue edge-triggered entries, because the peer's
    /// mark would report their edge a second time.
    #[cold]
    pub(super) fn enqueue_twins(&mut self, of: u32, mask: u32) -> usize {
        let at = self.entries[of as usize].at;
        let vi = at.conn.vi.load(Ordering::Relaxed) as usize;
        let mut count = 0;
        for watched_pair in &self.watched_pairs {
            let mut i = watched_pair.entries.get(vi).copied().unwrap_or(NONE);
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

    /// Queues the entries of the connection on `vi`, even if the ready list has no marks for them. Queues an
    /// edge-triggered entry only if the segment is `suspect`, because its edge may already have been reported.
    pub(super) fn queue_missed(&mut self, pair: &Pair, vi: u32, suspect: bool) {
        let edge = libc::EPOLLET as u32;
        for l in 0..self.watched_pairs.len() {
            if !core::ptr::eq(&*self.watched_pairs[l].pair, pair) {
                continue;
            }
            self.watched_pairs[l].ready_list().summarise();
            let mut i = self.watched_pairs[l].entries.get(vi as usize).copied().unwrap_or(NONE);
            while let Some(entry) = self.entries.get(i as usize) {
                let next = entry.next;
                if suspect || entry.events & edge == 0 {
                    self.enqueue(i);
                }
                i = next;
            }
        }
    }

    /// Takes the peers' marks from the ready lists. Entries become ready in the order of their marks, like in the
    /// kernel's list.
    #[inline]
    pub(super) fn drain(&mut self) {
        for watched_pair in &self.watched_pairs {
            let ready_list = watched_pair.ready_list();
            if !ready_list.has_events() {
                continue;
            }
            ready_list.drain(|vi| {
                let mut i = watched_pair.entries.get(vi as usize).copied().unwrap_or(NONE);
                while let Some(entry) = self.entries.get_mut(i as usize) {
                    if !core::mem::replace(&mut entry.queued, true) {
                        self.marked.push((watched_pair.pair.marked(vi), i));
                    }
                    if entry.attached {
                        // Prefetch the connection. The connections of all marked entries are used next, so their
                        // cache lines are loaded at the same time.
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
    pub(crate) fn has_events(&self) -> bool {
        self.watched_pairs.iter().any(|watched_pair| watched_pair.ready_list().has_events())
    }
}
