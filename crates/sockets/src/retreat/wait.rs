//! Waits until connections are back on TCP, or will not be.

use super::coming::COMING;
use super::hand_over::{PROCESSES, hand_over, hands_over};
use super::patience::{self, Patience};
use super::step::{self, Step, step_or_end};
use super::{Cause, begin, detach, give_up, is_others, take_back};
use crate::conn::{Bell, Phase};
use crate::process;
use crate::stream::returned::PUMP_NS;
use crate::stream::{leaving, listeners};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_sync::hazard::Waits;
use sovia_sys::futex;

/// The same for many connections. Their peers work on all of them meanwhile, and a peer that is stopped is waited
/// for once.
pub(crate) fn all(connections: &[(i32, Ref)], cause: Cause) {
    let mut coming = Vec::new();
    for &(fd, at) in connections {
        if at.conn.phase() != Phase::Attached {
            take_back(fd, at, cause);
        } else if begin(fd, at, cause) {
            coming.push((fd, at, Patience::begin()));
        }
    }
    let mut left = Vec::new();
    while !coming.is_empty() {
        let (mut back, mut over) = (Vec::new(), Vec::new());
        let waits = Waits::begin(false);
        // Of the last one: of its pair alone it is certain that it stays.
        let mut last = None;
        coming.retain(|&(fd, at, patience)| {
            last = None;
            match visit(fd, at, cause, patience, &waits) {
                Visit::Waits(bell, before) => {
                    last = Some((bell, before));
                    return true;
                }
                Visit::Back(pair) => back.push(pair),
                Visit::Settled => {}
                Visit::Left => left.push((fd, at)),
                Visit::HandsOver => over.push((fd, at)),
            }
            false
        });
        if let Some((bell, before)) = last
            && over.is_empty()
        {
            let _ = futex::wait(bell.word(), before, Some(PUMP_NS));
        }
        drop(waits);
        over.into_iter().for_each(|(fd, at)| hand_over(fd, at));
        // A peer that does its part is not late, however many there are.
        for (_, at, patience) in &mut coming {
            if back.contains(&at.conn.pair.load(Ordering::Relaxed)) {
                *patience = Patience::begin();
            }
        }
    }
    match cause {
        // The peer goes on some time, and what is unread comes on TCP then. Until that the new program finds nothing.
        Cause::Exec if !left.is_empty() => {
            let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(&left));
        }
        _ if !left.is_empty() => COMING.store(true, Ordering::Relaxed),
        _ => {}
    }
    give(connections, cause);
}

/// Whether the program, or what becomes of this process, gets ends that rests are read from in the place of its
/// descriptors. A process that starts a program keeps its own descriptors, which the program gets as they are.
fn gives_ends(cause: Cause) -> bool {
    match cause {
        Cause::Exec | Cause::Passed | Cause::Credentials | Cause::Filter => true,
        Cause::Spawn => process::is_borrowed(),
        _ => false,
    }
}

/// What has those descriptors from here on cannot ask keepers: where one has what is unread, they become ends that it is
/// read from.
pub(crate) fn give(descriptors: &[(i32, Ref)], cause: Cause) {
    if gives_ends(cause)
        && descriptors.iter().any(|(_, at)| at.conn.has_keeper())
        && let Some(processes) = PROCESSES.get()
    {
        (processes.give)(descriptors);
    }
}

/// Waits until a connection is back.
pub(super) fn finish(fd: i32, at: Ref, cause: Cause, patience: Patience) {
    let waits = Waits::begin(false);
    loop {
        match visit(fd, at, cause, patience, &waits) {
            Visit::Waits(bell, before) => {
                let _ = futex::wait(bell.word(), before, Some(PUMP_NS));
            }
            Visit::HandsOver => {
                drop(waits);
                return hand_over(fd, at);
            }
            Visit::Back(_) | Visit::Settled | Visit::Left => return,
        }
    }
}

/// How far a connection has come.
enum Visit<'w> {
    /// A bell rings when there may be something to do, from this count on.
    Waits(&'w Bell, u32),
    /// It is back: the pair that it was on.
    Back(u32),
    /// It stays, or another thread has gone on with it.
    Settled,
    /// Its peer is stopped, and relatives of this process have the connection as well: it goes on when the peer does.
    Left,
    /// Its peer is stopped, or has died over it: it is the caller's to hand over to a relay.
    HandsOver,
}

/// Takes a connection a step further.
fn visit<'w>(fd: i32, at: Ref, cause: Cause, patience: Patience, waits: &'w Waits) -> Visit<'w> {
    let conn = at.conn;
    // Another thread may have gone on, or closed it.
    let Some(mut guard) = at.attached() else { return Visit::Settled };
    let bell = listeners::reader_bell(&guard, waits);
    let before = bell.word().load(Ordering::SeqCst);
    bell.going_to_sleep();
    let mut came = step_or_end(&mut guard, fd);
    if came == Step::Stays && gives_ends(cause) && is_others(conn) {
        // Either they or the program may be the ones that read it.
        if PROCESSES.get().is_some_and(|processes| (processes.keep)(&mut guard, fd, at)) {
            step::is_kept(&mut guard);
            came = step_or_end(&mut guard, fd);
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
            if is_left_to_others && (came == Step::Stays || !leaving::awaits_answer(&guard)) {
                give_up(&mut guard, came);
                return Visit::Settled;
            }
            if is_left_to_others {
                // The thread that watches anchors goes on when the peer answers.
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
