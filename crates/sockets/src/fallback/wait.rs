//! Waits until connections are back on TCP, or will not be.

use super::coming::COMING;
use super::hand_over::{Keep, PROCESSES, hand_over, hands_over};
use super::patience::{self, Patience};
use super::step::{self, Step, step_or_end};
use super::{Cause, begin, detach, give_up, is_others, take_back};
use crate::conn::{Bell, Guard, Phase, flag};
use crate::stream::returned::DRAIN_NS;
use crate::stream::{ending, failover, leaving, listeners};
use crate::table::Ref;
use crate::{meeting, process};
use core::sync::atomic::Ordering;
use sovia_sync::hazard::Waits;
use sovia_sys::futex;

/// A connection that is coming back: its descriptor, and how long its peer is waited for.
type Coming = (i32, Ref, Patience);

/// What a round of visits has come to.
#[derive(Default)]
struct Round {
    /// Pairs of connections that are back.
    back: Vec<u32>,
    /// Those whose rests are for keepers.
    staying: Vec<Coming>,
    over: Vec<(i32, Ref)>,
    left: Vec<(i32, Ref)>,
}

impl Round {
    /// Whether that connection is to be visited again, in another round.
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

/// The same for many connections. Their peers work on all of them meanwhile, and a peer that is stopped is waited
/// for once.
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
        // Of the last one: of its pair alone it is certain that it stays.
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
        // A peer that does its part is not late, however many there are.
        for (_, at, patience) in &mut coming {
            if round.back.contains(&at.conn.pair.load(Ordering::Relaxed)) {
                *patience = Patience::begin();
            }
        }
    }
    go_on_without(&left, cause);
    give(connections, cause);
}

/// Leaves connections whose peers are stopped to a relay or to the progress thread, until the peers go on.
fn go_on_without(left: &[(i32, Ref)], cause: Cause) {
    match cause {
        _ if left.is_empty() => {}
        // Unread bytes come on TCP then. Until that the new program finds nothing.
        Cause::Exec => {
            let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(left));
        }
        _ => COMING.store(true, Ordering::Relaxed),
    }
}

/// Whether the program, or what becomes of this process, gets ends that rests are read from in the place of its
/// descriptors. A process that starts a program keeps its own descriptors, which the program gets as they are.
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

/// What has those descriptors from here on cannot ask keepers: where one has what is unread, they become ends that it is
/// read from.
pub(crate) fn give(descriptors: &[(i32, Ref)], cause: Cause) {
    if gives_ends(cause)
        && let Some(processes) = PROCESSES.get()
    {
        (processes.give)(descriptors);
    }
}

/// Whether it is most likely the program that gets the connection which uses it, rather than a relative of this process. (A child
/// that becomes a program gets whatever its parent has not closed.)
fn becomes_others(cause: Cause) -> bool {
    match cause {
        Cause::Exec => !process::is_borrowed(),
        Cause::Passed | Cause::PassedOnRecord => true,
        _ => false,
    }
}

/// Visits connections again whose rests are for keepers, with these.
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

/// Waits until a connection is back.
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

/// How far a connection has come.
enum Visit<'w> {
    /// A bell rings when there may be something to do, from this count on.
    Waits(&'w Bell, u32),
    /// It is back: the pair that it was on.
    Back(u32),
    /// What is unread is for a keeper.
    Stays,
    /// It stays, or another thread has gone on with it.
    Settled,
    /// Its peer is stopped, and relatives of this process have the connection as well: it goes on when the peer does.
    Left,
    /// Its peer is stopped, or has died over it: it is the caller's to hand over to a relay.
    HandsOver,
}

/// Whether the peer lives, as far as is known. The end of its socket does not show while TCP has no room for the bytes before it.
fn may_answer(guard: &Guard<'_>, fd: i32) -> bool {
    guard.conn.has(flag::DEAD | flag::REFLECTED) || meeting::peer_is_held(guard.conn, fd)
}

/// Takes a connection a step further. `keep`: what moves its rest to a keeper, once that is known to be wanted.
fn visit<'w>(
    (fd, at, patience): Coming,
    cause: Cause,
    keep: Option<Keep<'_>>,
    waits: &'w Waits,
) -> Visit<'w> {
    let conn = at.conn;
    // Another thread may have gone on, or closed it.
    let Some(mut guard) = at.attached() else { return Visit::Settled };
    let bell = listeners::reader_bell(&guard, waits);
    let before = bell.word().load(Ordering::SeqCst);
    bell.going_to_sleep();
    let mut came = step_or_end(&mut guard, fd);
    if came == Step::Waits && patience.is_used() && !may_answer(&guard, fd) {
        ending::died(&mut guard);
        came = step_or_end(&mut guard, fd);
    }
    if came == Step::Stays && gives_ends(cause) && is_others(conn) {
        // Either they or the program may be the ones that read it.
        match keep {
            None if PROCESSES.get().is_some() => return Visit::Stays,
            Some(keep) if keep(&mut guard, fd) => {
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
        Step::Waits if !patience.is_over(&guard) => Visit::Waits(bell, before),
        Step::Stays | Step::Waits => {
            // Relatives read on, on TCP while the rest of it comes there, or on the VI. A relay would take
            // for this process's descriptors what theirs may be the ones to read.
            let is_left_to_others = !cause.leaves_everything() && is_others(conn);
            if is_left_to_others && becomes_others(cause) && failover::misleads(&guard) {
                // An error is better than other bytes.
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
                // The thread that watches kernel sockets goes on when the peer answers.
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
