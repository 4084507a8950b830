//! Modes and options of a descriptor.

use crate::conn::{Phase, flag};
use crate::table::Ref;
use crate::{Outcome, stream};
use core::sync::atomic::Ordering;
use sovia_sys::call;

/// The program has switched non-blocking mode.
pub fn nonblocking(at: Ref, on: bool) {
    if on {
        at.conn.set(flag::NONBLOCK);
    } else {
        at.conn.clear(flag::NONBLOCK);
    }
}

/// `FIONREAD`. `kernel` makes the real call.
pub fn fionread(fd: i32, at: Ref, kernel: impl FnOnce() -> Outcome) -> Outcome {
    if at.conn.phase() != Phase::Attached {
        return kernel();
    }
    let mut guard = at.conn.lock();
    stream::unread(&mut guard, fd)
}

/// The program has set a socket option: what Sovia keeps of it is read again.
pub fn note_option(fd: i32, at: Ref, level: i32, name: i32) {
    if at.conn.phase() != Phase::Attached {
        return;
    }
    if level == libc::IPPROTO_TCP && matches!(name, libc::TCP_NODELAY | libc::TCP_CORK) {
        let mut guard = at.conn.lock();
        if at.conn.phase() == Phase::Attached {
            stream::combine::switch(&mut guard, fd);
        }
    }
    if level != libc::SOL_SOCKET {
        return;
    }
    let to = match name {
        libc::SO_RCVTIMEO => &at.conn.receive_timeout,
        libc::SO_SNDTIMEO => &at.conn.send_timeout,
        _ => return,
    };
    to.store(call::timeout_ns(fd, name).unwrap_or(0), Ordering::Relaxed);
}
