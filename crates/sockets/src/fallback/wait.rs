//! Waits until connections are back on TCP, or cannot return to TCP.

use super::hand_over::{PROCESSES, give_unread, hand_over, hands_over, replace_by_error};
use super::patience::{self, Patience};
use super::pending::PENDING;
use super::step::{self, FallbackState, step_or_end};
use super::{Cause, begin, detach, give_up, is_others, take_back};
use crate::conn::{Guard, Phase, WakeWord, flag};
use crate::stream::returned::{self, DRAIN_NS, Debt};
use crate::stream::{self, ending, failover, leaving, listeners};
use crate::table::{self, Ref};
use crate::{kernel_sockets, process, rendezvous};
use core::sync::atomic::Ordering;
use sovia_proto::path::{Await, Rx};
use sovia_sync::hazard::Waits;
use sovia_sys::{call, futex};

/// A connection that is falling back: a descriptor, the connection, and the start of the wait for the peer.
type PendingFallback = (i32, Ref, Patience);

/// Result of one round, in which a thread visits each falling-back connection once.
#[derive(Default)]
struct Round {
    /// Indices of the pairs whose connections have returned to TCP in this round.
    back: Vec<u32>,
    /// Connections whose unread bytes the new program of a child of `vfork` must get.
    given: Vec<Ref>,
    /// Connections whose unread bytes stay for relatives.
    kept_from_program: Vec<Ref>,
    over: Vec<(i32, Ref)>,
    left: Vec<(i32, Ref)>,
}

impl Round {
    /// Records the result of a visit. Returns true if another round must visit the connection again.
    fn goes_on(&mut self, pending: PendingFallback, visit: &Visit<'_>) -> bool {
        let (fd, at, _) = pending;
        match *visit {
            Visit::Waits(..) => return true,
            Visit::Back(pair) => self.back.push(pair),
            Visit::Gives => add_once(&mut self.given, at),
            Visit::Keeps => add_once(&mut self.kept_from_program, at),
            Visit::Settled => {}
            Visit::Left => self.left.push((fd, at)),
            Visit::HandsOver => self.over.push((fd, at)),
        }
        false
    }
}

fn add_once(connections: &mut Vec<Ref>, at: Ref) {
    if !connections.iter().any(|other| other.same(at)) {
        connections.push(at);
    }
}

/// Moves many connections back to TCP, like [`super::now`] for each connection. The peers work on all connections
/// at the same time, and the time limit for a stopped peer passes only once.
pub(crate) fn all(connections: &[(i32, Ref)], cause: Cause) {
    let mut pending: Vec<PendingFallback> = Vec::new();
    for &(fd, at) in connections {
        if at.conn.phase() != Phase::Attached {
            take_back(fd, at, cause);
        } else if begin(fd, at, cause) {
            pending.push((fd, at, Patience::begin()));
        }
    }
    let mut left = Vec::new();
    while !pending.is_empty() {
        let mut round = Round::default();
        let waits = Waits::begin(false);
        // Sleep only on the futex word of the last connection, for at most [`DRAIN_NS`]. Then visit all connections
        // again.
        let mut last = None;
        pending.retain(|&one| {
            let visit = visit(one, cause, is_for_program(connections, one.1), &waits);
            last = match visit {
                Visit::Waits(wake_word, before) => Some((wake_word, before)),
                _ => None,
            };
            round.goes_on(one, &visit)
        });
        if let Some((wake_word, before)) = last
            && round.over.is_empty()
        {
            let _ = futex::wait(wake_word.word(), before, Some(DRAIN_NS));
        }
        drop(waits);
        let descriptors_of = |at: Ref| {
            let same = connections.iter().filter(move |(_, other)| other.same(at));
            same.map(|(fd, _)| *fd)
        };
        for at in round.given {
            give_unread(descriptors_of(at), at);
        }
        for at in round.kept_from_program {
            replace_by_error(descriptors_of(at));
        }
        round.over.into_iter().for_each(|(fd, at)| hand_over(fd, at));
        left.append(&mut round.left);
        // Restart the time limit of each peer that has moved a connection back in this round.
        for (_, at, patience) in &mut pending {
            if round.back.contains(&at.conn.pair.load(Ordering::Relaxed)) {
                *patience = Patience::begin();
            }
        }
    }
    go_on_without(&left, cause);
}

/// Leaves connections whose peers are stopped to a process of the library or to the progress thread. That process
/// or thread continues the fallbacks once the peers continue.
fn go_on_without(left: &[(i32, Ref)], cause: Cause) {
    match cause {
        _ if left.is_empty() => {}
        // The new program finds the unread bytes on TCP once the peer has continued, and no bytes before.
        Cause::Exec => {
            let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(left));
        }
        _ => go_on_in_progress_thread(),
    }
}

/// Returns true if the program that gets the connection will most likely use the connection, rather than a relative
/// of this process. A child of `vfork` passes to its program every descriptor that its parent has not closed, so
/// the child's exec does not count.
fn becomes_others(cause: Cause) -> bool {
    is_for_other_programs(cause) && !(cause == Cause::Exec && process::is_borrowed())
}

/// Returns true if another program or process gets the connection, which may be the one that reads the unread bytes.
fn is_for_other_programs(cause: Cause) -> bool {
    matches!(cause, Cause::Exec | Cause::Passed | Cause::PassedOnRecord)
}

/// Waits until one connection is back on TCP, or cannot return to TCP.
pub(super) fn finish(fd: i32, at: Ref, cause: Cause, patience: Patience) {
    let one = (fd, at, patience);
    let mut goes_on = true;
    while goes_on {
        let mut round = Round::default();
        let waits = Waits::begin(false);
        let visit = visit(one, cause, true, &waits);
        goes_on = round.goes_on(one, &visit);
        if let Visit::Waits(wake_word, before) = visit {
            let _ = futex::wait(wake_word.word(), before, Some(DRAIN_NS));
        }
        drop(waits);
        round.over.into_iter().for_each(|(fd, at)| hand_over(fd, at));
        go_on_without(&round.left, cause);
    }
}

/// Result of a visit to a connection.
enum Visit<'w> {
    /// The fallback must wait. The futex word changes from this value as soon as a visit may have something to do.
    Waits(&'w WakeWord, u32),
    /// The connection is back on TCP. Contains the index of the pair that the connection was on.
    Back(u32),
    /// The program of a child of `vfork` must get the unread bytes.
    Gives,
    /// The unread bytes stay on the VI for relatives, and the program must not take the end of TCP for the end of the
    /// stream.
    Keeps,
    /// The connection stays on its VI, or another thread has continued the fallback.
    Settled,
    /// The fallback continues when the peer acts. Either the peer is stopped, and relatives of this process share the
    /// connection. Or the peer puts unread bytes on TCP, and this process reads the bytes there.
    Left,
    /// The peer is stopped, or died during the fallback. The caller must hand the connection over to a relay.
    HandsOver,
}

/// Returns true if only the peer has something left to do, and TCP may have no room until the program reads. The peer
/// puts unread bytes of the VI on TCP, and from now on calls receive these bytes there. While few bytes have arrived,
/// the caller waits: the program may know of the others, and the kernel's call must find them.
fn is_arriving(guard: &mut Guard<'_>, fd: i32) -> bool {
    let are_many = || {
        let buffer =
            call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(i32::MAX);
        call::bytes_unread(fd).is_ok_and(|unread| unread >= buffer.max(0) as usize / 4)
    };
    guard.conn.rx() == Rx::Back
        && leaving::awaits_on_tcp(guard) != Await::Nothing
        && returned::debt(guard, fd) == Debt::None
        && are_many()
}

/// Returns true unless the kernel reports that no process holds the other end of the connection. The peer's FIN may
/// be missing on this socket: the FIN does not arrive while TCP has no room for earlier bytes.
fn may_answer(guard: &Guard<'_>, fd: i32) -> bool {
    guard.conn.has(flag::DEAD | flag::REFLECTED) || rendezvous::peer_is_held(guard.conn, fd)
}

/// Returns the result of a visit that leaves the rest of the fallback to the peer. In a child of `vfork`, the parent's
/// progress thread continues.
fn left<'w>() -> Visit<'w> {
    if process::is_borrowed() {
        go_on_in_progress_thread();
        return Visit::Settled;
    }
    Visit::Left
}

/// Makes the progress thread continue fallbacks. The program may make no call for a long time.
fn go_on_in_progress_thread() {
    PENDING.store(true, Ordering::Relaxed);
    kernel_sockets::nudge();
}

/// Returns true if a program that gets these connections will most likely read this one: as its standard input, output
/// or error. A connection with a higher descriptor has most likely been passed on by mistake.
fn is_for_program(connections: &[(i32, Ref)], at: Ref) -> bool {
    connections.iter().any(|(fd, other)| other.same(at) && (0..=2).contains(fd))
}

/// Takes one step of a connection's fallback. The program or process that gets the connection may read the unread
/// bytes, or relatives that share the connection. A child of `vfork` can start no relay that lends the bytes to the
/// program. So its program gets the bytes if `is_for_program` is true, and the relatives get them otherwise.
fn visit<'w>(
    (named, at, patience): PendingFallback,
    cause: Cause,
    is_for_program: bool,
    waits: &'w Waits,
) -> Visit<'w> {
    let conn = at.conn;
    // Without a guard, the connection has no VI here any more: another thread has ended the fallback or closed the
    // connection.
    let Some(mut guard) = at.attached() else { return Visit::Settled };
    let fd = table::current(named, at);
    let wake_word = listeners::reader_wake_word(&guard, waits);
    let before = wake_word.word().load(Ordering::SeqCst);
    wake_word.going_to_sleep();
    let mut came = step_or_end(&mut guard, fd);
    if came == FallbackState::Waits && patience.is_used() && !may_answer(&guard, fd) {
        ending::died(&mut guard);
        came = step_or_end(&mut guard, fd);
    }
    match came {
        FallbackState::Over => {
            patience::answered(&guard);
            let pair = conn.pair.load(Ordering::Relaxed);
            drop(guard);
            detach(fd, at);
            Visit::Back(pair)
        }
        // The program, or the process that gets the connection, reads these bytes on TCP as they arrive.
        FallbackState::Waits if cause.reads_on_tcp() && is_arriving(&mut guard, fd) => left(),
        FallbackState::Waits if !patience.is_over(&guard) => Visit::Waits(wake_word, before),
        FallbackState::Stays | FallbackState::Waits => {
            // If relatives share the connection, start no relay: a relay would take bytes that a relative may have
            // to read. The relatives continue to read, on the VI or on TCP, where remaining bytes arrive. But if
            // another program gets the connection, the program must find the bytes. The relay then lends them.
            let is_left_to_others = !cause.leaves_everything() && is_others(conn);
            if is_left_to_others && becomes_others(cause) && failover::misleads(&guard) {
                // End the connection with an error, because the program would read wrong bytes from the socket.
                failover::end(&guard, fd);
                drop(guard);
                detach(fd, at);
                return Visit::Settled;
            }
            let needs_bytes = came == FallbackState::Stays
                && is_for_other_programs(cause)
                && stream::unread(&mut guard, fd).is_ok_and(|unread| unread > 0);
            if needs_bytes && is_left_to_others && process::is_borrowed() {
                give_up(&mut guard, came);
                return if is_for_program { Visit::Gives } else { Visit::Keeps };
            }
            let is_left_to_others = is_left_to_others && !needs_bytes;
            if is_left_to_others
                && (came == FallbackState::Stays || !leaving::awaits_answer(&guard))
            {
                give_up(&mut guard, came);
                return Visit::Settled;
            }
            if is_left_to_others {
                return left();
            }
            if !hands_over(conn) {
                return Visit::Waits(wake_word, before);
            }
            step::stop_waiting(&guard);
            Visit::HandsOver
        }
    }
}
