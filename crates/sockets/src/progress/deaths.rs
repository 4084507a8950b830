//! Peers that die without their kernel sockets' saying so.

use crate::conn::{Conn, flag};
use crate::pair::{self, Pair};
use crate::peers::{self, Life};
use crate::per_engine::per_engine;
use crate::stream::ending;
use crate::{family, meeting, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::clock;

/// The event of a descriptor that tells of a peer's death, among those of kernel sockets and the doorbell.
pub(super) const DEATH: u64 = u64::MAX - 1;

/// A process that dies closes its descriptors one after the other: its sockets may be open still when
/// it has let go of the segment. What they would say comes first, so they are looked at this often.
const CLOSING_NS: u64 = 2_000_000;
/// One that has let go of the segment and holds a socket for longer is another program now, which knows
/// nothing of the VI.
const CLOSED_NS: u64 = 1_000_000_000;
per_engine! {
    /// Some peer is closing its sockets.
    static CLOSING: AtomicBool = AtomicBool::new(false);
}

/// How long until sockets are to be looked at that are being closed; `None` if none are.
pub(super) fn pause() -> Option<u64> {
    CLOSING.load(Ordering::Relaxed).then_some(CLOSING_NS)
}

/// Looks at sockets that are being closed.
pub(super) fn go_on() {
    if CLOSING.load(Ordering::Relaxed) {
        look_around();
    }
}

/// Has the epoll instance report the deaths of peers that have been added.
pub(super) fn watch(epoll: i32, seen: &mut Option<u32>) {
    let added = peers::added();
    if *seen != Some(added) {
        let is_new = seen.replace(added).is_none();
        peers::watch(epoll, DEATH, is_new);
    }
}

/// Looks which peers have died, and at the connections of those that have: relatives of theirs may hold
/// some, and those tell of their deaths only when the last of them has died.
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

/// Looks again where peers have died.
pub(super) fn look_again() {
    if peers::any_has_died() {
        look_around();
    }
}

/// Whether connections are left that are being closed.
fn look_at_pair(pair: &Pair, now: u64) -> bool {
    let (closing, closed) = match peers::life(pair.peer) {
        Life::Alive => return false,
        Life::ProcessDied => (false, false),
        Life::AllDied(since) => (true, now.saturating_sub(since) >= CLOSED_NS),
    };
    let mut left = false;
    pair.each_conn(|conn| {
        let Some(conn) = family::conn(conn) else { return };
        // First: its record may be another connection's by the time that the kernel has answered, on another pair
        // with this one's index.
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

/// The connection's writer has had no room for a while.
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

/// No process holds the other end of a connection any more, if it is the one of that generation still, on such a pair.
fn note(conn: &Conn, generation: u32, is_pair: impl Fn(&Pair) -> bool) {
    if let Some(mut guard) = conn.attached()
        && conn.is_generation(generation)
        && pair::of(&guard).is_some_and(is_pair)
    {
        ending::died(&mut guard);
    }
}

/// Whether any process holds the other end of a connection. Where this process has no descriptor of it, one does.
fn peer_is_held(conn: &Conn) -> bool {
    table::descriptor_of(conn).is_none_or(|fd| meeting::peer_is_held(conn, fd))
}
