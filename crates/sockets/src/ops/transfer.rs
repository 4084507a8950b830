//! What the calls that move bytes have in common: how they behave, and the kernel's call under a path that stays.

use crate::conn::Conn;
use crate::fallback::{self, Cause};
use crate::table::Ref;
use crate::{Errno, Outcome};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_signal::chain;
use sovia_sync::presence::{Presence, Present};
use sovia_sys::clock;

/// How a call behaves.
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
    /// A receive of no bytes waits until there are some, as recv does and read does not.
    pub empty_waits: bool,
}

/// The calling thread is inside a kernel call from here on, so that the path is not switched under it.
#[inline]
fn pin(pins: &Presence) -> Present<'_> {
    pins.enter(!chain::is_in_handler())
}

/// Makes the kernel's call and counts its bytes, with the direction's path held where it is. The call comes back if it
/// is not the one to make, because the path has been switched meanwhile.
#[inline]
pub(super) fn make<K: FnOnce() -> Outcome>(
    kernel: K,
    pins: &Presence,
    is_to_be_made: impl FnOnce() -> bool,
    counter: Option<&AtomicU64>,
) -> Result<Outcome, K> {
    let _pin = pin(pins);
    if !is_to_be_made() {
        return Err(kernel);
    }
    let result = kernel();
    if let (Some(counter), Ok(n)) = (counter, &result) {
        counter.fetch_add(*n as u64, Ordering::AcqRel);
    }
    Ok(result)
}

/// It has met its peer, and must go back to TCP. That takes its time: the peer has its part in it.
#[cold]
#[inline(never)]
pub(super) fn back(fd: i32, at: Ref) {
    fallback::now(fd, at, Cause::Call);
}

/// When a call that begins now gives up, by a timeout of the connection (0: never).
pub(crate) fn deadline(timeout: &AtomicU64) -> Option<u64> {
    match timeout.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(clock::now_ns().saturating_add(ns)),
    }
}

/// An error that comes after bytes is the next call's, but for one that is this call's own.
pub(super) fn keep_error(conn: &Conn, error: Errno) {
    if error != libc::EFAULT {
        conn.keep_error(error);
    }
}
