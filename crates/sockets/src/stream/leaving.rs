//! The steps from the VI back to TCP: the receiver of a direction revokes it, and its sender ends its part.
//!
//! [`crate::fallback`] decides when they are taken. What lies unread on the VI then is named by `undelivered` and put
//! on TCP by `returned`.

use super::entering::{claim, say_grant};
use super::returned::{end_part, revoked};
use super::{Corrupt, failover, reflected, rx, send, tell_reader, tell_writer, tx, word};
use crate::conn::{Guard, flag};
use crate::{kernel_sockets, pair};
use core::sync::atomic::{Ordering, fence};
use sovia_proto::path::reflected::Revoked;
use sovia_proto::path::{self, Await, CANCELLED, ENTERED, Grant, Leave, Owed, Revoke, Rx, Tx};

/// Asks the receiver of the direction in which this end sends to revoke it.
pub(crate) fn ask_for_revoke(guard: &mut Guard<'_>) {
    guard.own.asked = 1;
    tx(guard).path.store(word::ASKED, 1);
    tell_reader(guard);
    ring_progress_thread(guard);
}

/// Whether the sender of the direction in which this end receives asks for its revoke, and no thread has begun
/// with it.
pub(crate) fn is_asked_for_revoke(guard: &Guard<'_>) -> bool {
    !guard.conn.has(flag::FALLING_BACK)
        && !failover::is_on(guard)
        && rx(guard).path.load(word::ASKED) != 0
}

/// What the receiver of the direction in which this end sends has granted.
fn granted(guard: &Guard<'_>) -> Grant {
    Grant::from_word(tx(guard).path.load(word::GRANT))
}

/// Ends the part of this end on the VI, if the receiver of the direction in which it sends has revoked it.
pub(crate) fn answer_revoke(guard: &mut Guard<'_>) {
    if granted(guard) == Grant::Revoked {
        revoked(guard);
    }
}

/// Whether the receiver of the direction in which this end sends waits for it: for the answer to a revoke, or for
/// unread bytes on TCP.
pub(crate) fn is_waited_for(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    match conn.tx() {
        Tx::Vi => granted(guard) == Grant::Revoked,
        Tx::Back => {
            let path = &tx(guard).path;
            let is_asked_for = failover::is_on(guard)
                || path.load(word::SWITCH) == CANCELLED
                || path::owed(granted(guard), path.load(word::RETURNED)) != Owed::Refuse;
            conn.has(flag::LEFT_VI) && !conn.has(flag::DRAINED) && is_asked_for
        }
        Tx::Tcp => false,
    }
}

/// Ends the part of this end on the VI in the direction in which it sends, whatever its receiver wants.
///
/// # Errors
/// [`Corrupt`] if the switch is not this end's.
pub(crate) fn leave_sending(guard: &mut Guard<'_>) -> Result<(), Corrupt> {
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
                Err(_) => return Err(Corrupt("an unexpected change of the path")),
            }
        }
    }
    end_part(guard);
    Ok(())
}

/// Revokes the direction in which this end receives, and claims what its sender has put on the VI. Whether there
/// is anything to be looked for on the VI; `None` while that is not known.
///
/// # Errors
/// [`Corrupt`] if the switch has become another one.
pub(crate) fn revoke(guard: &mut Guard<'_>) -> Result<Option<bool>, Corrupt> {
    if guard.own.grant != Grant::Revoked as u64 {
        say_grant(guard, Grant::Revoked as u64);
        // The peer's next call answers, or its progress thread: it may be computing.
        tell_writer(guard);
        ring_progress_thread(guard);
    }
    // A sender that is just switching looks at the grant once more, and takes it back. One that
    // takes its bytes back must not find us reading them: claiming them decides.
    fence(Ordering::SeqCst);
    if reflected::is_reflected(guard) {
        return Ok(revoke_by_nic(guard));
    }
    match path::revoke(guard.conn.rx(), rx(guard).path.load(word::SWITCH)) {
        Revoke::Nothing => Ok(Some(false)),
        Revoke::Drain => Ok(Some(true)),
        Revoke::Enter(seen) => claim(guard, seen).map(Some),
    }
}

/// The same where a NIC is between the two ends.
#[cold]
fn revoke_by_nic(guard: &Guard<'_>) -> Option<bool> {
    if reflected::revoked(guard) == Revoked::Claim {
        reflected::claim(guard);
    }
    match reflected::revoked(guard) {
        Revoked::Nothing => Some(false),
        Revoked::Drain => Some(true),
        Revoked::Claim | Revoked::Await => None,
    }
}

/// What must come on TCP before the direction in which this end receives is there for good, where nothing is to be
/// looked for on the VI.
pub(crate) fn awaits_on_tcp(guard: &Guard<'_>) -> Await {
    let (conn, path) = (guard.conn, &rx(guard).path);
    let returned = if conn.has(flag::RETURNING) { path.load(word::RETURNED) } else { 0 };
    let (taken_back, drained) = (path.load(word::TAKEN) != 0, path.load(word::DRAINED) != 0);
    path::on_tcp(conn.rx(), path.load(word::SWITCH), taken_back, returned, drained)
}

/// Whether the sender has not ended its part on the VI, so that it is not known yet what is unread there.
pub(crate) fn awaits_answer(guard: &Guard<'_>) -> bool {
    matches!(guard.conn.rx(), Rx::Granted | Rx::Vi)
        && rx(guard).path.load(word::SWITCH) != CANCELLED
}

/// Rings for the peer's progress thread, which answers in the place of a program that makes no call.
pub(crate) fn ring_progress_thread(guard: &Guard<'_>) {
    if let Some(pair) = pair::of(guard) {
        pair.ring(kernel_sockets::DOORBELL);
    }
}
