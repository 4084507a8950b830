//! epoll over kernel descriptors and VIs at once.
//!
//! The program's epoll instance is a real one, and everything but attached connections is in it
//! as the program asked. An attached connection is kept by Sovia instead (`sets`), so changing
//! its interest costs no system call. To sleep, the set's doorbell is in the kernel's instance,
//! edge-triggered, so that a ring needs no read to take it back.

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

/// Whether `epoll_wait` on that instance needs us at all.
#[inline]
pub fn is_ours(index: u32) -> bool {
    let Some(set) = sets::get(index) else { return false };
    share(index, set);
    set.attached.load(Ordering::Acquire) != 0
}

/// `epoll_ctl` for an instance that is followed; `kernel` makes the real call.
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
        // A stream may join before it connects.
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
        // The kernel's instance is to tell of it, and would not of a VI.
        at.conn.again.store(0, Ordering::Relaxed);
        if set.attached.load(Ordering::Acquire) != 0 {
            // A relative may have taken it back that did not know of an entry here.
            fallback::settle_in_sets(at);
        }
        return kernel();
    }
    // The lock is held across the phase's test and the kernel's call, so that the connection
    // cannot be attached in between and be in both places, or in none.
    let mut kernel = Some(kernel);
    let result = set.with_generation(generation, |inner| match at.conn.phase() {
        // The descriptor is a relay's socket by now, or about to be it; or the kernel tells of it though it must
        // stay on its VI.
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
        // A relative that waits in the instance needs this process's thread, which gives the kernel what is in there.
        kernel_sockets::ensure_for_a_look();
    }
    match (result.flatten(), kernel) {
        // No ready list left for it here: the kernel's instance serves it.
        (Err(libc::ENOSPC), Some(kernel)) => {
            fallback::now(fd, at, Cause::Call);
            kernel()
        }
        (result, _) => result,
    }
}

/// The caller uses the instance. If another process does so, too, everything in it is the kernel's.
#[inline]
fn share(index: u32, set: &Set) {
    if sets::is_shared(index, || set.catch_up()) && !set.nested.load(Ordering::Acquire) {
        make_nested(set);
        // What it has in the instance it has to give to the kernel as well.
        kernel_sockets::nudge();
    }
}

/// Gives the kernel what this process has in instances that a relative has begun to use. For the thread that watches
/// kernel sockets: the program's may not come to its instance for long.
pub(crate) fn leave_shared() {
    sets::each_with_index(|index, set| {
        let is_used = set.attached.load(Ordering::Acquire) != 0;
        let is_nested = set.nested.load(Ordering::Acquire);
        if is_used && !is_nested && sets::is_shared_by_users(index) {
            // Without waiting for what others have to do: they may wait for this thread.
            for (fd, at) in set.nest() {
                fallback::soon(fd, at, Cause::Set);
            }
        } else if is_nested && !is_used {
            set.drop_door();
        }
    });
}

/// The instance is itself waited on by poll or select.
pub fn polled(index: u32) {
    if let Some(set) = sets::get(index) {
        make_nested(set);
    }
}

/// From now on the instance itself is waited for, from outside: everything in it is the kernel's.
fn make_nested(set: &Set) {
    for (fd, at) in set.nest() {
        fallback::now(fd, at, Cause::Set);
        fallback::settle_in_sets(at);
    }
    set.drop_door();
}
