//! Takes the steps from the VI back to TCP. The receiver of a direction revokes the VI, and the sender then stops
//! sending on the VI.
//!
//! [`crate::fallback`] decides when to take these steps. `undelivered` finds the unread bytes on the VI, and
//! `returned` puts the unread bytes on TCP.

use super::entering::{claim, publish_grant};
use super::returned::{end_part, revoked};
use super::{Corrupt, failover, notify_reader, notify_writer, reflected, rx, send, tx, word};
use crate::conn::{Conn, Guard, flag};
use crate::kernel_sockets;
use crate::pair::{self, Pair};
use core::sync::atomic::{Ordering, fence};
use sovia_proto::path::reflected::Revoked;
use sovia_proto::path::{self, Await, CANCELLED, ENTERED, Grant, Leave, Owed, Revoke, Rx, Tx};

/// Asks the peer to revoke the direction in which this end sends.
pub(crate) fn ask_for_revoke(guard: &mut Guard<'_>) {
    guard.own.asked = 1;
    tx(guard).path.store(word::ASKED, 1);
    notify_reader(guard);
    ring_progress_thread(guard);
}

/// Returns true if the peer has asked this end to revoke the direction in which this end receives, and no thread
/// has begun the revocation.
pub(crate) fn is_asked_for_revoke(guard: &Guard<'_>) -> bool {
    !guard.conn.has(flag::FALLING_BACK)
        && !failover::is_on(guard)
        && rx(guard).path.load(word::ASKED) != 0
}

/// Returns the receiver's grant for the direction in which this end sends.
fn granted(guard: &Guard<'_>) -> Grant {
    Grant::from_word(tx(guard).path.load(word::GRANT))
}

/// Stops sending on the VI if the receiver has revoked the direction in which this end sends.
pub(crate) fn answer_revoke(guard: &mut Guard<'_>) {
    if granted(guard) == Grant::Revoked {
        revoked(guard);
    }
}

/// Returns true if the peer may wait for a step of this end of the connection, which is on VI `vi` of `pair`. Takes no
/// lock, so that a search of all connections disturbs no call. The caller must check again under the lock.
pub(crate) fn may_be_waited_for(conn: &Conn, pair: &Pair, vi: u32) -> bool {
    let word = |from, word| pair.segment.direction(vi, from).path.load(word);
    let may_be = || {
        conn.has(flag::REFLECTED)
            || conn.tx() == Tx::Back
            || word(pair.side ^ 1, word::ASKED) != 0
            || Grant::from_word(word(pair.side, word::GRANT)) == Grant::Revoked
    };
    conn.is_attached() && !conn.has(flag::CORRUPT) && may_be()
}

/// Returns true if the peer's receiver waits for a step of this end. Either the receiver has revoked the VI and
/// this end has not answered, or this end must put unread bytes of the VI on TCP.
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

/// Stops sending on the VI, even if the receiver has not revoked the direction.
///
/// # Errors
/// [`Corrupt`] if the switch word has an impossible value.
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
                // The receiver has read no byte on the VI, so this end will put all its bytes of the VI on TCP. If
                // TCP ends before that, the receiver reads the missing bytes on the VI.
                Ok(_) => {
                    conn.set(flag::LEFT_VI);
                    conn.set_tx(Tx::Back);
                    notify_reader(guard);
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

/// Revokes the direction in which this end receives, and claims the bytes that the sender has put on the VI.
/// Returns true if the VI may have unread bytes. Returns `None` while a NIC has not answered the claim.
///
/// # Errors
/// [`Corrupt`] if the switch word has changed to an impossible value.
pub(crate) fn revoke(guard: &mut Guard<'_>) -> Result<Option<bool>, Corrupt> {
    if guard.own.grant != Grant::Revoked as u64 {
        publish_grant(guard, Grant::Revoked as u64);
        // The peer's program answers in its next call. If it makes no call, the peer's progress thread answers.
        notify_writer(guard);
        ring_progress_thread(guard);
    }
    // SYNC: pairs with the fence in `send::switch`. A sender that is just switching loads the grant again after its
    // fence, sees the revocation and cancels its switch. The sender cancels and this end claims by compare-exchange
    // on the switch word, so only one of these two steps succeeds.
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

/// Like [`revoke`], for a connection with a NIC between the two ends. The direction has already been revoked.
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

/// Returns which bytes must still arrive on TCP before the receiving direction has completely moved to TCP. Call it
/// once no more bytes can come on the VI.
pub(crate) fn awaits_on_tcp(guard: &Guard<'_>) -> Await {
    let (conn, path) = (guard.conn, &rx(guard).path);
    let returned = if conn.has(flag::RETURNING) { path.load(word::RETURNED) } else { 0 };
    let (taken_back, drained) = (path.load(word::TAKEN) != 0, path.load(word::DRAINED) != 0);
    path::on_tcp(conn.rx(), path.load(word::SWITCH), taken_back, returned, drained)
}

/// Returns true if the sender may still send on the VI. While this is true, the number of unread bytes on the VI is
/// not final.
pub(crate) fn awaits_answer(guard: &Guard<'_>) -> bool {
    matches!(guard.conn.rx(), Rx::Granted | Rx::Vi)
        && rx(guard).path.load(word::SWITCH) != CANCELLED
}

/// Wakes the peer's progress thread, which answers this end if the peer's program makes no call.
pub(crate) fn ring_progress_thread(guard: &Guard<'_>) {
    if let Some(pair) = pair::of(guard) {
        pair.ring(kernel_sockets::DOORBELL);
    }
}
