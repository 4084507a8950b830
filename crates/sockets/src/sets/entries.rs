//! What a set holds: connections by descriptor and by VI, and those that may be ready.

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
    /// How many of `ready`, from the front, have not been visited since they were last collected.
    pub(super) unvisited: usize,
    /// How often the ready ones have been collected.
    pub(crate) collections: u64,
    /// Entries whose marks [`Inner::drain`] has taken, each with the time of its mark; empty otherwise.
    marked: Vec<(u64, u32)>,
    pub(crate) lanes: Vec<Lane>,
    /// When the kernel's instance was last looked at.
    pub(crate) looked: u64,
    /// Calls since then.
    pub(crate) rounds: u32,
    /// Order of events of both sources.
    pub(crate) order: Order,
    /// Whose turn it is to be first, where `out` may hold one kind only.
    pub(crate) kernel_first: bool,
    pub(crate) door: u32,
    pub(super) door_added: bool,
    /// Connections seen to be back on TCP in both directions.
    pub(super) settled: Vec<Ref>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    /// Which it is, in this process and in those forked from it.
    pub(super) number: u64,
    /// By which the program knows it. It may be closed while the connection has others.
    pub(super) fd: i32,
    pub(super) at: Ref,
    /// By which the kernel is asked.
    through: i32,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// In the set, as the program knows it.
    pub(crate) registered: bool,
    /// Kept here and not in the kernel's instance.
    pub(super) attached: bool,
    /// Not disabled by EPOLLONESHOT.
    pub(crate) armed: bool,
    pub(super) queued: bool,
    /// Next entry of the same connection.
    pub(super) next: u32,
    /// The collection that has reported it last.
    pub(super) collected: u64,
    /// Set once the connection has had another entry beside this one.
    pub(super) has_twin: bool,
}

impl Entry {
    /// The events that hold for the connection now and that the program wants, or cannot refuse.
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

    /// A descriptor of the connection in this process.
    #[inline]
    pub(super) fn kernel_socket(&mut self) -> i32 {
        if !table::refers(self.through, self.at)
            && let Some(other) = table::descriptor_of(self.at.conn)
        {
            self.through = other;
        }
        self.through
    }

    /// Gives the entry to the kernel's instance `epfd`, as a relative has left it that has a copy of it.
    pub(super) fn go_over(&mut self, epfd: i32) {
        // Held until the kernel has it: a relative that changes it finds it there.
        let mut locked = self.at.conn.lock();
        let fate = locked.copies.fate(self.number);
        if fate != Some(Fate::Over) {
            self.change_as(fate);
            self.give_to_kernel(epfd);
            // Not before: this process may be killed, and a relative that has a copy gives it once more.
            locked.copies.record(self.number, Fate::Over);
        }
    }

    fn change_as(&mut self, fate: Option<Fate>) {
        if let Some(Fate::Changed { events, data, armed }) = fate {
            (self.events, self.data, self.armed) = (events, data, armed);
        }
    }

    /// Makes of a copy what relatives have made of the entry since the fork.
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

    /// Makes it a new entry, which no other process has a copy of.
    fn renew(&mut self) {
        self.number = family::number_set_entry();
    }

    /// Records what has become of the entry, for copies of relatives: that is as it says now, or that it is removed. False if a
    /// relative has given it to the kernel before.
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
            // An entry that is added in its place is another one.
            self.renew();
        }
        is_here
    }

    /// Registers the connection in the kernel's instance `epfd`. If the program has closed the entry's number, this
    /// adds a number that is open for this call alone. The connection's other numbers have entries of their own, and the kernel
    /// keeps this one until the last of them is closed.
    fn give_to_kernel(&mut self, epfd: i32) {
        let fd = self.kernel_socket();
        let (events, data) = if self.armed {
            (self.events, self.data)
        } else {
            // The kernel adds no entry that is disabled. This one reports an end once, and [`super::is_own`] knows it.
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
            // Another entry has been registered by that number.
            first = copy.raw() + 1;
        }
    }
}

/// What connects a set with one pair of processes.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) pair: Arc<Pair>,
    pub(super) ready_list: u32,
    /// For each VI the first entry of the connection on it.
    pub(super) entries: Vec<u32>,
    /// Whether the instance is told of a stranger's rings.
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
    /// The kernel's instance is about to be looked at.
    pub(crate) fn looks_at_kernel(&mut self, now: u64) {
        (self.rounds, self.looked) = (0, now);
    }

    pub(crate) fn find(&self, fd: i32, at: Ref) -> Option<u32> {
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

    /// Queues an entry that comes from the kernel's instance, in the turn that it had there.
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

    /// Queues the other entries of a ready entry's connection that want events of `mask` too, before all others; how many. The peer may
    /// be about to mark them, and the kernel marks all entries of a socket at once. An edge is left to its mark, or it would be
    /// reported twice.
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

    /// Has the entries that wait for a VI looked at, whatever the ready list's marks say. An edge may have
    /// been told already: it is told again only if the segment is `suspect`.
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

    /// Takes the peers' marks. Connections become ready in the order in which these were made, as in the kernel's list.
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
                        // All of them come at the same time.
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
