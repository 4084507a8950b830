//! Code that all calls that move bytes share: their flags, and the kernel's call while the path is held.

use crate::conn::Conn;
use crate::fallback::{self, Cause};
use crate::table::Ref;
use crate::{Errno, Outcome};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_signal::chain;
use sovia_sync::presence::{Presence, Present};
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
    /// Set if a receive of no bytes waits until there are bytes: recv does, read does not.
    pub empty_waits: bool,
}

/// Marks the calling thread as inside a kernel call, until the result is dropped. Meanwhile no thread switches the
/// path.
#[inline]
fn pin(pins: &Presence) -> Present<'_> {
    pins.enter(!chain::is_in_handler())
}

/// Makes the kernel's call and counts its bytes, while no thread can switch the direction's path. Returns `kernel` as
/// the error if the path has been switched before, so that `is_to_be_made` returns false.
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

/// Moves an attached connection back to TCP. May wait for the peer, which has a part in the fallback.
#[cold]
#[inline(never)]
pub(super) fn back(fd: i32, at: Ref) {
    fallback::now(fd, at, Cause::Call);
}

/// Returns the time at which a call that begins now gives up. `timeout` is in nanoseconds; 0 means never.
pub(crate) fn deadline(timeout: &AtomicU64) -> Option<u64> {
    match timeout.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(clock::now_ns().saturating_add(ns)),
    }
}

/// Keeps an error that follows bytes, for the next call to return. EFAULT is not kept: it concerns only this call's
/// memory.
pub(super) fn keep_error(conn: &Conn, error: Errno) {
    if error != libc::EFAULT {
        conn.keep_error(error);
    }
}
