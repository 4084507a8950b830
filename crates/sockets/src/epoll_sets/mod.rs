//! The program's epoll instances, and the connections in them.
//!
//! A set serves an epoll instance. An entry of a connection with a VI is kept in the set instead of the kernel's
//! instance, and its readiness comes from memory. In each pair of processes, a set has a ready list
//! ([`crate::pair::ReadyList`]). The peer marks VIs with events in this list, and the set checks only marked VIs.
//! [`crate::epoll`] has the program's calls on a set.

mod entries;
mod epoll_set;
mod order;
mod ready;
mod shared;

pub(crate) use epoll_set::{EpollSet, is_own};
pub(crate) use ready::{readiness, readiness_under};
pub(crate) use shared::{is_shared, is_shared_by_users};

use crate::pair::{self, Pair};
use crate::per_engine::{per_engine, per_engine_tables};
use crate::table::{self, Ref};
use crate::{family, kernel_sockets, process};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use entries::{EpollEntry, unlink};
use sovia_sys::{call, epoll_entry, poll};

/// Number of epoll instances that sets can serve. Connections in further instances stay on TCP.
const EPOLL_SETS: usize = 4096;
per_engine! {
    /// Number of sets whose `nested` flag is set.
    static NESTED: AtomicU32 = AtomicU32::new(0);
    /// Lowest number of an entry that no fork has copied.
    static COPIED: AtomicU64 = AtomicU64::new(0);
}
per_engine_tables! {
    static TABLE: [AtomicPtr<EpollSet>; EPOLL_SETS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; EPOLL_SETS];
}

/// Returns the set at `index`, even if it serves no epoll instance.
#[inline]
fn at_index(index: u32) -> Option<&'static EpollSet> {
    // SAFETY: the pointer is null or comes from a leaked box. Sets are reused and never freed.
    unsafe { TABLE.get(index as usize)?.load(Ordering::Acquire).as_ref() }
}

/// Returns the set at `index` if it serves an epoll instance.
#[inline]
pub(crate) fn get(index: u32) -> Option<&'static EpollSet> {
    at_index(index).filter(|set| set.is_open())
}

/// Returns the set at `index`, and makes the set if necessary.
fn make_at(index: u32) -> Option<&'static EpollSet> {
    let slot = TABLE.get(index as usize)?;
    if slot.load(Ordering::Acquire).is_null() {
        let null = core::ptr::null_mut();
        let new = Box::into_raw(Box::new(EpollSet::new()));
        if slot.compare_exchange(null, new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: `new` comes from `Box::into_raw` above. The failed exchange did not publish `new`, so no
            // other thread has it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    at_index(index)
}

/// Makes a set serve the new epoll instance `epfd`.
pub fn created(epfd: i32) {
    if process::is_under_seccomp() || process::is_borrowed() {
        return;
    }
    // Sovia will read the program's memory, so prepare for bad addresses.
    sovia_signal::chain::guards();
    let opened = (0..EPOLL_SETS as u32)
        .find(|&index| make_at(index).is_some_and(|set| set.open(epfd, pair::doorbell_for(index))));
    if let Some(index) = opened {
        shared::begin(index);
        table::enter_epoll(epfd, index);
    }
}

/// Counts one more descriptor of the epoll instance.
pub(crate) fn duplicated(index: u32) {
    if let Some(set) = get(index) {
        set.references.fetch_add(1, Ordering::AcqRel);
    }
}

/// Counts one descriptor less, and closes the set after the last one. Called after the descriptor `fd` has left the
/// table.
pub(crate) fn closed(index: u32, fd: i32) {
    let Some(set) = get(index) else { return };
    if set.references.fetch_sub(1, Ordering::AcqRel) != 1 {
        if set.epfd() == fd {
            table::for_each_epoll(|other, of| {
                if of == index {
                    set.epfd.store(other, Ordering::Relaxed);
                }
            });
        }
        return;
    }
    shared::end(index);
    if set.nested.swap(false, Ordering::AcqRel) {
        NESTED.fetch_sub(1, Ordering::AcqRel);
    }
    // Do this last, because the set may then serve another epoll instance.
    set.close();
}

/// Locks all sets before a fork.
pub(crate) fn hold() {
    all().for_each(|set| set.inner.hold());
}

/// Marks all present entries as copied. Called before a fork, if possible while no set is being changed.
pub(crate) fn copying() {
    COPIED.store(family::number_epoll_entry(), Ordering::Release);
}

/// Unlocks all sets after a fork, in parent and child.
pub(crate) fn release() {
    all().for_each(|set| set.inner.release());
}

/// Prepares the sets in a forked child.
pub(crate) fn forked() {
    copying();
    for (index, set) in (0..).zip(all()) {
        // The sleeping threads exist only in the parent.
        set.asleep.store(0, Ordering::Relaxed);
        shared::forked(index);
    }
}

fn each(mut f: impl FnMut(&'static EpollSet)) {
    each_with_index(|_, set| f(set));
}

/// Calls `f` for every set that has entries of connections with a VI.
fn each_in_use(mut f: impl FnMut(u32, &'static EpollSet)) {
    each_with_index(|index, set| {
        if set.attached.load(Ordering::Acquire) != 0 {
            f(index, set);
        }
    });
}

/// Returns all sets, also those that serve no epoll instance.
fn all() -> impl Iterator<Item = &'static EpollSet> {
    // Stop at the first free place, because the table is filled from the front and never emptied.
    (0..EPOLL_SETS as u32).map_while(at_index)
}

/// Returns true if a connection in any epoll instance has a VI. If a forked relative then begins to use the
/// instance, this process must move its entries to the kernel.
pub(crate) fn any_has_attached() -> bool {
    let mut any = false;
    each_in_use(|_, _| any = true);
    any
}

/// Calls `f` for every set that serves an epoll instance.
pub(crate) fn each_with_index(mut f: impl FnMut(u32, &'static EpollSet)) {
    for (index, set) in (0..).zip(all()) {
        if set.is_open() {
            f(index, set);
        }
    }
}

/// Removes `pair`, which is about to be unmapped, from all sets.
pub(crate) fn forget_pair(pair: *const Pair) {
    each(|set| {
        set.with(|inner| {
            let doorbell = inner.doorbell;
            inner.watched_pairs.retain(|watched_pair| {
                let goes = core::ptr::eq(&*watched_pair.pair, pair);
                if goes {
                    watched_pair.pair.listen_no_more(set.epfd(), doorbell);
                }
                !goes
            });
        });
    });
}

/// Removes this process's doorbells from its epoll instances, because the process gets new doorbells. Call it only
/// while no entry's connection has a VI.
pub(crate) fn remove_doorbells() {
    let pid = call::getpid();
    each(|set| {
        if set.owner() == pid {
            set.drop_doorbell();
        } else {
            // An epoll instance made by a forked relative contains the relative's doorbell.
            set.with(|inner| {
                inner.doorbell_added = false;
                inner
                    .watched_pairs
                    .iter_mut()
                    .for_each(|watched_pair| watched_pair.listens = false);
            });
        }
    });
}

/// Removes the library's own entries from epoll instances that the program keeps over an exec. Skips instances with
/// entries of connections on VIs, and instances that another process uses. Called before this process executes
/// another program.
pub(crate) fn leave_by_exec() {
    let pid = call::getpid();
    each_with_index(|index, set| {
        let is_own = set.owner() == pid && !shared::is_shared_by_users(index);
        if is_own && outlasts_exec(set.epfd()) {
            set.drop_idle_doorbell();
            leave_disabled(set);
        }
    });
}

fn outlasts_exec(fd: i32) -> bool {
    call::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize == 0)
}

/// Gives the program's user data back to entries that EPOLLONESHOT has disabled. From now on the library no longer
/// filters what the kernel's instances report.
pub(crate) fn leave_to_program() {
    each(leave_disabled);
}

fn leave_disabled(set: &EpollSet) {
    let oneshot = libc::EPOLLONESHOT as u32;
    set.with(|inner| {
        let disabled = |entry: &&EpollEntry| {
            let is_in_kernel = entry.registered && !entry.attached;
            is_in_kernel
                && entry.events & oneshot != 0
                && epoll_entry::of(set.epfd(), entry.fd)
                    .is_ok_and(|found| found.data == epoll_set::DISABLED)
        };
        for entry in inner.entries.iter().filter(disabled) {
            let (op, data) = (libc::EPOLL_CTL_MOD, entry.data);
            let _ = poll::epoll_ctl(set.epfd(), op, entry.fd, oneshot, data);
        }
    });
}

/// Moves the entries of a connection that has just got its VI from the kernel's instances to the sets. Returns
/// false if an entry must stay in the kernel's instance. Then the connection must go back to TCP.
pub(crate) fn attached(at: Ref) -> bool {
    let mut everywhere = true;
    each_with_index(|index, set| {
        set.with(|inner| {
            for i in 0..inner.entries.len() {
                let entry = &inner.entries[i];
                if entry.registered && !entry.attached && entry.at.same(at) {
                    let fd = entry.fd;
                    // The kernel cannot delete an entry whose descriptor is closed.
                    let is_closed = !table::refers(fd, at);
                    // The epoll instance may have become nested since the rendezvous began.
                    let nested =
                        set.nested.load(Ordering::Acquire) || shared::is_shared_by_users(index);
                    // Delete the kernel's entry last. Until then, a thread that waits in the kernel's instance may
                    // take the event of a one-shot entry.
                    if !nested
                        && !is_closed
                        && set.take_in(inner, i as u32)
                        && let Some(armed) = is_armed(set, &inner.entries[i])
                    {
                        inner.entries[i].armed = armed;
                        set.moved.fetch_add(1, Ordering::AcqRel);
                        let _ = poll::epoll_ctl(set.epfd(), libc::EPOLL_CTL_DEL, fd, 0, 0);
                        // Queue the entry. Events that the kernel's instance has not reported are lost with the
                        // kernel's entry.
                        inner.enqueue_in_turn(i as u32);
                        set.wake_sleeper(inner);
                    } else {
                        everywhere = false;
                    }
                }
            }
        });
    });
    everywhere
}

/// Returns false if EPOLLONESHOT has disabled the entry in the kernel's instance. `None` if /proc cannot be read.
fn is_armed(set: &EpollSet, entry: &EpollEntry) -> Option<bool> {
    let oneshot = libc::EPOLLONESHOT as u32;
    if entry.events & oneshot == 0 {
        return Some(true);
    }
    let entry = epoll_entry::of(set.epfd(), entry.fd).ok()?;
    Some(entry.is_armed() && entry.data != epoll_set::DISABLED)
}

/// Moves the entries of a connection that is back on TCP to the kernel's instances. Skips an entry whose copy a
/// forked relative has already moved.
pub(crate) fn detached(at: Ref) {
    let mut others = false;
    each_with_index(|index, set| {
        set.with(|inner| {
            for i in 0..inner.entries.len() {
                let entry = &mut inner.entries[i];
                if entry.attached && entry.at.same(at) {
                    entry.attached = false;
                    set.attached.fetch_sub(1, Ordering::AcqRel);
                    set.moved.fetch_add(1, Ordering::AcqRel);
                    let is_others = shared::is_others(index);
                    others |= is_others;
                    if entry.registered && !is_others {
                        entry.go_over(set.epfd());
                    }
                    unlink(inner, i as u32);
                }
            }
        });
    });
    if others {
        // The relatives' progress threads move the entries to the kernel's instances.
        kernel_sockets::nudge_family();
    }
}

/// Moves the entries of connections that have left their VIs to the kernel's instances. Such entries may be left if
/// a forked relative did the fallback and was killed before it notified the set.
pub(crate) fn look_for_gone() {
    let mut gone: Vec<Ref> = Vec::new();
    each_in_use(|_, set| {
        set.with(|inner| {
            let left = |entry: &&EpollEntry| entry.attached && !entry.at.is_attached_here();
            gone.extend(inner.entries.iter().filter(left).map(|entry| entry.at));
        });
    });
    gone.into_iter().for_each(detached);
}

/// Queues the entries of the connection on `vi`, whose events may have been missed. If the segment is suspect, a
/// process may have written invalid values there.
pub(crate) fn queue_missed(pair: &Pair, vi: u32) {
    let suspect = pair.suspect.load(Ordering::Relaxed);
    each_in_use(|_, set| set.with(|inner| inner.queue_missed(pair, vi, suspect)));
}

/// Removes the entries of a connection. Called when this process has closed its last descriptor of the connection.
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

/// Returns true if the connection is in an epoll instance of this process.
pub(crate) fn has_entry(at: Ref) -> bool {
    any_of(at, |entry| entry.registered)
}

/// Returns true while a set has an entry of the connection that is not in the kernel's instance.
pub(crate) fn has_attached(at: Ref) -> bool {
    any_of(at, |entry| entry.attached)
}

fn any_of(at: Ref, holds: impl Fn(&EpollEntry) -> bool) -> bool {
    let mut found = false;
    each(|set| {
        found |= set.with(|inner| inner.entries.iter().any(|e| holds(e) && e.at.same(at)));
    });
    found
}

/// Moves the entries of a connection on TCP to the next generation of its record. The kernel's instances do not
/// change.
pub(crate) fn follow(old: Ref, new: Ref) {
    each(|set| {
        set.with(|inner| {
            for entry in inner.entries.iter_mut().filter(|entry| entry.at.same(old)) {
                entry.at = new;
            }
        });
    });
}

/// Returns true if the connection is in an epoll instance with [`EpollSet::nested`]. Such a connection stays on TCP.
pub(crate) fn is_nested(at: Ref) -> bool {
    let mut found = false;
    if NESTED.load(Ordering::Acquire) != 0 {
        each(|set| {
            found |= set.nested.load(Ordering::Acquire)
                && set.with(|inner| inner.entries.iter().any(|e| e.registered && e.at.same(at)));
        });
    }
    found
}
