//! epoll for descriptors that the kernel serves, and for VIs.
//!
//! The program's epoll instance is an instance of the kernel. The kernel's instance contains all entries except
//! those of connections with a VI. The set keeps these entries (`epoll_sets`), so a change of their events costs no
//! system call. The kernel's instance also contains the set's doorbell, which wakes a sleeping thread. The doorbell
//! is edge-triggered, so a thread need not read it after a ring.

mod wait;

pub use crate::epoll_sets::created;
pub use wait::{KernelSleep, filter, note_order, pass_on, wait};

use crate::conn::lent;
use crate::conn::{Phase, flag};
use crate::epoll_sets::{self, EpollSet};
use crate::fallback::{self, Cause};
use crate::{Outcome, kernel_sockets, ops, table};
use core::sync::atomic::Ordering;

/// An epoll event as the program sees it.
pub use libc::epoll_event as Event;

/// Returns true if `epoll_wait` on the instance needs Sovia, because connections in the instance have VIs.
#[inline]
pub fn is_ours(index: u32) -> bool {
    let Some(set) = epoll_sets::get(index) else { return false };
    share(index, set);
    set.attached.load(Ordering::Acquire) != 0
}

/// Does `epoll_ctl` for an instance that a set serves. `kernel` makes the program's own call.
pub fn control(
    index: u32,
    op: i32,
    fd: i32,
    event: Option<(u32, u64)>,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let Some(set) = epoll_sets::get(index) else { return kernel() };
    let generation = set.generation();
    share(index, set);
    let at = match table::get(fd) {
        table::Entry::Conn(at) if at.conn.is_generation(at.generation) => at,
        table::Entry::Epoll(inner) => {
            if let Some(inner) = epoll_sets::get(inner) {
                make_nested(inner);
            }
            return kernel();
        }
        table::Entry::Private => return Err(libc::EBADF),
        // A stream socket may be added before it connects.
        table::Entry::Foreign if op == libc::EPOLL_CTL_ADD && ops::opening(fd) => {
            match table::conn(fd) {
                Some(at) => at,
                None => return kernel(),
            }
        }
        _ => return kernel(),
    };
    let nested = set.nested.load(Ordering::Acquire);
    if nested && at.conn.phase() == Phase::Attached {
        fallback::now(fd, at, Cause::EpollSet);
    }
    if at.conn.phase() == Phase::Plain {
        // The kernel's instance must report this connection, and cannot report a VI. So prevent another rendezvous.
        at.conn.again.store(0, Ordering::Relaxed);
        if set.attached.load(Ordering::Acquire) != 0 {
            // A forked relative may have moved the connection back to TCP without knowing of an entry in this set.
            fallback::settle_in_epoll_sets(at);
        }
        return kernel();
    }
    let is_relayed = || {
        let is_lent = at.conn.lent.load(Ordering::Acquire) != lent::NONE && at.is_attached_here();
        at.conn.has(flag::RELAYED) && !is_lent
    };
    // Hold the set's lock during the check of the phase and during the kernel's call. So no thread can make a VI
    // for the connection in between. The entry would then be in both places or in neither.
    let mut kernel = Some(kernel);
    let result = set.with_generation(generation, |inner| match at.conn.phase() {
        // Either the descriptor is a relay's socket by now, or is about to be one. Or the kernel must report the
        // connection, although the connection stays on its VI.
        Phase::Attached if is_relayed() || at.conn.has(flag::LEFT_TO_EPOLL_SETS) || nested => {
            match kernel.take() {
                Some(kernel) => kernel(),
                None => Err(libc::EAGAIN),
            }
        }
        Phase::Attached => set.control_attached(inner, op, fd, at, event),
        _ => {
            let Some(kernel) = kernel.take() else { return Err(libc::EAGAIN) };
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
    });
    if at.conn.phase() == Phase::Attached {
        // Start the progress thread if it is missing. A forked relative that waits in the instance needs it,
        // because it moves the entries to the kernel's instance.
        kernel_sockets::ensure_for_a_look();
    }
    match (result.flatten(), kernel) {
        // The pair has no free ready list, so move the connection to TCP, and let the kernel's instance serve it.
        (Err(libc::ENOSPC), Some(kernel)) => {
            fallback::now(fd, at, Cause::Call);
            kernel()
        }
        (result, _) => result,
    }
}

/// Records that this process uses the instance. If another process uses it as well, moves all connections in it to
/// TCP.
#[inline]
fn share(index: u32, set: &EpollSet) {
    if epoll_sets::is_shared(index, || set.catch_up()) && !set.nested.load(Ordering::Acquire) {
        make_nested(set);
        // Wake the other process's progress thread, which must also move its entries to the kernel's instance.
        kernel_sockets::nudge_family();
    }
}

/// Moves this process's entries to the kernel, in instances that a forked relative has begun to use. Called by the
/// progress thread, because the program itself may not use the instance for a long time.
pub(crate) fn leave_shared() {
    epoll_sets::each_with_index(|index, set| {
        let is_used = set.attached.load(Ordering::Acquire) != 0;
        let is_nested = set.nested.load(Ordering::Acquire);
        if is_used && !is_nested && epoll_sets::is_shared_by_users(index) {
            // Do not wait for the other processes, because they may wait for this thread.
            for (fd, at) in set.nest() {
                fallback::soon(fd, at, Cause::EpollSet);
            }
        } else if is_nested && !is_used {
            set.drop_doorbell();
        }
    });
}

/// Moves the connections in the instance to TCP. Called when poll or select waits for the instance.
pub fn polled(index: u32) {
    if let Some(set) = epoll_sets::get(index) {
        make_nested(set);
    }
}

/// Sets [`EpollSet::nested`], and moves all connections in the epoll instance back to TCP.
fn make_nested(set: &EpollSet) {
    for (fd, at) in set.nest() {
        fallback::now(fd, at, Cause::EpollSet);
        fallback::settle_in_epoll_sets(at);
    }
    set.drop_doorbell();
}
