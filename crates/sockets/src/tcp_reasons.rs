//! Reasons to keep connections on TCP for now: packet filters that the connections respect ([`filters`]), or `sovia
//! off`.
//!
//! `sovia off` makes a file, for all users or for one user. Each process looks for both files before it accelerates
//! a connection, and once a second while it has accelerated connections. When the reason ends, the connections may
//! be accelerated again.

use crate::per_engine::per_engine;
use crate::{config, filters, kernel_sockets};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_control::{End, Reason, env};
use sovia_sys::{call, clock};

/// Shortest time in nanoseconds between two checks for the files of `sovia off`.
const PERIOD_NS: u64 = 100_000_000;

per_engine! {
    /// Set while `sovia off` has switched this process off, according to the last check.
    static OFF: AtomicBool = AtomicBool::new(false);
    /// Time of the last check.
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    /// Set after a change of the reasons, until the connections have been checked.
    static CHANGED: AtomicBool = AtomicBool::new(false);
}

/// Returns the reason why a connection between `local` and `peer` may not be accelerated now. `None` if there is no
/// such reason.
pub(crate) fn refusal(end: End, local: SocketAddr, peer: SocketAddr) -> Option<Reason> {
    if is_off() {
        return Some(Reason::SwitchedOff);
    }
    if !config::respects_filters(end, local, peer) {
        return None;
    }
    if !is_local(local, peer) {
        // The connection's packets may pass filters of other network namespaces.
        return Some(Reason::PeerNotLocal);
    }
    let (refusal, has_changed) = filters::refusal(local.port(), peer.port());
    if has_changed {
        look_again();
    }
    refusal
}

/// Returns true if there may be a reason to keep connections on TCP. If not, callers need not find a connection's
/// addresses.
pub(crate) fn may_refuse() -> bool {
    is_off() || config::respects_any_filters()
}

/// Returns true if `sovia off` had switched this process off at the last check.
pub(crate) fn is_off() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// Returns true if both addresses certainly belong to the same network namespace.
pub(crate) fn is_local(local: SocketAddr, peer: SocketAddr) -> bool {
    peer.ip().is_loopback() || peer.ip() == local.ip()
}

/// Checks if `sovia off` has switched this process off. Does nothing if the last check was less than `PERIOD_NS` ago.
pub(crate) fn look_at_switch() {
    let now = clock::now_ns();
    if now.saturating_sub(LOOKED.load(Ordering::Relaxed)) < PERIOD_NS {
        return;
    }
    LOOKED.store(now, Ordering::Relaxed);
    let is_off = call::is_there(env::OFF) || call::is_there(&env::off_of(call::geteuid()));
    if self::is_off() != is_off {
        OFF.store(is_off, Ordering::Relaxed);
        look_again();
    }
}

/// Makes the progress thread check all connections now.
pub(crate) fn look_again() {
    note_change();
    kernel_sockets::nudge();
}

/// Makes the progress thread check all connections in its next round.
fn note_change() {
    CHANGED.store(true, Ordering::Release);
}

/// Makes an epoll instance report messages of the agent that watches packet filters, like [`filters::watch`].
pub(crate) fn watch(epoll: i32, seen: &mut u32, token: u64) {
    if filters::watch(epoll, seen, token) {
        note_change();
    }
}

/// Receives the agent's reports about packet filters. After a change, makes the progress thread check all
/// connections.
pub(crate) fn receive() {
    if filters::receive() {
        note_change();
    }
}

/// Drops the parent's connection to the agent. Called in a forked child, where the filters for inherited
/// connections are unknown.
pub(crate) fn forked() {
    if filters::forked() {
        note_change();
    }
}

/// Returns true once after each change of the reasons. Then all connections need a check.
pub(crate) fn take_change() -> bool {
    CHANGED.load(Ordering::Relaxed) && CHANGED.swap(false, Ordering::AcqRel)
}
