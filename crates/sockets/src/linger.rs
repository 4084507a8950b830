//! Connections that the program has closed while bytes must still go on TCP ([`Rest`]). The kernel lingers over the
//! bytes that it already has. The progress thread puts the remaining bytes on TCP when there is room.
//!
//! Each connection has a private descriptor, so that the peer does not see the end of stream too early. If the
//! process ends, the descriptor is closed, and the peer notices that bytes are missing.

use crate::per_engine::per_engine;
use crate::{kernel_sockets, stream};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::{RobustBox, rank};
use sovia_sys::poll::ppoll;
use sovia_sys::{Fd, call};
use stream::failover::{Rest, RestProgress};
use stream::returned::DRAIN_NS;

per_engine! {
    static LINGERING: RobustBox<Vec<(Fd, Rest)>, { rank::LINGERING }> = RobustBox::new(Vec::new());
    static COUNT: AtomicU32 = AtomicU32::new(0);
}

/// Keeps a connection whose descriptor `fd` is about to be closed, until `rest` is on TCP. If no private descriptor
/// can be made, resets the connection.
#[cold]
pub(crate) fn over(fd: i32, mut rest: Rest) {
    let copy = || call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32);
    let Some(copy) = Fd::make(copy).ok().filter(Fd::is_high) else {
        let _ = call::disconnect(fd);
        return;
    };
    if rest.go_on(copy.raw()) == RestProgress::Over {
        return;
    }
    LINGERING.with(|all| all.push((copy, rest)));
    COUNT.fetch_add(1, Ordering::SeqCst);
    kernel_sockets::nudge();
}

/// Continues to put the connections' bytes on TCP. Called by the progress thread and by [`await_all`].
pub(crate) fn serve() {
    if COUNT.load(Ordering::SeqCst) != 0 {
        LINGERING.with(|all| {
            all.retain_mut(|(fd, rest)| rest.go_on(fd.raw()) == RestProgress::Waits);
            COUNT.store(all.len() as u32, Ordering::SeqCst);
        });
    }
}

/// Waits until all bytes of closed connections are on TCP. For a process that has nothing else to do.
pub(crate) fn await_all() {
    while COUNT.load(Ordering::SeqCst) != 0 {
        let _ = ppoll(&mut [], Some(DRAIN_NS), None);
        serve();
    }
}

/// Returns the time in nanoseconds until the next call of [`serve`]. `None` if there are no closed connections
/// left.
pub(crate) fn pause() -> Option<u64> {
    (COUNT.load(Ordering::Relaxed) != 0).then_some(DRAIN_NS)
}

/// Takes this module's lock before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    LINGERING.hold();
}

/// Releases this module's lock after a fork, in parent and child.
pub(crate) fn release() {
    LINGERING.release();
}

/// Drops the connections in a forked child. The parent continues to serve the connections.
pub(crate) fn forked() {
    COUNT.store(0, Ordering::Relaxed);
    drop(LINGERING.with(core::mem::take));
}
