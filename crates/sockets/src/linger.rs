//! Connections that the program has closed while work on TCP is left ([`Rest`]). The kernel lingers over the bytes that
//! it has. The progress thread puts on TCP the bytes that had no room.
//!
//! Each connection has a private descriptor, so the peer does not see the end too early. The descriptor ends with the
//! process, and then the peer notices that bytes are missing.

use crate::per_engine::per_engine;
use crate::{kernel_sockets, stream};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::{RobustBox, rank};
use sovia_sys::poll::ppoll;
use sovia_sys::{Fd, call};
use stream::failover::{Rest, Went};
use stream::returned::DRAIN_NS;

per_engine! {
    static LINGERING: RobustBox<Vec<(Fd, Rest)>, { rank::LINGERING }> = RobustBox::new(Vec::new());
    static COUNT: AtomicU32 = AtomicU32::new(0);
}

/// Keeps a connection whose descriptor `fd` is about to be closed. If no private descriptor can be made, resets the
/// connection.
#[cold]
pub(crate) fn over(fd: i32, mut rest: Rest) {
    let copy = || call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32);
    let Some(copy) = Fd::make(copy).ok().filter(Fd::is_high) else {
        let _ = call::disconnect(fd);
        return;
    };
    if rest.go_on(copy.raw()) == Went::Over {
        return;
    }
    LINGERING.with(|all| all.push((copy, rest)));
    COUNT.fetch_add(1, Ordering::SeqCst);
    kernel_sockets::nudge();
}

/// Continues the work of all these connections. Called by the progress thread.
pub(crate) fn serve() {
    if COUNT.load(Ordering::SeqCst) != 0 {
        LINGERING.with(|all| {
            all.retain_mut(|(fd, rest)| rest.go_on(fd.raw()) == Went::Waits);
            COUNT.store(all.len() as u32, Ordering::SeqCst);
        });
    }
}

/// Waits until no such connection is left, in a process that has nothing else to do.
pub(crate) fn await_all() {
    while COUNT.load(Ordering::SeqCst) != 0 {
        let _ = ppoll(&mut [], Some(DRAIN_NS), None);
        serve();
    }
}

/// Returns the time in nanoseconds until the next look at these connections. `None` if there are none.
pub(crate) fn pause() -> Option<u64> {
    (COUNT.load(Ordering::Relaxed) != 0).then_some(DRAIN_NS)
}

/// Takes the lock before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    LINGERING.hold();
}

/// Releases the lock after a fork, in parent and child.
pub(crate) fn release() {
    LINGERING.release();
}

/// Drops the connections in a forked child: they have stayed in the parent.
pub(crate) fn forked() {
    COUNT.store(0, Ordering::Relaxed);
    drop(LINGERING.with(core::mem::take));
}
