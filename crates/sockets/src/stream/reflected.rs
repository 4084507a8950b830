//! What differs where the other side of the segment is a NIC in software, which reflects the VI to the other end
//! of the connection.
//!
//! The words and the bytes are the same. Three things take longer than with a peer that shares the segment:
//!
//! - news travel only when the NIC is told of them, also those that a peer would find by itself;
//! - TCP may overtake the VI: its end and its errors count only once the NIC has told all that the peer had published;
//! - what is settled by compare-exchange between the two ends is settled where the sender is. A receiver that goes back
//!   asks, and its next steps wait for the answer.

use super::{load, rx, tx, word};
use crate::conn::{Guard, flag};
use crate::pair;
use core::sync::atomic::Ordering;
use sovia_proto::path::{REFUSED, Rx};

#[inline]
fn is_reflected(guard: &Guard<'_>) -> bool {
    guard.conn.has(flag::REFLECTED)
}

/// Tells the NIC of news for which no bell is rung.
pub(crate) fn tell_nic(guard: &Guard<'_>) {
    if is_reflected(guard)
        && let Some(pair) = pair::of(guard)
    {
        pair.tell_nic(guard.conn.vi.load(Ordering::Relaxed));
    }
}

/// Why nothing comes on the VI any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Something may come.
    NotYet,
    /// All that the peer had published is here.
    Complete,
    /// Something may be missing: a NIC has died, or the NICs have lost each other.
    Broken,
}

/// Whether the peer publishes anything more.
pub(super) fn end(guard: &Guard<'_>) -> End {
    match load(&rx(guard).writer, word::GONE) {
        // The other side of the segment is the NIC's.
        0 if guard.conn.has(flag::DEAD) => End::Broken,
        0 => End::NotYet,
        word::ENDED => End::Complete,
        _ => End::Broken,
    }
}

/// Whether what TCP says of the peer's end is all there is: nothing that the peer has published before it is on
/// its way still.
pub(super) fn tcp_tells_the_end(guard: &Guard<'_>) -> bool {
    !is_reflected(guard)
        || load(&rx(guard).writer, word::FIN) != 0
        || end(guard) != End::NotYet
        // It never had leave to switch.
        || guard.conn.rx() == Rx::Tcp
        // What comes is thrown away.
        || guard.conn.has(flag::SHUT_RD) && guard.conn.has(flag::SHUT_WR)
}

/// Whether the recall of the direction in which this end receives is known where its sender is, so that the switch
/// that is here is what counts.
pub(super) fn is_recall_confirmed(guard: &Guard<'_>) -> bool {
    !is_reflected(guard)
        || load(&rx(guard).writer, word::ANSWER) & word::CONFIRMED != 0
        || end(guard) != End::NotYet
}

/// What the word of what is returned was before this end changed it, where `found` is what was found here: `None` while
/// the sender's NIC has not answered.
pub(super) fn found_by_answer(guard: &Guard<'_>, found: u64) -> Option<u64> {
    if !is_reflected(guard) {
        return Some(found);
    }
    let answer = load(&rx(guard).writer, word::ANSWER);
    if answer & word::ACCEPTED != 0 {
        Some(0)
    } else if answer & word::REFUSED != 0 || end(guard) != End::NotYet {
        // A sender that has gone puts nothing on TCP any more.
        Some(REFUSED)
    } else {
        None
    }
}

/// Whether what this end returns has not been answered: until it is, nothing is read on the VI or on TCP.
pub(super) fn awaits_answer(guard: &Guard<'_>) -> bool {
    guard.conn.has(flag::RETURNING) && guard.conn.rx() == Rx::Vi
}

/// The peer's end, for the thread that answers in the place of the program: whether it is news.
pub(crate) fn note_end(guard: &Guard<'_>) -> bool {
    is_reflected(guard)
        && !guard.conn.has(flag::GONE)
        && load(&rx(guard).writer, word::GONE) != 0
        && guard.conn.set(flag::GONE | flag::ANCHOR) & flag::GONE == 0
}

/// Whether the peer has died, rather than left.
pub(super) fn has_died(guard: &Guard<'_>) -> bool {
    load(&tx(guard).path, word::GRANT) != word::LEFT
}
