//! Detects deaths of peers that kernel sockets do not report.

use crate::conn::{Conn, flag};
use crate::pair::{self, Pair};
use crate::peers::{self, PeerState};
use crate::per_engine::per_engine;
use crate::stream::ending;
use crate::{family, kernel_sockets, rendezvous, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::clock;

/// Highest 32 bits of the epoll token of descriptors that report a peer's death. The lowest 32 bits are the peer's
/// number. Other tokens name kernel sockets and the doorbell.
const DEATH: u64 = u32::MAX as u64 - 1;

/// Returns the number of the peer that has died, if an event with this epoll token reports a death.
pub(super) fn peer_of(token: u64) -> Option<u32> {
    (token >> 32 == DEATH).then_some(token as u32)
}

/// Interval in nanoseconds between checks of a dead peer's sockets. A process that dies closes its descriptors one
/// after the other. So a socket may still be open after the process has left the segment. The events of this socket
/// must be reported before the peer's death.
const CLOSING_NS: u64 = 2_000_000;
/// Time in nanoseconds after which a dead peer's sockets count as closed. If a socket is still open then, the peer
/// has executed another program. That program cannot use the VI.
const CLOSED_NS: u64 = 1_000_000_000;
per_engine! {
    /// Set while a dead peer's sockets are still open.
    static CLOSING: AtomicBool = AtomicBool::new(false);
}

/// Returns the time in nanoseconds until the next check of dead peers' sockets. `None` if no such socket is open.
pub(super) fn pause() -> Option<u64> {
    CLOSING.load(Ordering::Relaxed).then_some(CLOSING_NS)
}

/// Checks the connections of dead peers again, if sockets of such peers were open.
pub(super) fn go_on() {
    if CLOSING.load(Ordering::Relaxed) {
        look_at_connections();
    }
}

/// Makes the epoll instance report the deaths of peers that were added since the last call.
pub(super) fn watch(epoll: i32, seen: &mut Option<u32>) {
    let added = peers::added();
    if seen.replace(added) != Some(added) {
        peers::watch(epoll, kernel_sockets::instance(), |number| DEATH << 32 | u64::from(number));
    }
}

/// Checks which peers have died, and checks the connections with these peers.
pub(super) fn look_around() {
    peers::look();
    look_at_connections();
}

/// Checks the connections with peers that have died. If forked relatives of a dead peer hold a connection, the
/// connection ends only with the last of them.
pub(super) fn look_at_connections() {
    peers::forget_dead(|process| {
        let mut found = false;
        pair::each(|_, pair| found |= pair.peer == process);
        found
    });
    let (dead, now) = (peers::dead(), clock::now_ns());
    let mut closing = false;
    if !dead.is_empty() {
        pair::each(|_, pair| {
            if let Some(&(_, state)) = dead.iter().find(|(process, _)| *process == pair.peer) {
                closing |= look_at_pair(pair, state, now);
            }
        });
    }
    CLOSING.store(closing, Ordering::Relaxed);
}

/// Calls [`look_around`] again if the last check found a dead peer.
pub(super) fn look_again() {
    if peers::any_has_died() {
        look_around();
    }
}

/// Records which connections of the pair have lost their peer. Returns true if a dead peer's sockets are still
/// open.
fn look_at_pair(pair: &Pair, state: PeerState, now: u64) -> bool {
    let (closing, closed) = match state {
        PeerState::Alive => return false,
        PeerState::ProcessDied => (false, false),
        PeerState::AllDied(since) => (true, now.saturating_sub(since) >= CLOSED_NS),
    };
    let mut left = false;
    pair.each_conn(|_, conn| {
        let Some(conn) = family::conn(conn) else { return };
        // Read the generation before asking the kernel. Meanwhile the record may get another connection, on another
        // pair with the same index.
        let generation = conn.generation();
        if !conn.is_attached() || conn.has(flag::DEAD) {
            return;
        }
        if closed || pair.is_nic() || !peer_is_held(conn) {
            note(conn, generation, |found| core::ptr::eq(found, pair));
        } else {
            left |= closing;
        }
    });
    left
}

/// Checks if the peer of a connection is dead. Called for a connection whose sender has had no room for a while.
pub(super) fn look_at_stalled(conn: &Conn) {
    let generation = conn.generation();
    if conn.has(flag::REFLECTED) {
        // For this connection, the NIC in software reports the peer's death.
        return;
    }
    if !peer_is_held(conn) {
        note(conn, generation, |_| true);
    }
}

/// Records that no process holds the other end of the connection. Does nothing if the record has another generation
/// by now, or if `is_pair` returns false for its pair.
fn note(conn: &Conn, generation: u32, is_pair: impl Fn(&Pair) -> bool) {
    if let Some(mut guard) = conn.attached()
        && conn.is_generation(generation)
        && pair::of(&guard).is_some_and(is_pair)
    {
        ending::died(&mut guard);
    }
}

/// Returns true if any process holds the other end of the connection. Also returns true if this process has no
/// descriptor by which to ask the kernel.
fn peer_is_held(conn: &Conn) -> bool {
    table::descriptor_of(conn).is_none_or(|fd| rendezvous::peer_is_held(conn, fd))
}
