//! The steps from the VI back to TCP: the receiver of a direction recalls it, and its sender ends its part.
//!
//! [`crate::retreat`] decides when they are taken. What lies unread on the VI then is named by `remains` and put
//! on TCP by `returned`.

use super::entering::{claim, say_grant};
use super::returned::{end_part, recalled};
use super::{Damaged, failover, reflected, rx, send, tell_reader, tell_writer, tx, word};
use crate::conn::{Guard, flag};
use crate::{anchors, pair};
use core::sync::atomic::{Ordering, fence};
use sovia_proto::path::reflected::Recalled;
use sovia_proto::path::{self, Await, CANCELLED, ENTERED, Grant, Leave, Owed, Recall, Rx, Tx};

/// Asks the receiver of the direction in which this end sends to recall it.
pub(crate) fn ask_for_recall(guard: &mut Guard<'_>) {
    guard.own.asked = 1;
    tx(guard).path.store(word::ASKED, 1);
    tell_reader(guard);
    ring_progress_thread(guard);
}

/// Whether the sender of the direction in which this end receives asks for its recall, and no thread has begun
/// with it.
pub(crate) fn is_asked_for_recall(guard: &Guard<'_>) -> bool {
    !guard.conn.has(flag::RETREATING)
        && !failover::is_on(guard)
        && rx(guard).path.load(word::ASKED) != 0
}

/// What the receiver of the direction in which this end sends has granted.
fn granted(guard: &Guard<'_>) -> Grant {
    Grant::from_word(tx(guard).path.load(word::GRANT))
}

/// Ends the part of this end on the VI, if the receiver of the direction in which it sends has recalled it.
pub(crate) fn answer_recall(guard: &mut Guard<'_>) {
    if granted(guard) == Grant::Recalled {
        recalled(guard);
    }
}

/// Whether the receiver of the direction in which this end sends waits for it: for the answer to a recall, or for
/// unread bytes on TCP.
pub(crate) fn is_waited_for(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    match conn.tx() {
        Tx::Vi => granted(guard) == Grant::Recalled,
        Tx::Back => {
            let path = &tx(guard).path;
            let is_asked_for = failover::is_on(guard)
                || path.load(word::SWITCH) == CANCELLED
                || path::owed(granted(guard), path.load(word::RETURNED)) != Owed::Refuse;
            conn.has(flag::LEFT_VI) && !conn.has(flag::PUMPED) && is_asked_for
        }
        Tx::Tcp => false,
    }
}

/// Ends the part of this end on the VI in the direction in which it sends, whatever its receiver wants.
///
/// # Errors
/// [`Damaged`] if the switch is not this end's.
pub(crate) fn leave_sending(guard: &mut Guard<'_>) -> Result<(), Damaged> {
    let conn = guard.conn;
    if conn.tx() == Tx::Back {
        return Ok(());
    }
    let switch = &tx(guard).path.0[word::SWITCH];
    let seen = switch.load(Ordering::Acquire);
    match path::leave(conn.tx(), seen, guard.closing.fin_sent, send::has_shut(guard)) {
        Leave::Quietly => {
            conn.set_tx(Tx::Back);
            return Ok(());
        }
        Leave::End => {}
        Leave::Cancel(seen) => {
            let cancelled =
                switch.compare_exchange(seen, CANCELLED, Ordering::AcqRel, Ordering::Acquire);
            match cancelled {
                // The receiver has seen nothing of the VI: the bytes go to TCP after all. Until they are
                // all there, a receiver that finds TCP at its end takes them from the VI.
                Ok(_) => {
                    conn.set(flag::LEFT_VI);
                    conn.set_tx(Tx::Back);
                    tell_reader(guard);
                    return Ok(());
                }
                Err(now) if now == seen | ENTERED => {}
                Err(_) => return Err(Damaged("an unexpected change of the path")),
            }
        }
    }
    end_part(guard);
    Ok(())
}

/// Recalls the direction in which this end receives, and claims what its sender has put on the VI. Whether there
/// is anything to be looked for on the VI; `None` while that is not known.
///
/// # Errors
/// [`Damaged`] if the switch has become another one.
pub(crate) fn recall(guard: &mut Guard<'_>) -> Result<Option<bool>, Damaged> {
    if guard.own.grant != Grant::Recalled as u64 {
        say_grant(guard, Grant::Recalled as u64);
        // The peer's next call answers, or its progress thread: it may be computing.
        tell_writer(guard);
        ring_progress_thread(guard);
    }
    // A sender that is just switching looks at the grant once more, and takes it back. One that
    // takes its bytes back must not find us reading them: claiming them decides.
    fence(Ordering::SeqCst);
    if reflected::is_reflected(guard) {
        return Ok(recall_by_nic(guard));
    }
    match path::recall(guard.conn.rx(), rx(guard).path.load(word::SWITCH)) {
        Recall::Nothing => Ok(Some(false)),
        Recall::Drain => Ok(Some(true)),
        Recall::Enter(seen) => claim(guard, seen).map(Some),
    }
}

/// The same where a NIC is between the two ends.
#[cold]
fn recall_by_nic(guard: &Guard<'_>) -> Option<bool> {
    if reflected::recalled(guard) == Recalled::Claim {
        reflected::claim(guard);
    }
    match reflected::recalled(guard) {
        Recalled::Nothing => Some(false),
        Recalled::Drain => Some(true),
        Recalled::Claim | Recalled::Await => None,
    }
}

/// What must come on TCP before the direction in which this end receives is there for good, where nothing is to be
/// looked for on the VI.
pub(crate) fn awaits_on_tcp(guard: &Guard<'_>) -> Await {
    let (conn, path) = (guard.conn, &rx(guard).path);
    let returned = if conn.has(flag::RETURNING) { path.load(word::RETURNED) } else { 0 };
    let (taken_back, pumped) = (path.load(word::TAKEN) != 0, path.load(word::PUMPED) != 0);
    path::on_tcp(conn.rx(), path.load(word::SWITCH), taken_back, returned, pumped)
}

/// Whether the sender has not ended its part on the VI, so that it is not known yet what is unread there.
pub(crate) fn awaits_answer(guard: &Guard<'_>) -> bool {
    matches!(guard.conn.rx(), Rx::Granted | Rx::Vi)
        && rx(guard).path.load(word::SWITCH) != CANCELLED
}

/// Rings for the peer's progress thread, which answers in the place of a program that makes no call.
pub(crate) fn ring_progress_thread(guard: &Guard<'_>) {
    if let Some(pair) = pair::of(guard) {
        pair.ring(anchors::DOORBELL);
    }
}
