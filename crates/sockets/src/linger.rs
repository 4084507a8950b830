//! Connections that the program has closed while something is still to be done for them on TCP ([`Rest`]): the kernel
//! lingers over what it has been given, and the thread that watches kernel sockets over what it had no room for.
//!
//! Each has a private descriptor, so the peer sees no end before all is there. With the process it ends as well, and the peer
//! then finds that something is missing.

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

/// The program's descriptor `fd` is about to be closed. Where none can be had in its place the peer is told of a reset.
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

/// Goes on with them: the thread that watches kernel sockets.
pub(crate) fn serve() {
    if COUNT.load(Ordering::SeqCst) != 0 {
        LINGERING.with(|all| {
            all.retain_mut(|(fd, rest)| rest.go_on(fd.raw()) == Went::Waits);
            COUNT.store(all.len() as u32, Ordering::SeqCst);
        });
    }
}

/// Waits until there are none, in a process that has nothing else to do.
pub(crate) fn await_all() {
    while COUNT.load(Ordering::SeqCst) != 0 {
        let _ = ppoll(&mut [], Some(DRAIN_NS), None);
        serve();
    }
}

/// How long until they are to be looked at again; `None` if there are none.
pub(crate) fn pause() -> Option<u64> {
    (COUNT.load(Ordering::Relaxed) != 0).then_some(DRAIN_NS)
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    LINGERING.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    LINGERING.release();
}

/// In a forked child: they have stayed with the parent.
pub(crate) fn forked() {
    COUNT.store(0, Ordering::Relaxed);
    drop(LINGERING.with(core::mem::take));
}
