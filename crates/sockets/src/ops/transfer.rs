//! Code that `receive` and `send` share: flags, and the kernel's call while the path must not change.

use crate::conn::Conn;
use crate::fallback::{self, Cause};
use crate::table::Ref;
use crate::{Errno, Outcome};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_signal::chain;
use sovia_sync::callers::{Callers, CountedCaller};
use sovia_sys::clock;

/// Flags of a send or receive.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags {
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// MSG_PEEK.
    pub peek: bool,
    /// MSG_WAITALL.
    pub wait_all: bool,
    /// MSG_NOSIGNAL.
    pub no_signal: bool,
    /// Set if a receive into an empty buffer waits until there are bytes. This is so for recv, but not for read.
    pub empty_waits: bool,
}

/// Marks the calling thread as inside a kernel call, until the returned value is dropped. Meanwhile no thread
/// switches the path.
#[inline]
fn pin(pins: &Callers) -> CountedCaller<'_> {
    pins.enter(!chain::is_in_handler())
}

/// Makes the kernel's call and counts its bytes. Meanwhile no thread can switch the direction's path. If the path
/// has already been switched, `is_to_be_made` returns false. Then this function makes no call and returns `None`.
#[inline]
pub(super) fn make(
    kernel: &impl Fn() -> Outcome,
    pins: &Callers,
    is_to_be_made: impl FnOnce() -> bool,
    counter: Option<&AtomicU64>,
) -> Option<Outcome> {
    let _pin = pin(pins);
    if !is_to_be_made() {
        return None;
    }
    let result = kernel();
    if let (Some(counter), Ok(n)) = (counter, &result) {
        counter.fetch_add(*n as u64, Ordering::AcqRel);
    }
    Some(result)
}

/// Moves an accelerated connection back to TCP. May wait for the peer, which must take part in the fallback.
#[cold]
#[inline(never)]
pub(super) fn back(fd: i32, at: Ref) {
    fallback::now(fd, at, Cause::Call);
}

/// Returns the time at which a call that begins now must give up. `timeout` is in nanoseconds; 0 means no limit.
pub(crate) fn deadline(timeout: &AtomicU64) -> Option<u64> {
    match timeout.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(clock::now_ns().saturating_add(ns)),
    }
}

/// Stores an error that came after some bytes were moved, for the next call to return. Does not store EFAULT, which
/// concerns only this call's memory.
pub(super) fn keep_error(conn: &Conn, error: Errno) {
    if error != libc::EFAULT {
        conn.keep_error(error);
    }
}
