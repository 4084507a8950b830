//! Detects deaths of peers that their kernel sockets do not report.

use crate::conn::{Conn, flag};
use crate::pair::{self, Pair};
use crate::peers::{self, Life};
use crate::per_engine::per_engine;
use crate::stream::ending;
use crate::{family, meeting, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::clock;

/// Epoll token of a descriptor that reports a peer's death, among the tokens of kernel sockets and the doorbell.
pub(super) const DEATH: u64 = u64::MAX - 1;

/// Interval in nanoseconds between looks at the sockets of a dying process. A process that dies closes its descriptors
/// one after the other. So a socket may still be open after the process has left the segment. The socket's own events
/// must come first.
const CLOSING_NS: u64 = 2_000_000;
/// Time in nanoseconds after which such a socket counts as closed. A process that has left the segment but holds a
/// socket for longer has executed another program. That program cannot use the VI.
const CLOSED_NS: u64 = 1_000_000_000;
per_engine! {
    /// Set while a peer is closing its sockets.
    static CLOSING: AtomicBool = AtomicBool::new(false);
}

/// Returns the time in nanoseconds until the next look at sockets that are being closed. `None` if no socket is.
pub(super) fn pause() -> Option<u64> {
    CLOSING.load(Ordering::Relaxed).then_some(CLOSING_NS)
}

/// Looks at sockets that are being closed.
pub(super) fn go_on() {
    if CLOSING.load(Ordering::Relaxed) {
        look_around();
    }
}

/// Makes the epoll instance report the deaths of peers that were added.
pub(super) fn watch(epoll: i32, seen: &mut Option<u32>) {
    let added = peers::added();
    if *seen != Some(added) {
        let is_new = seen.replace(added).is_none();
        peers::watch(epoll, DEATH, is_new);
    }
}

/// Checks which peers have died, and checks their connections. Forked relatives of a dead peer may hold some
/// connections, and those connections end only with the last relative.
pub(super) fn look_around() {
    let now = clock::now_ns();
    peers::look(now, |process| {
        let mut found = false;
        pair::each(|_, pair| found |= pair.peer == process);
        found
    });
    let mut closing = false;
    if peers::any_has_died() {
        pair::each(|_, pair| closing |= look_at_pair(pair, now));
    }
    CLOSING.store(closing, Ordering::Relaxed);
}

/// Repeats [`look_around`] if any peer has died.
pub(super) fn look_again() {
    if peers::any_has_died() {
        look_around();
    }
}

/// Returns true if connections are left that are being closed.
fn look_at_pair(pair: &Pair, now: u64) -> bool {
    let (closing, closed) = match peers::life(pair.peer) {
        Life::Alive => return false,
        Life::ProcessDied => (false, false),
        Life::AllDied(since) => (true, now.saturating_sub(since) >= CLOSED_NS),
    };
    let mut left = false;
    pair.each_conn(|conn| {
        let Some(conn) = family::conn(conn) else { return };
        // Read first: when the kernel answers, the record may belong to another connection, on another pair with the
        // same index.
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

/// Checks a connection whose sender has had no room for a while.
pub(super) fn look_at_stalled(conn: &Conn) {
    let generation = conn.generation();
    if conn.has(flag::REFLECTED) {
        // A NIC reports the peer's death.
        return;
    }
    if !peer_is_held(conn) {
        note(conn, generation, |_| true);
    }
}

/// Records that no process holds the other end of a connection. Does nothing if the record has another generation, or
/// if `is_pair` rejects its pair.
fn note(conn: &Conn, generation: u32, is_pair: impl Fn(&Pair) -> bool) {
    if let Some(mut guard) = conn.attached()
        && conn.is_generation(generation)
        && pair::of(&guard).is_some_and(is_pair)
    {
        ending::died(&mut guard);
    }
}

/// Returns true if any process holds the other end of a connection. Also true if this process has no descriptor to ask
/// the kernel with.
fn peer_is_held(conn: &Conn) -> bool {
    table::descriptor_of(conn).is_none_or(|fd| meeting::peer_is_held(conn, fd))
}
