//! One step of taking a connection back to TCP, under its lock.
//!
//! No thread owns the work: what has been done shows in the words that the two ends share and in the
//! connection's state, so whichever thread takes the next step goes on from there, and one that ends, is
//! killed or leaves by `longjmp` between two steps leaves nothing behind.

use crate::conn::{Guard, flag};
use crate::stream::failover::{self, Stands};
use crate::stream::returned::{self, Debt};
use crate::stream::undelivered::{self, Next};
use crate::stream::{self, Corrupt, leaving, listeners, reflected, tell_writer};
use sovia_proto::path::reflected::{Rest, Verdict};
use sovia_proto::path::{self, Await, Rx, Seen};

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The kernel has all of it.
    Over,
    /// The peer has its part to do, or TCP has no room.
    Waits,
    /// The peer will not put on TCP what is unread on the VI: there it must be read.
    Stays,
}

/// Takes both directions a step back.
///
/// # Errors
/// [`Corrupt`] if the segment holds nonsense.
fn step(guard: &mut Guard<'_>, fd: i32) -> Result<Step, Corrupt> {
    leaving::leave_sending(guard)?;
    let receiving = receiving(guard, fd)?;
    // The peer may be going back as well, and wait for what is unread there.
    let sending = returned::debt(guard, fd);
    Ok(match (receiving, sending) {
        (Step::Stays, _) => Step::Stays,
        (Step::Waits, _) | (_, Debt::Waits) => Step::Waits,
        (Step::Over, Debt::None) => Step::Over,
        (Step::Over, Debt::Unasked) if returned::refuse(guard) => Step::Over,
        // It has just asked.
        (Step::Over, Debt::Unasked) => Step::Waits,
    })
}

/// The same; a connection whose segment holds nonsense is over.
pub(super) fn step_or_end(guard: &mut Guard<'_>, fd: i32) -> Step {
    step(guard, fd).unwrap_or_else(|Corrupt(_)| {
        stream::corrupt(guard.conn, fd);
        Step::Over
    })
}

/// Takes the direction in which we receive a step back.
fn receiving(guard: &mut Guard<'_>, fd: i32) -> Result<Step, Corrupt> {
    let conn = guard.conn;
    if failover::is_on(guard) {
        return Ok(match failover::receives(guard, fd) {
            Stands::OnTcp => Step::Over,
            Stands::Waits => Step::Waits,
            Stands::OnVi => Step::Stays,
        });
    }
    if !path::revokes(conn.rx()) {
        return Ok(on_tcp(guard, fd));
    }
    match leaving::revoke(guard)? {
        None => Ok(Step::Waits),
        Some(true) => leave_undelivered(guard, fd),
        Some(false) => Ok(on_tcp(guard, fd)),
    }
}

/// A direction in which nothing is to be looked for on the VI.
fn on_tcp(guard: &mut Guard<'_>, fd: i32) -> Step {
    let conn = guard.conn;
    let mut awaited = leaving::awaits_on_tcp(guard);
    let has_ended =
        awaited != Await::Nothing && (conn.has(flag::DEAD) || stream::peer_has_ended(guard, fd));
    if has_ended {
        // Its last words come before its end.
        awaited = leaving::awaits_on_tcp(guard);
    }
    match awaited {
        // What a peer that has died over it has not put there is on the VI.
        Await::TakenBack | Await::Drained if has_ended => Step::Stays,
        Await::TakenBack | Await::Drained => Step::Waits,
        Await::Nothing => {
            conn.set_rx(Rx::Back);
            conn.clear(flag::RETURNING);
            Step::Over
        }
    }
}

/// Leaves on the VI what is unread there, once the peer has ended its part, and has the peer put it on TCP.
fn leave_undelivered(guard: &mut Guard<'_>, fd: i32) -> Result<Step, Corrupt> {
    let conn = guard.conn;
    match reflected::verdict(guard) {
        Verdict::None => {}
        // Nothing that is seen now counts: the peer may put the bytes on TCP, and end.
        Verdict::Pending => return Ok(Step::Waits),
        Verdict::Accepted => return Ok(go_on(guard, Rest::Returned)),
        Verdict::Refused => return Ok(go_on(guard, Rest::Kept)),
    }
    let mut unread = undelivered::look(guard)?;
    let has_ended = conn.has(flag::DEAD) || stream::peer_has_ended(guard, fd);
    if unread.next == Next::More && has_ended {
        // What the peer had put there before it ended is seen by now.
        unread = undelivered::look(guard)?;
    }
    let seen = match unread.next {
        // The kernel resets the connection for what the peer puts on TCP now: what is unread would be lost.
        // And a peer that has ended puts nothing there.
        Next::ToTcp if unread.bytes > 0 && (conn.is_shut() || has_ended) => Seen::Ended,
        Next::ToTcp => Seen::ToTcp,
        Next::Fin => Seen::Ended,
        Next::More if has_ended || conn.has(flag::EOF) => Seen::Ended,
        Next::More => return Ok(Step::Waits),
    };
    undelivered::leave(guard, &unread)?;
    // First: a relative that goes on where this process has died takes nothing off the VI that has been returned.
    conn.set(flag::RETURNING);
    let rest = undelivered::answer(guard, seen, unread.bytes);
    Ok(go_on(guard, rest))
}

/// Goes on with what becomes of the bytes that are unread on the VI.
fn go_on(guard: &mut Guard<'_>, rest: Rest) -> Step {
    let conn = guard.conn;
    match rest {
        Rest::Pending => Step::Waits,
        Rest::Plain => {
            conn.clear(flag::RETURNING);
            return_to_tcp(guard);
            Step::Over
        }
        Rest::Returned => {
            return_to_tcp(guard);
            leaving::ring_progress_thread(guard);
            Step::Waits
        }
        Rest::Kept => {
            conn.clear(flag::RETURNING);
            tell_writer(guard);
            Step::Stays
        }
    }
}

/// The peer does not end its part on the VI: what is there is read there.
pub(super) fn stop_waiting(guard: &Guard<'_>) {
    if leaving::awaits_answer(guard) {
        undelivered::answer(guard, Seen::Impatient, 0);
        tell_writer(guard);
    }
}

/// A keeper has what was unread on the VI ([`crate::rest`]): nothing comes there any more.
pub(super) fn is_kept(guard: &mut Guard<'_>) {
    guard.conn.clear(flag::RETURNING);
    return_to_tcp(guard);
}

/// The direction in which we receive is on TCP for all calls from here on.
fn return_to_tcp(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    conn.set_rx(Rx::Back);
    conn.set(flag::KERNEL_SOCKET);
    conn.clear(flag::FALLING_BACK);
    tell_writer(guard);
    listeners::tell_all(guard);
}
