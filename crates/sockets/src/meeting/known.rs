//! Meeting a process that shares a segment already: without a message, without the lock of first
//! meetings, and before the connection's first byte if connections like it go on for long.
//!
//! The connector puts a request into the segment's table before a send; the acceptor finds it when
//! its receive returns, asks the kernel whether the request's maker holds the other end, and accepts;
//! the connector sees that before its next send or after its next receive. So after one round trip on
//! TCP both directions are on the VI.

use super::attach::{
    Attached, attach, attach_as_acceptor, attach_with_request, find_request, has_requests,
};
use super::permit::permitted;
use super::proof::may_be_on;
use super::{give_up, history};
use crate::config;
use crate::conn::{Phase, Role, Stage};
use crate::message::Link;
use crate::pair::{self, Progress};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sys::call;

/// Transfers after which to meet if nothing is known of such connections.
const FIRST: u32 = 3;
/// Transfers after which a request that has not been answered is taken back: the other end is another
/// process's.
const PATIENCE: u8 = 8;
/// In the place of a history: none is kept.
const NO_HISTORY: u32 = u32::MAX;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// So, or nothing more is to be done now.
    Done(Attached),
    /// No process is known that could have the other end.
    Unknown,
}

/// Decides when a candidate is to meet.
#[cold]
pub(super) fn prepare(fd: i32, at: Ref) {
    let approach = &at.conn.approach;
    let (mut place, mut known, mut unknown) = (NO_HISTORY, FIRST, FIRST);
    if let Some(after) = config::meet_after() {
        (known, unknown) = (after, after);
    } else if let Some(of) = counted_at(fd, at) {
        if let Some(plan) = history::plan(of) {
            (known, unknown) = (plan.known, plan.unknown);
        }
        unknown = unknown.max(history::least_unknown(of));
        place = of + 1;
    }
    approach.known_after.store(known, Ordering::Relaxed);
    approach.unknown_after.store(unknown, Ordering::Relaxed);
    approach.history.store(place, Ordering::Release);
}

/// Returns true if a connector grants its VI with the request, where the user says so. On a fresh socket alone: another process
/// that had it would look for the answer on TCP, and in vain. And to a process that takes requests alone: one that a server
/// has forked for another connection hardly does.
fn grants(at: Ref, pair: u32) -> bool {
    config::meet_after() == Some(0)
        && at.conn.approach.fresh.load(Ordering::Acquire) != 0
        && pair::get(pair).is_some_and(|pair| pair.answers.load(Ordering::Relaxed))
}

/// Where connections like this one are counted.
fn counted_at(fd: i32, at: Ref) -> Option<u32> {
    let told = at.conn.approach.told.load(Ordering::Relaxed).checked_sub(1);
    told.or_else(|| call::socket_name(fd, at.conn.is_connector()).ok().map(history::place))
}

/// A connection has ended after so many transfers at this end over TCP and messages each way on the VI: those
/// like it may go the same way.
pub(super) fn ended(at: Ref, transfers: u32, messages: u64) {
    match at.conn.approach.history.load(Ordering::Acquire) {
        0 | NO_HISTORY => {}
        place => {
            let on_vi = u32::try_from(2 * messages).unwrap_or(u32::MAX);
            history::learn(place - 1, transfers.saturating_add(on_vi));
            // Of one or two nothing can be told: the first often waits for a program that begins.
            if messages > 2 {
                history::learn_sleeps(place - 1, at.conn.sleeps(), messages);
            }
        }
    }
}

/// A first meeting has been refused, or has led to a VI.
pub(super) fn note_first(at: Ref, is_refused: bool) {
    match at.conn.approach.history.load(Ordering::Acquire) {
        0 | NO_HISTORY => {}
        place => history::learn_refusal(place - 1, is_refused),
    }
}

/// Connector: asks the process that is likely to have the other end, and looks for its answer.
pub(super) fn connector(fd: i32, at: Ref, n: u32) -> Step {
    const WAIT: Step = Step::Done(Attached::No);
    let approach = &at.conn.approach;
    match approach.stage() {
        // Another connection may have brought a segment meanwhile.
        Stage::InVain { segments } if segments == segments_now() => Step::Unknown,
        Stage::Idle | Stage::InVain { .. } => {
            let known_after = approach.known_after.load(Ordering::Relaxed);
            let is_time = n >= approach.unknown_after.load(Ordering::Relaxed);
            if !is_time && n.wrapping_sub(known_after) > 1 {
                return WAIT;
            }
            let Some(link) = permitted(fd, at) else { return WAIT };
            // Read first: what comes later is a reason to look again.
            let segments = segments_now();
            let may = |pair: &pair::Pair| may_be_on(pair, &link, Role::Connector);
            let requested = pair::request_at(link.acceptor, may, true, &link.encode());
            if let Some(pair::Requested { pair, vi }) = requested {
                approach.reach(Stage::Requested { pair, vi, at: n as u8 & 0x7f });
                if n != 0 || !grants(at, pair) {
                    return WAIT;
                }
                let attached = attach_with_request(fd, at, pair, vi);
                if attached != Attached::No {
                    approach.reach(Stage::Idle);
                } else if at.conn.phase() == Phase::Plain {
                    closed(at);
                }
                return Step::Done(attached);
            }
            if is_time {
                approach.reach(Stage::InVain { segments });
                return Step::Unknown;
            }
            WAIT
        }
        Stage::Requested { pair: index, vi, at: since } => {
            let Some(pair) = pair::get(index) else {
                approach.reach(in_vain());
                return Step::Unknown;
            };
            match pair.progress(vi) {
                Progress::Accepted => {
                    pair.answers.store(true, Ordering::Relaxed);
                    let attached = attach(fd, at, index, vi);
                    if attached != Attached::No {
                        approach.reach(Stage::Idle);
                    } else if at.conn.phase() == Phase::Plain {
                        // The other end has it, and this one leaves it.
                        closed(at);
                    }
                    Step::Done(attached)
                }
                Progress::Gone => {
                    pair.free(vi);
                    approach.reach(Stage::Idle);
                    give_up(at, Reason::PeerPlain);
                    WAIT
                }
                Progress::Pending => {
                    let waited = (n as u8).wrapping_sub(since) & 0x7f;
                    if (waited >= PATIENCE || !pair.peer_seems_there()) && pair.withdraw(vi) {
                        approach.reach(in_vain());
                    }
                    WAIT
                }
            }
        }
    }
}

/// The lowest bits of how many segments have been there to request in.
fn segments_now() -> u8 {
    pair::completed() as u8 & 0x7f
}

fn in_vain() -> Stage {
    Stage::InVain { segments: segments_now() }
}

/// Returns true if a process asks for this connection, or may do so. Makes no system call.
pub(super) fn is_asked_for(at: Ref) -> bool {
    let known = at.conn.approach.link.load(Ordering::Relaxed);
    has_requests(|link| known == 0 || hash(link) == known)
}

/// Acceptor: takes the request for this connection, if there is one.
pub(super) fn acceptor(fd: i32, at: Ref) -> Step {
    if !is_asked_for(at) {
        return Step::Unknown;
    }
    let Some(link) = permitted(fd, at) else { return Step::Done(Attached::No) };
    at.conn.approach.link.store(hash(&link), Ordering::Relaxed);
    match find_request(&link) {
        Some((pair, request)) => Step::Done(attach_as_acceptor(fd, at, &pair, request)),
        None => Step::Unknown,
    }
}

/// Returns true while a connection asks a peer that has died.
pub(super) fn has_asked_dead(at: Ref) -> bool {
    let Stage::Requested { pair, .. } = at.conn.approach.stage() else { return false };
    pair::get(pair).is_some_and(|pair| !pair.peer_is_there())
}

/// A candidate goes, or its peer: so does its request.
pub(super) fn closed(at: Ref) {
    if let Stage::Requested { pair, vi, .. } = at.conn.approach.stage() {
        at.conn.approach.reach(Stage::Idle);
        if let Some(pair) = pair::get(pair) {
            pair.abandon(vi);
        }
    }
}

/// A connection's addresses as one number, which is never 0.
fn hash(link: &Link) -> u32 {
    let bytes = link.encode();
    // Without the cookie, which is the speaker's.
    bytes[..40].chunks_exact(8).fold(1u32, |hash, chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = u64::from_le_bytes(word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash.rotate_left(5) ^ (word >> 32) as u32).wrapping_mul(0x85eb_ca6b)
    }) | 1
}
