//! Waits until connections are back on TCP, or cannot return.

use super::coming::COMING;
use super::hand_over::{Keep, PROCESSES, hand_over, hands_over};
use super::patience::{self, Patience};
use super::step::{self, Step, step_or_end};
use super::{Cause, begin, detach, give_up, is_others, take_back};
use crate::conn::{Bell, Guard, Phase, flag};
use crate::stream::returned::{self, DRAIN_NS, Debt};
use crate::stream::{ending, failover, leaving, listeners};
use crate::table::{self, Ref};
use crate::{meeting, process};
use core::sync::atomic::Ordering;
use sovia_proto::path::{Await, Rx};
use sovia_sync::hazard::Waits;
use sovia_sys::futex;

/// A connection that is falling back: its descriptor, and how long a thread waits for its peer.
type Coming = (i32, Ref, Patience);

/// Result of one round, which visits each connection once.
#[derive(Default)]
struct Round {
    /// Pairs of connections that are back on TCP.
    back: Vec<u32>,
    /// Connections whose unread bytes must go to keepers.
    staying: Vec<Coming>,
    over: Vec<(i32, Ref)>,
    left: Vec<(i32, Ref)>,
}

impl Round {
    /// Records the result of a visit. Returns true if another round must visit the connection again.
    fn goes_on(&mut self, coming: Coming, visit: &Visit<'_>) -> bool {
        let (fd, at, _) = coming;
        match *visit {
            Visit::Waits(..) => return true,
            Visit::Back(pair) => self.back.push(pair),
            Visit::Stays => self.staying.push(coming),
            Visit::Settled => {}
            Visit::Left => self.left.push((fd, at)),
            Visit::HandsOver => self.over.push((fd, at)),
        }
        false
    }
}

/// Moves many connections back to TCP, like [`super::now`]. Their peers work on all connections at the same time, and
/// a stopped peer is waited for only once.
pub(crate) fn all(connections: &[(i32, Ref)], cause: Cause) {
    let mut coming: Vec<Coming> = Vec::new();
    for &(fd, at) in connections {
        if at.conn.phase() != Phase::Attached {
            take_back(fd, at, cause);
        } else if begin(fd, at, cause) {
            coming.push((fd, at, Patience::begin()));
        }
    }
    let mut left = Vec::new();
    while !coming.is_empty() {
        let mut round = Round::default();
        let waits = Waits::begin(false);
        // The thread sleeps only on the futex word of the last connection, for at most [`DRAIN_NS`].
        let mut last = None;
        coming.retain(|&one| {
            let visit = visit(one, cause, None, &waits);
            last = match visit {
                Visit::Waits(bell, before) => Some((bell, before)),
                _ => None,
            };
            round.goes_on(one, &visit)
        });
        if let Some((bell, before)) = last
            && round.over.is_empty()
            && round.staying.is_empty()
        {
            let _ = futex::wait(bell.word(), before, Some(DRAIN_NS));
        }
        drop(waits);
        let staying = core::mem::take(&mut round.staying);
        visit_with_keepers(&staying, cause, |one, visit| {
            if round.goes_on(one, &visit) {
                coming.push(one);
            }
        });
        round.over.into_iter().for_each(|(fd, at)| hand_over(fd, at));
        left.append(&mut round.left);
        // A peer that makes progress gets more time, however many connections it has.
        for (_, at, patience) in &mut coming {
            if round.back.contains(&at.conn.pair.load(Ordering::Relaxed)) {
                *patience = Patience::begin();
            }
        }
    }
    go_on_without(&left, cause);
    give(connections, cause);
}

/// Leaves connections whose peers are stopped to a process of the library or to the progress thread, until the peers
/// continue.
fn go_on_without(left: &[(i32, Ref)], cause: Cause) {
    match cause {
        _ if left.is_empty() => {}
        // The unread bytes then arrive on TCP. Until then the new program finds nothing.
        Cause::Exec => {
            let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(left));
        }
        _ => COMING.store(true, Ordering::Relaxed),
    }
}

/// Returns true if descriptors must become the ends of Unix sockets from which unread bytes are read. Such
/// descriptors go to another program, or this process can no longer query keepers. A process that spawns a program
/// keeps its own descriptors, and the program gets them unchanged.
fn gives_ends(cause: Cause) -> bool {
    match cause {
        Cause::Exec
        | Cause::Passed
        | Cause::PassedOnRecord
        | Cause::Credentials
        | Cause::Filter => true,
        Cause::Spawn => process::is_borrowed(),
        _ => false,
    }
}

/// Replaces descriptors by ends from which unread bytes are read, for connections that have a keeper. From now on the
/// holder of the descriptors cannot query keepers.
pub(crate) fn give(descriptors: &[(i32, Ref)], cause: Cause) {
    if gives_ends(cause)
        && let Some(processes) = PROCESSES.get()
    {
        (processes.give)(descriptors);
    }
}

/// Returns true if the program that gets the connection will most likely use it, and not a relative of this process.
/// (A child that executes a program passes on every descriptor that its parent has not closed.)
fn becomes_others(cause: Cause) -> bool {
    match cause {
        Cause::Exec => !process::is_borrowed(),
        Cause::Passed | Cause::PassedOnRecord => true,
        _ => false,
    }
}

/// Visits connections whose unread bytes must go to keepers, with a function that moves these bytes.
fn visit_with_keepers(staying: &[Coming], cause: Cause, mut takes: impl FnMut(Coming, Visit<'_>)) {
    let Some(processes) = PROCESSES.get().filter(|_| !staying.is_empty()) else { return };
    let connections: Vec<(i32, Ref)> = staying.iter().map(|&(fd, at, _)| (fd, at)).collect();
    let waits = Waits::begin(false);
    let mut one_by_one = staying.iter();
    (processes.with_keepers)(&connections, &mut |keep| {
        if let Some(&one) = one_by_one.next() {
            takes(one, visit(one, cause, Some(keep), &waits));
        }
    });
}

/// Waits until a connection is back on TCP, or cannot return.
pub(super) fn finish(fd: i32, at: Ref, cause: Cause, patience: Patience) {
    let one = (fd, at, patience);
    let mut goes_on = true;
    while goes_on {
        let mut round = Round::default();
        let waits = Waits::begin(false);
        let visit = visit(one, cause, None, &waits);
        goes_on = round.goes_on(one, &visit);
        if let Visit::Waits(bell, before) = visit {
            let _ = futex::wait(bell.word(), before, Some(DRAIN_NS));
        }
        drop(waits);
        let staying = core::mem::take(&mut round.staying);
        visit_with_keepers(&staying, cause, |one, visit| goes_on = round.goes_on(one, &visit));
        round.over.into_iter().for_each(|(fd, at)| hand_over(fd, at));
        go_on_without(&round.left, cause);
    }
}

/// Result of a visit to a connection.
enum Visit<'w> {
    /// The futex word differs from this count as soon as there may be something to do.
    Waits(&'w Bell, u32),
    /// The connection is back on TCP. Contains the pair that it was on.
    Back(u32),
    /// The unread bytes must go to a keeper.
    Stays,
    /// The connection stays on its VI, or another thread has continued the fallback.
    Settled,
    /// The fallback continues when the peer acts. The peer is stopped, and relatives of this process share the connection. Or the
    /// peer puts unread bytes on TCP, and this process reads them there.
    Left,
    /// The peer is stopped, or died during the fallback. The caller must hand the connection over to a relay.
    HandsOver,
}

/// Returns true if only the peer has something left to do: it puts unread bytes of the VI on TCP, where calls receive them from now
/// on.
fn is_arriving(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.rx() == Rx::Back
        && leaving::awaits_on_tcp(guard) != Await::Nothing
        && returned::debt(guard, fd) == Debt::None
}

/// Returns true unless the kernel reports that no process holds the other end of the connection. While TCP has no
/// room for earlier bytes, the peer's FIN does not show on this socket.
fn may_answer(guard: &Guard<'_>, fd: i32) -> bool {
    guard.conn.has(flag::DEAD | flag::REFLECTED) || meeting::peer_is_held(guard.conn, fd)
}

/// Moves a connection one step further. `keep` moves the unread bytes to a keeper; `None` until a keeper is needed.
fn visit<'w>(
    (named, at, patience): Coming,
    cause: Cause,
    keep: Option<Keep<'_>>,
    waits: &'w Waits,
) -> Visit<'w> {
    let conn = at.conn;
    // Another thread may have continued the fallback or closed the connection.
    let Some(mut guard) = at.attached() else { return Visit::Settled };
    let fd = table::current(named, at);
    let bell = listeners::reader_bell(&guard, waits);
    let before = bell.word().load(Ordering::SeqCst);
    bell.going_to_sleep();
    let mut came = step_or_end(&mut guard, fd);
    if came == Step::Waits && patience.is_used() && !may_answer(&guard, fd) {
        ending::died(&mut guard);
        came = step_or_end(&mut guard, fd);
    }
    if came == Step::Stays && gives_ends(cause) && is_others(conn) {
        // Either a relative or the program may read these bytes.
        match keep {
            None if PROCESSES.get().is_some() => return Visit::Stays,
            Some(keep) if keep(&mut guard, named) => {
                step::is_kept(&mut guard);
                came = step_or_end(&mut guard, fd);
            }
            _ => {}
        }
    }
    match came {
        Step::Over => {
            patience::answered(&guard);
            let pair = conn.pair.load(Ordering::Relaxed);
            drop(guard);
            detach(at);
            Visit::Back(pair)
        }
        // Calls read these bytes on TCP as they arrive, and TCP may have no room for all of them before the program reads.
        Step::Waits if cause.stays_here() && is_arriving(&mut guard, fd) => Visit::Left,
        Step::Waits if !patience.is_over(&guard) => Visit::Waits(bell, before),
        Step::Stays | Step::Waits => {
            // Relatives continue to read: on TCP while the remaining bytes arrive there, or on the VI. A relay would
            // take bytes for this process's descriptors that a relative may have to read.
            let is_left_to_others = !cause.leaves_everything() && is_others(conn);
            if is_left_to_others && becomes_others(cause) && failover::misleads(&guard) {
                // An error is better than wrong bytes.
                failover::end(&guard, fd);
                drop(guard);
                detach(at);
                return Visit::Settled;
            }
            if is_left_to_others && (came == Step::Stays || !leaving::awaits_answer(&guard)) {
                give_up(&mut guard, came);
                return Visit::Settled;
            }
            if is_left_to_others {
                // The progress thread continues when the peer answers.
                if process::is_borrowed() {
                    COMING.store(true, Ordering::Relaxed);
                    return Visit::Settled;
                }
                return Visit::Left;
            }
            if !hands_over(conn) {
                return Visit::Waits(bell, before);
            }
            step::stop_waiting(&guard);
            Visit::HandsOver
        }
    }
}
