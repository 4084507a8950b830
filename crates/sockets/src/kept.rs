//! Connections that stay on TCP for now, because of packet filters that they respect ([`filters`]) or because of `sovia
//! off`.
//!
//! `sovia off` makes a file, for all users or for one. Each process looks for both files before it accelerates a
//! connection, and once a second while it has accelerated connections. When the reason ends, the connection may be
//! accelerated again.

use crate::per_engine::per_engine;
use crate::{config, filters, kernel_sockets};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_control::{End, Reason, env};
use sovia_sys::{call, clock};

/// Shortest time between two looks for the files, in nanoseconds.
const PERIOD_NS: u64 = 100_000_000;

per_engine! {
    /// Set while everything is switched off, according to the last look.
    static OFF: AtomicBool = AtomicBool::new(false);
    /// Time of that look.
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    /// Set after a change, until the connections have been checked.
    static CHANGED: AtomicBool = AtomicBool::new(false);
}

/// Returns the reason why a connection may not be accelerated now, if any.
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

/// Returns true if there may be a reason to keep connections on TCP. Without one, their addresses are not needed.
pub(crate) fn may_refuse() -> bool {
    is_off() || config::respects_any_filters()
}

/// Returns true if this process was switched off at its last look.
pub(crate) fn is_off() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// Returns true if two addresses certainly belong to one network namespace.
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

/// Makes the progress thread check all connections.
pub(crate) fn look_again() {
    note_change();
    kernel_sockets::nudge();
}

/// Makes the progress thread do so in its next round.
fn note_change() {
    CHANGED.store(true, Ordering::Release);
}

/// Makes an epoll instance report changes of packet filters, like [`filters::watch`].
pub(crate) fn watch(epoll: i32, seen: &mut u32, token: u64) {
    if filters::watch(epoll, seen, token) {
        note_change();
    }
}

/// Takes reports about packet filters.
pub(crate) fn receive() {
    if filters::receive() {
        note_change();
    }
}

/// Called in a forked child, where the filters for inherited connections are unknown.
pub(crate) fn forked() {
    if filters::forked() {
        note_change();
    }
}

/// Returns true once for each change. Then all connections need a check.
pub(crate) fn take_change() -> bool {
    CHANGED.load(Ordering::Relaxed) && CHANGED.swap(false, Ordering::AcqRel)
}
