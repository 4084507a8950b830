//! Checks that no other code has overwritten the words in the segment that only this end writes.
//!
//! This end checks the peer's words whenever it reads them. But an overwritten word of this end could make the peer
//! wait forever. So the progress thread compares this end's words with private copies, about once a second. If a
//! word differs, the segment is corrupt, and the connection fails instead of hanging. If the overwritten memory has
//! caused a lost wake-up, the progress thread repeats the wake-up.
//!
//! Sends and receives only count their bytes in private memory for this check.

use super::state::WAKES;
use super::{Fault, backlog, handler_queue, listeners, word};
use crate::conn::{Conn, EndProgress, Guard, HasEndpoint, Locked, flag};
use crate::table;
use sovia_proto::path::{CANCELLED, ENTERED, Rx, Tx};

/// Time between two checks of a connection, in nanoseconds.
pub(crate) const PERIOD_NS: u64 = 1_000_000_000;

/// Writes this end's words in the segment again. Called after the death of a thread that may have been writing
/// these words.
pub(super) fn repair(guard: &mut Guard<'_>) {
    guard.own.uncounted = true;
    guard.endpoint_ref().rx.repair();
    let (tx, rx) = (super::tx(guard), super::rx(guard));
    tx.writer.store(word::AFTER, guard.own.after);
    tx.writer.store(word::START, guard.own.start);
    tx.writer.store(word::LEDGER, guard.own.ledger);
    rx.reader.store(word::HEAD, guard.taker.head);
    rx.reader.store(word::TAKEN_BYTES, u64::from(guard.bytes_taken));
    rx.path.store(word::GRANT, guard.own.grant);
    if guard.conn.tx() == Tx::Vi && tx.path.load(word::SWITCH) == 0 {
        if guard.own.switch == 0 {
            guard.conn.set_tx(Tx::Tcp);
        } else {
            tx.path.store(word::FROM, guard.own.from);
            tx.path.store(word::SWITCH, guard.own.switch);
        }
    }
    tx.path.store(word::ASKED, guard.own.asked);
    listeners::publish(guard);
}

/// Compares the words of this end's sender with private copies. Also publishes the numbers of packets and bytes
/// that this end has sent (LEDGER).
fn sender(guard: &mut Guard<'_>, still: bool) -> Result<(), Fault> {
    let direction = super::tx(guard);
    let (line, path) = (&direction.writer, &direction.path);
    let own = guard.own;
    if line.load(word::TAIL) != guard.coalescer.tail
        || line.load(word::AFTER) != own.after
        || line.load(word::START) != own.start
        || line.load(word::LEDGER) != own.ledger
        || path.load(word::FROM) != own.from
        || path.load(word::ASKED) != own.asked
        || listeners::found(guard).writer != listeners::of(guard).writer
        || !may_be(guard, path.load(word::SWITCH))
    {
        return Err(Fault::Corrupt);
    }
    let ledger = u64::from(guard.coalescer.packets) | u64::from(guard.bytes_sent) << 32;
    if !own.uncounted && ledger != own.ledger {
        guard.own.ledger = ledger;
        super::tx(guard).writer.store(word::LEDGER, ledger);
    }
    // Checks the ring only if it is idle. In a busy ring, the receiver itself finds an overwritten entry.
    if still {
        guard.endpoint_ref().tx.audit()?;
    }
    Ok(())
}

/// Returns true if `switch` is a possible value of the switch word of the direction in which this end sends.
fn may_be(guard: &Guard<'_>, switch: u64) -> bool {
    let own = guard.own.switch;
    let entered = own != 0 && switch == own | ENTERED;
    // A receiver that has taken bytes must have entered the VI. There is one exception: if a NIC is between the two
    // ends, a receiver takes the bytes before a FIN without claiming the switch.
    let acknowledged = guard.coalescer.packets != u32::from(guard.flow.unacked())
        && !guard.closing.fin_sent
        && !guard.own.uncounted;
    let coalesced = guard.coalescer.taken != 0
        && !(guard.closing.fin_sent && super::reflected::is_reflected(guard));
    match guard.conn.tx() {
        Tx::Tcp => switch == 0,
        Tx::Vi if coalesced || acknowledged => entered,
        Tx::Vi => entered || switch == own && own != 0,
        Tx::Back => entered || switch == own || own != 0 && switch == CANCELLED,
    }
}

/// Compares the words of this end's receiver with private copies, and the arrived packets with the counts that the
/// peer has published (LEDGER).
fn receiver(guard: &mut Guard<'_>) -> Result<(), Fault> {
    let direction = super::rx(guard);
    // Loaded first: the peer publishes packets before it counts them in LEDGER, so each counted packet is visible
    // now.
    let ledger = direction.writer.load(word::LEDGER);
    guard.endpoint_ref().rx.audit()?;
    if direction.reader.load(word::HEAD) != guard.taker.head
        || direction.path.load(word::GRANT) != guard.own.grant
        || listeners::found(guard).reader != listeners::of(guard).reader
    {
        return Err(Fault::Corrupt);
    }
    if guard.conn.rx() != Rx::Vi {
        return Ok(());
    }
    let missing = (ledger as u32).wrapping_sub(guard.taker.packets) as i32;
    let bytes = (ledger >> 32) as u32;
    let nothing_held = guard.held_first == guard.held_end && guard.front == 0;
    if missing > 0 && nothing_held && guard.endpoint_ref().rx.head()?.is_none()
        || missing == 0 && bytes != guard.bytes_taken && !guard.own.uncounted
    {
        return Err(Fault::Corrupt);
    }
    Ok(())
}

/// Returns true if the connection has an event for which a waiting thread must have been woken.
fn has_events(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    let (rx, tx) = (super::rx(guard), super::tx(guard));
    let received = match conn.rx() {
        Rx::Vi => {
            guard.endpoint_ref().rx.has_message()
                || guard.held_first != guard.held_end
                || rx.writer.load(word::TAIL) != guard.taker.head
        }
        Rx::Granted => rx.path.load(word::SWITCH) != 0,
        Rx::Tcp | Rx::Back => false,
    };
    let room =
        guard.coalescer.is_coalescing() && tx.reader.load(word::HEAD) != guard.coalescer.taken;
    let answer = conn.has(flag::LEFT_VI) && !conn.has(flag::DRAINED);
    received || room || answer || conn.has(WAKES)
}

fn progress(guard: &Guard<'_>) -> EndProgress {
    let rx = super::rx(guard);
    EndProgress {
        arrived: (
            rx.writer.load(word::TAIL),
            rx.path.load(word::SWITCH),
            guard.endpoint_ref().rx.has_message(),
        ),
        sent: guard.endpoint_ref().tx.sent(),
        received: guard.endpoint_ref().rx.received(),
        tail: guard.coalescer.tail,
        head: guard.taker.head,
        consumed: guard.taker.packets,
        front: guard.front,
        flags: guard.conn.flags() & WAKES,
    }
}

/// Returns true if all words and counts of the connection are as expected. Set `still` if this end has sent nothing
/// since the last check.
pub(crate) fn is_whole(guard: &mut Guard<'_>, still: bool) -> bool {
    sender(guard, still).is_ok() && receiver(guard).is_ok()
}

/// Result of [`look`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The connection is correct, or was not checked.
    Fine,
    /// An event was pending at the last check, and no thread has handled the event since.
    MissedEvent,
    /// The sender has had no room since the last check, and the kernel socket could not report the death of the
    /// reader.
    Stalled,
    /// The segment is corrupt, so this check has ended the connection.
    Corrupt,
    /// A thread is moving the connection to TCP, or died while moving it.
    FallingBack,
}

/// Checks a connection, unless a forked relative has just checked it. `now` is the time in nanoseconds.
pub(crate) fn look(conn: &Conn, now: u64) -> Finding {
    // If another thread holds the lock, that thread is working on the connection, so no check is needed.
    let Some(mut guard) = conn.try_lock().and_then(Locked::attached) else { return Finding::Fine };
    if conn.has(flag::FALLING_BACK) {
        return Finding::FallingBack;
    }
    if conn.has(flag::CORRUPT) && guard.seen.is_reported {
        return Finding::Fine;
    }
    // A forked relative's progress thread may have checked the connection a moment ago.
    if now.saturating_sub(guard.seen.at) < PERIOD_NS / 4 * 3 {
        return Finding::Fine;
    }
    guard.seen.at = now;
    handler_queue::mind(&mut guard);
    backlog::give_back(&mut guard);
    let progress = progress(&guard);
    let before = core::mem::replace(&mut guard.seen.progress, progress);
    if !conn.has(flag::CORRUPT) && !is_whole(&mut guard, progress.sent == before.sent) {
        let Some(fd) = table::descriptor_of(conn) else { return Finding::Fine };
        super::corrupt(conn, fd);
        guard.seen.is_reported = true;
        return Finding::Corrupt;
    }
    if progress != before {
        guard.seen.is_reported = false;
    } else if !guard.seen.is_reported && has_events(&guard) {
        guard.seen.is_reported = true;
        return Finding::MissedEvent;
    } else if is_stalled(&guard) {
        return Finding::Stalled;
    }
    Finding::Fine
}

/// Returns true if this end waits for room, and the kernel socket could not report the death of the peer. Either
/// TCP has already ended, or unread bytes on TCP may hide its end.
fn is_stalled(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    guard.coalescer.is_coalescing()
        && !conn.has(flag::DEAD | flag::PEER_GONE)
        && (conn.rx() != Rx::Vi || conn.has(flag::EOF | flag::ENDED))
}
