//! Rendezvous with a process that already shares a segment with this process. Such a rendezvous needs no message,
//! and not the lock that guards first rendezvous. If earlier connections to the same address had many transfers,
//! the rendezvous begins before the connection's first byte.
//!
//! Before a send, the connector puts a request into the segment's table. When the acceptor's receive returns, the
//! acceptor finds the request, asks the kernel if the requesting process holds the other end, and accepts. The
//! connector sees the answer before its next send or after its next receive. So after one round trip on TCP both
//! directions are on the VI.

use super::attach::{
    Attached, attach, attach_as_acceptor, attach_with_request, find_request, has_requests,
};
use super::history::{FirstOutcome, Key};
use super::permit::permitted;
use super::proof::may_be_on;
use super::{abandon, give_up, history};
use crate::config;
use crate::conn::{ApproachStage, Phase, Role};
use crate::message::Link;
use crate::pair::{self, Progress};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_control::{Reason, Traffic};
use sovia_sys::call;

/// Number of transfers before a rendezvous if no connection has been counted.
const FIRST: u32 = 3;
/// Number of transfers after which a connector withdraws an unanswered request: another process probably holds the
/// other end.
const PATIENCE: u8 = 8;
/// Value of `approach.history` for a connection that is not counted in the connection history.
const NO_HISTORY: u32 = u32::MAX;

/// Result of a step of a rendezvous with a known process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownOutcome {
    /// The connection has its VI, or there is nothing more to do now.
    Done(Attached),
    /// No process that shares a segment with this process could hold the other end.
    Unknown,
}

/// Decides after how many transfers a connection begins its rendezvous, and stores the numbers in the connection.
#[cold]
pub(super) fn prepare(fd: i32, at: Ref) {
    let approach = &at.conn.approach;
    let (mut history, mut known, mut unknown) = (NO_HISTORY, FIRST, FIRST);
    let mut grants = false;
    if let Some(after) = config::meet_after() {
        (known, unknown, grants) = (after, after, after == 0);
    } else if let Some(key) = history_key(fd, at) {
        let mut is_for_later = false;
        if let Some(plan) = history::plan(key) {
            (known, unknown) = (plan.known, plan.unknown);
            // An acceptor does not wait for its turn: its Hello costs little, and nothing if no connector waits for it.
            is_for_later = plan.is_for_later && at.conn.is_connector();
            grants = plan.grants;
        } else if at.conn.is_connector()
            && let Some(after) = history::plan_first()
        {
            known = after;
        }
        unknown = unknown.max(history::least_unknown(key, is_for_later));
        history = key.word();
    }
    approach.grants.store(grants.into(), Ordering::Relaxed);
    approach.known_after.store(known, Ordering::Relaxed);
    approach.unknown_after.store(unknown, Ordering::Relaxed);
    approach.history.store(history, Ordering::Release);
}

/// Returns true if the connector grants the VI to the acceptor together with its request, before the first byte. Then
/// the acceptor can send its first answer on the VI. If the acceptor sends before it looks for requests, the connection
/// stays on TCP. So a grant pays only if most bytes are in the first answer.
///
/// The socket must be fresh, so that no other process has the socket: another process would look for the answer on TCP
/// in vain. The peer must have answered an earlier request. A process that a server forks for one connection rarely
/// answers requests for other connections.
fn grants(at: Ref, pair: u32) -> bool {
    let approach = &at.conn.approach;
    approach.grants.load(Ordering::Relaxed) != 0
        && approach.fresh.load(Ordering::Acquire) != 0
        && pair::get(pair).is_some_and(|pair| pair.answers.load(Ordering::Relaxed))
}

/// Returns the key under which connections to the same address, or from the same listener, are counted.
fn history_key(fd: i32, at: Ref) -> Option<Key> {
    let stored = Key::from_word(at.conn.approach.stored_history.load(Ordering::Relaxed));
    stored.or_else(|| call::socket_name(fd, at.conn.is_connector()).ok().map(Key::of_address))
}

/// Returns the key under which this connection is counted, if it is counted.
fn counted_as(at: Ref) -> Option<Key> {
    match at.conn.approach.history.load(Ordering::Acquire) {
        NO_HISTORY => None,
        word => Key::from_word(word),
    }
}

/// Counts a connection that has ended, with its traffic on the VI. The number of messages received is assumed to be
/// about equal to the number of messages sent.
pub(super) fn ended(at: Ref, on_vi: &Traffic) {
    let Some(key) = counted_as(at) else { return };
    let conn = at.conn;
    let on_tcp = conn.tx_tcp.load(Ordering::Relaxed) + conn.rx_tcp.load(Ordering::Relaxed);
    let transfers = u64::from(conn.transfers.load(Ordering::Relaxed));
    let messages = on_vi.messages_sent;
    let bytes = on_tcp + on_vi.bytes_sent + on_vi.bytes_received;
    history::learn(key, transfers + 2 * messages, bytes);
    // One or two messages do not show how often threads sleep, because the first message often waits until a program
    // has started.
    if messages > 2 {
        history::learn_sleeps(key, conn.sleeps(), messages);
    }
}

/// Records the outcome of a first rendezvous in the connection history.
pub(super) fn note_first(at: Ref, outcome: FirstOutcome) {
    if let Some(key) = counted_as(at) {
        history::learn_first(key, outcome);
    }
}

/// Takes the connector's step: requests a VI from the process that probably holds the other end, or checks for the
/// answer.
pub(super) fn connector(fd: i32, at: Ref, n: u32) -> KnownOutcome {
    const WAIT: KnownOutcome = KnownOutcome::Done(Attached::No);
    let approach = &at.conn.approach;
    match approach.stage() {
        // Do not repeat a search that found no process, unless another connection has completed a segment since
        // then.
        ApproachStage::InVain { segments } if segments == segments_now() => KnownOutcome::Unknown,
        ApproachStage::Idle | ApproachStage::InVain { .. } => {
            // Read the count before the search, so that a segment that is completed during the search leads to
            // another search.
            let in_vain = in_vain();
            let Some(link) = permitted(fd, at) else {
                if n < approach.unknown_after.load(Ordering::Relaxed) {
                    approach.reach(in_vain);
                }
                return WAIT;
            };
            let may = |pair: &pair::Pair| may_be_on(pair, &link, Role::Connector);
            let requested = pair::request_at(link.acceptor, may, true, &link.encode());
            if let Some(pair::Requested { pair, vi }) = requested {
                approach.reach(ApproachStage::Requested { pair, vi, at: n as u8 & 0x7f });
                if n != 0 || !grants(at, pair) {
                    return WAIT;
                }
                let attached = attach_with_request(fd, at, pair, vi);
                if attached != Attached::No {
                    approach.reach(ApproachStage::Idle);
                } else if at.conn.phase() == Phase::Plain {
                    closed(at);
                }
                return KnownOutcome::Done(attached);
            }
            approach.reach(in_vain);
            KnownOutcome::Unknown
        }
        ApproachStage::Requested { pair: index, vi, at: since } => {
            let Some(pair) = pair::get(index) else {
                approach.reach(in_vain());
                return KnownOutcome::Unknown;
            };
            match pair.progress(vi) {
                Progress::Accepted => {
                    pair.answers.store(true, Ordering::Relaxed);
                    let attached = attach(fd, at, index, vi);
                    if attached != Attached::No {
                        approach.reach(ApproachStage::Idle);
                    } else if at.conn.phase() == Phase::Plain {
                        // The other end has accepted the request, but this end cannot use the VI: leave the VI.
                        closed(at);
                    }
                    KnownOutcome::Done(attached)
                }
                Progress::Gone => {
                    pair.free(vi);
                    approach.reach(ApproachStage::Idle);
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

/// Returns the lowest seven bits of the number of pairs that have become complete so far.
fn segments_now() -> u8 {
    pair::completed() as u8 & 0x7f
}

fn in_vain() -> ApproachStage {
    ApproachStage::InVain { segments: segments_now() }
}

/// Returns true if a known segment may hold a request for this connection. Makes no system call.
pub(super) fn is_asked_for(at: Ref) -> bool {
    let known = at.conn.approach.link.load(Ordering::Relaxed);
    has_requests(|link| known == 0 || hash(link) == known)
}

/// Takes the acceptor's step: accepts the request for this connection, if there is one.
pub(super) fn acceptor(fd: i32, at: Ref) -> KnownOutcome {
    if !is_asked_for(at) {
        return KnownOutcome::Unknown;
    }
    let Some(link) = permitted(fd, at) else { return KnownOutcome::Done(Attached::No) };
    at.conn.approach.link.store(hash(&link), Ordering::Relaxed);
    match find_request(&link) {
        Some((pair, request)) => KnownOutcome::Done(attach_as_acceptor(fd, at, &pair, request)),
        None => KnownOutcome::Unknown,
    }
}

/// Returns true if the connection has an unanswered request to a peer that has died.
pub(super) fn has_asked_dead(at: Ref) -> bool {
    let ApproachStage::Requested { pair, .. } = at.conn.approach.stage() else { return false };
    pair::get(pair).is_some_and(|pair| !pair.peer_is_there())
}

/// Withdraws the request of a connection that does not need the VI, because it is closed, stays on TCP or has lost
/// its peer.
pub(super) fn closed(at: Ref) {
    if let ApproachStage::Requested { pair, vi, .. } = at.conn.approach.stage() {
        at.conn.approach.reach(ApproachStage::Idle);
        abandon(pair, vi);
    }
}

/// Returns a hash of a connection's addresses, which is never 0.
fn hash(link: &Link) -> u32 {
    let bytes = link.encode();
    // Leave out the socket's cookie, because the two ends have different cookies.
    bytes[..40].chunks_exact(8).fold(1u32, |hash, chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = u64::from_le_bytes(word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash.rotate_left(5) ^ (word >> 32) as u32).wrapping_mul(0x85eb_ca6b)
    }) | 1
}
