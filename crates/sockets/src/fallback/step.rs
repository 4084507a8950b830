//! One step of a fallback, under the connection's lock.
//!
//! The connection's state, and the words that both ends share in the segment, show which steps have been taken. So
//! any thread can take the next step. A thread may end, be killed or leave by `longjmp` between two steps without
//! harm.

use crate::conn::{Guard, flag};
use crate::stream::failover::{self, NextBytes};
use crate::stream::returned::{self, Debt};
use crate::stream::undelivered::{self, Next};
use crate::stream::{self, Corrupt, leaving, listeners, notify_writer, reflected};
use sovia_proto::path::reflected::{Rest, Verdict};
use sovia_proto::path::{self, Await, Rx, Seen};

/// State of a connection after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FallbackState {
    /// Both directions are on TCP.
    Over,
    /// The fallback must wait, because the peer has not done its part or TCP has no room.
    Waits,
    /// The peer will not put the VI's unread bytes on TCP, so they must be read on the VI.
    Stays,
}

/// Takes a step of the fallback in both directions.
///
/// # Errors
/// [`Corrupt`] if the segment holds invalid values.
fn step(guard: &mut Guard<'_>, fd: i32) -> Result<FallbackState, Corrupt> {
    leaving::leave_sending(guard)?;
    let receiving = receiving(guard, fd)?;
    // The peer may be falling back as well. Then it may wait until this end has put the peer's unread bytes on TCP.
    let sending = returned::debt(guard, fd);
    Ok(match (receiving, sending) {
        (FallbackState::Stays, _) => FallbackState::Stays,
        (FallbackState::Waits, _) | (_, Debt::Waits) => FallbackState::Waits,
        (FallbackState::Over, Debt::None) => FallbackState::Over,
        (FallbackState::Over, Debt::Unasked) if returned::refuse(guard) => FallbackState::Over,
        // The refusal failed, because the peer has just asked for its unread bytes.
        (FallbackState::Over, Debt::Unasked) => FallbackState::Waits,
    })
}

/// Takes a step like [`step`], but ends the connection if the segment is corrupt.
pub(super) fn step_or_end(guard: &mut Guard<'_>, fd: i32) -> FallbackState {
    step(guard, fd).unwrap_or_else(|Corrupt(_)| {
        stream::corrupt(guard.conn, fd);
        FallbackState::Over
    })
}

/// Takes a step of the fallback in the receiving direction.
fn receiving(guard: &mut Guard<'_>, fd: i32) -> Result<FallbackState, Corrupt> {
    let conn = guard.conn;
    if failover::is_on(guard) {
        return Ok(match failover::receives(guard, fd) {
            NextBytes::OnTcp => FallbackState::Over,
            NextBytes::Waits => FallbackState::Waits,
            NextBytes::OnVi => FallbackState::Stays,
        });
    }
    if !path::revokes(conn.rx()) {
        return Ok(on_tcp(guard, fd));
    }
    match leaving::revoke(guard)? {
        None => Ok(FallbackState::Waits),
        Some(true) => leave_undelivered(guard, fd),
        Some(false) => Ok(on_tcp(guard, fd)),
    }
}

/// Checks a receiving direction whose remaining bytes all come on TCP.
fn on_tcp(guard: &mut Guard<'_>, fd: i32) -> FallbackState {
    let conn = guard.conn;
    let mut awaited = leaving::awaits_on_tcp(guard);
    let has_ended =
        awaited != Await::Nothing && (conn.has(flag::DEAD) || stream::peer_has_ended(guard, fd));
    if has_ended {
        // Read the peer's state again, because the peer publishes its last state just before it ends.
        awaited = leaving::awaits_on_tcp(guard);
    }
    match awaited {
        // The peer died before it had put all unread bytes on TCP. The missing bytes are still on the VI.
        Await::TakenBack | Await::Drained if has_ended => FallbackState::Stays,
        Await::TakenBack | Await::Drained => FallbackState::Waits,
        Await::Nothing => {
            conn.set_rx(Rx::Back);
            conn.clear(flag::RETURNING);
            FallbackState::Over
        }
    }
}

/// Waits until the peer no longer sends on the VI. Then asks the peer to put the VI's unread bytes on TCP, and
/// leaves the bytes on the VI.
fn leave_undelivered(guard: &mut Guard<'_>, fd: i32) -> Result<FallbackState, Corrupt> {
    let conn = guard.conn;
    match reflected::verdict(guard) {
        Verdict::None => {}
        // Wait for the verdict, even if the peer has ended: it may have put the bytes on TCP before its end.
        Verdict::Pending => return Ok(FallbackState::Waits),
        Verdict::Accepted => return Ok(go_on(guard, Rest::Returned)),
        Verdict::Refused => return Ok(go_on(guard, Rest::Kept)),
    }
    let mut unread = undelivered::look(guard)?;
    let has_ended = conn.has(flag::DEAD) || stream::peer_has_ended(guard, fd);
    if unread.next == Next::More && has_ended {
        // Look again, because all packets that the peer published before its end are visible now.
        unread = undelivered::look(guard)?;
    }
    let seen = match unread.next {
        // Do not ask for bytes on TCP if this end is shut down: the kernel would reset the connection, and the
        // bytes would be lost. A peer that has ended cannot put bytes on TCP either.
        Next::ToTcp if unread.bytes > 0 && (conn.is_shut() || has_ended) => Seen::Ended,
        Next::ToTcp => Seen::ToTcp,
        Next::Fin => Seen::Ended,
        Next::More if has_ended || conn.has(flag::EOF) => Seen::Ended,
        Next::More => return Ok(FallbackState::Waits),
    };
    undelivered::leave(guard, &unread)?;
    // Set the flag before the answer. If this process dies in between, a relative must not read bytes on the VI
    // that the peer also puts on TCP.
    conn.set(flag::RETURNING);
    let rest = undelivered::answer(guard, seen, unread.bytes);
    Ok(go_on(guard, rest))
}

/// Continues the fallback according to `rest`, the decision on the VI's unread bytes.
fn go_on(guard: &mut Guard<'_>, rest: Rest) -> FallbackState {
    let conn = guard.conn;
    match rest {
        Rest::Pending => FallbackState::Waits,
        Rest::Plain => {
            conn.clear(flag::RETURNING);
            return_to_tcp(guard);
            FallbackState::Over
        }
        Rest::Returned => {
            return_to_tcp(guard);
            leaving::ring_progress_thread(guard);
            FallbackState::Waits
        }
        Rest::Kept => {
            conn.clear(flag::RETURNING);
            notify_writer(guard);
            FallbackState::Stays
        }
    }
}

/// Stops waiting for a peer that does not stop sending on the VI. The unread bytes are then read on the VI.
pub(super) fn stop_waiting(guard: &Guard<'_>) {
    if leaving::awaits_answer(guard) {
        undelivered::answer(guard, Seen::Impatient, 0);
        notify_writer(guard);
    }
}

/// Moves the receiving direction to TCP for all later calls.
fn return_to_tcp(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    conn.set_rx(Rx::Back);
    conn.set(flag::KERNEL_SOCKET);
    conn.clear(flag::FALLING_BACK);
    notify_writer(guard);
    listeners::notify_all(guard);
}
