//! epoll over kernel descriptors and VIs at once.
//!
//! The program's epoll instance is a real one, and contains everything except attached connections. Sovia keeps the
//! attached connections itself (`sets`), so a change of their events costs no system call. The kernel's instance
//! contains the set's doorbell, which wakes a sleeping thread. The doorbell is edge-triggered, so no read is needed
//! after a ring.

mod wait;

pub use crate::sets::created;
pub use wait::{KernelSleep, filter, note_order, pass_on, wait};

use crate::conn::{Phase, flag};
use crate::fallback::{self, Cause};
use crate::sets::{self, Set};
use crate::{Outcome, kernel_sockets, ops, table};
use core::sync::atomic::Ordering;

/// An epoll event as the program sees it.
pub use libc::epoll_event as Event;

/// Returns true if `epoll_wait` on the instance needs Sovia, because attached connections are in the set.
#[inline]
pub fn is_ours(index: u32) -> bool {
    let Some(set) = sets::get(index) else { return false };
    share(index, set);
    set.attached.load(Ordering::Acquire) != 0
}

/// `epoll_ctl` for an instance that is followed. `kernel` makes the real call.
pub fn control(
    index: u32,
    op: i32,
    fd: i32,
    event: Option<(u32, u64)>,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let Some(set) = sets::get(index) else { return kernel() };
    let generation = set.generation();
    share(index, set);
    let at = match table::get(fd) {
        table::Entry::Conn(at) if at.conn.is_generation(at.generation) => at,
        table::Entry::Epoll(inner) => {
            if let Some(inner) = sets::get(inner) {
                make_nested(inner);
            }
            return kernel();
        }
        table::Entry::Private => return Err(libc::EBADF),
        // A stream socket may join before it connects.
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
        fallback::now(fd, at, Cause::Set);
    }
    if at.conn.phase() == Phase::Plain {
        // The kernel's instance must report this connection, and could not report a VI. So no rendezvous follows.
        at.conn.again.store(0, Ordering::Relaxed);
        if set.attached.load(Ordering::Acquire) != 0 {
            // A forked relative without knowledge of an entry here may have moved the connection back.
            fallback::settle_in_sets(at);
        }
        return kernel();
    }
    // The lock is held during the test of the phase and during the kernel's call. So no thread can attach the
    // connection in between, which would put the entry in both places or in none.
    let mut kernel = Some(kernel);
    let result = set.with_generation(generation, |inner| match at.conn.phase() {
        // The descriptor is a relay's socket by now, or is about to be one. Or the kernel reports the connection, which
        // must stay on its VI.
        Phase::Attached if at.conn.has(flag::RELAYED | flag::LEFT_TO_SETS) || nested => {
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
        // A relative that waits in the instance needs this process's progress thread, which gives the entries to the
        // kernel.
        kernel_sockets::ensure_for_a_look();
    }
    match (result.flatten(), kernel) {
        // The pair has no free ready list, so the kernel's instance serves the connection.
        (Err(libc::ENOSPC), Some(kernel)) => {
            fallback::now(fd, at, Cause::Call);
            kernel()
        }
        (result, _) => result,
    }
}

/// Records that the caller uses the instance. If another process uses it too, all entries move to the kernel.
#[inline]
fn share(index: u32, set: &Set) {
    if sets::is_shared(index, || set.catch_up()) && !set.nested.load(Ordering::Acquire) {
        make_nested(set);
        // The other process must give its entries in the instance to the kernel as well.
        kernel_sockets::nudge();
    }
}

/// Gives the kernel this process's entries in instances that a forked relative has begun to use. Called by the progress
/// thread, because the program may not use its instance for a long time.
pub(crate) fn leave_shared() {
    sets::each_with_index(|index, set| {
        let is_used = set.attached.load(Ordering::Acquire) != 0;
        let is_nested = set.nested.load(Ordering::Acquire);
        if is_used && !is_nested && sets::is_shared_by_users(index) {
            // Does not wait for the other processes: they may wait for this thread.
            for (fd, at) in set.nest() {
                fallback::soon(fd, at, Cause::Set);
            }
        } else if is_nested && !is_used {
            set.drop_door();
        }
    });
}

/// Called when poll or select waits for the instance.
pub fn polled(index: u32) {
    if let Some(set) = sets::get(index) {
        make_nested(set);
    }
}

/// Marks the instance as waited on from outside, and moves all its connections back to TCP.
fn make_nested(set: &Set) {
    for (fd, at) in set.nest() {
        fallback::now(fd, at, Cause::Set);
        fallback::settle_in_sets(at);
    }
    set.drop_door();
}
