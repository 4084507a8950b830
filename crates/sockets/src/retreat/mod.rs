//! Back to TCP: for what only the kernel can do with a socket.
//!
//! Before an exec, before a descriptor becomes standard input or travels to another process, and
//! for calls that Sovia does not carry, both directions of a connection return to the anchor
//! ([`sovia_proto::path`], steps 4 and 5).
//!
//! - Our own direction just ends its part on the VI.
//! - For the other we recall the grant, and the peer ends its part there. Bytes that the program has
//!   not had yet must now come out of the kernel, and only the peer can put them in: it (its next call, or
//!   its progress thread) reads them where they lie on the VI and writes them to its anchor before anything
//!   newer. No thread takes them off the VI for that: if the peer dies meanwhile, they are there still.
//! - A peer that cannot (it has died, or closed its side) or does not (stopped, for longer than two
//!   seconds) leaves one way: a relay, a small relative of this process that keeps the connection, and
//!   a Unix socket to it in the place of the program's descriptors. Where relatives share the connection it
//!   stays as it is, and they read on the VI what is there.
//!
//! No thread owns a retreat: see `step`.

pub(crate) mod answer;
mod patience;
mod step;

use crate::conn::{Bell, Conn, Guard, Phase, flag};
use crate::pair;
use crate::pair::lent::{self, How};
use crate::per_engine::per_engine;
use crate::stream::returned::PUMP_NS;
use crate::stream::{self, Damaged, leaving, listeners};
use crate::table::{self, Ref};
use crate::{anchors, family, meeting, process, sets, stats};
use core::sync::atomic::{AtomicBool, Ordering};
use patience::Patience;
use sovia_control::Reason;
use sovia_proto::path::{Rx, Tx};
use sovia_sync::hazard::Waits;
use sovia_sync::{section, thread};
use sovia_sys::{call, clock, futex, poll};
use std::sync::OnceLock;
use step::{Step, step};

/// Why a connection goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is inherited by another program, which this process becomes.
    Exec,
    /// It is inherited by another program, which a child becomes.
    Spawn,
    /// It becomes standard input, output or error.
    Stdio,
    /// It becomes a stdio stream, or libc prints to it.
    Stream,
    /// The kernel is to process the stream.
    Ulp,
    /// It is sent to another process.
    Passed,
    /// A call that Sovia does not carry.
    Call,
    /// It is in an epoll instance that others wait for as well, or wait for itself: of that the kernel alone
    /// can tell.
    Set,
    /// The process changes its user or its rights.
    Credentials,
    /// The process limits its address space.
    AddressSpace,
    /// The process puts itself under a filter of system calls.
    Filter,
    /// A thread gets a table of descriptors of its own, and another one goes on with the old.
    Table,
    /// The peer asks for it.
    Peer,
}

impl Cause {
    /// Whether the process has no part in any VI afterwards.
    fn leaves_everything(self) -> bool {
        matches!(self, Cause::Credentials | Cause::AddressSpace | Cause::Filter | Cause::Table)
    }

    pub(crate) fn reason(self) -> Reason {
        match self {
            Cause::Exec | Cause::Spawn => Reason::RetreatExec,
            Cause::Stdio => Reason::RetreatStdio,
            Cause::Stream => Reason::RetreatStream,
            Cause::Ulp => Reason::RetreatUlp,
            Cause::Passed => Reason::RetreatPassed,
            Cause::Call | Cause::Set | Cause::Table => Reason::RetreatCall,
            Cause::Credentials => Reason::RetreatCredentials,
            Cause::AddressSpace => Reason::AddressSpace,
            Cause::Filter => Reason::Filter,
            Cause::Peer => Reason::RetreatPeer,
        }
    }
}

/// Takes a connection back to TCP, for good. When this returns, the kernel's calls on the
/// descriptor do what they would have done without Sovia.
pub fn now(fd: i32, at: Ref, cause: Cause) {
    let conn = at.conn;
    if conn.phase() == Phase::Candidate && conn.is_generation(at.generation) && conn.stay_plain() {
        let _ = meeting::closed(at);
        conn.count_stay(cause.reason());
        return;
    }
    if begin(fd, at, cause) {
        finish(fd, at, cause, Patience::begin());
    }
}

/// The same for many connections. Their peers work on all of them meanwhile, and a peer that is stopped is waited
/// for once.
pub(crate) fn all(connections: &[(i32, Ref)], cause: Cause) {
    let mut coming = Vec::new();
    for &(fd, at) in connections {
        if at.conn.phase() != Phase::Attached {
            now(fd, at, cause);
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
}

/// Waits until a connection is back.
fn finish(fd: i32, at: Ref, cause: Cause, patience: Patience) {
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
    let came = step(&mut guard, fd).unwrap_or_else(|Damaged(_)| {
        stream::damaged(conn, fd);
        Step::Over
    });
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
            let is_left_to_others =
                !cause.leaves_everything() && (family::is_shared(conn) || process::is_borrowed());
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

/// Whether a connection that the caller holds for another program is still to come back; takes it a step further.
pub(crate) fn is_still_coming(at: Ref) -> bool {
    go_on(at);
    at.conn.is_going_back()
}

per_engine! {
    /// Whether connections are on their way back of which no thread waits for the end.
    static COMING: AtomicBool = AtomicBool::new(false);
}

/// Between two looks at them. A peer that answers rings.
const COMING_NS: u64 = 10_000_000;

/// Has a connection taken back to TCP without waiting for it: the thread that watches anchors goes on with it.
pub(crate) fn soon(fd: i32, at: Ref, cause: Cause) {
    if begin(fd, at, cause) {
        COMING.store(true, Ordering::Relaxed);
        go_on(at);
    }
}

/// The direction in which the process sends is the kernel's from here on. The peer reads on the VI what is there, and
/// then what comes on TCP: nothing waits for it.
pub(crate) fn sending(fd: i32, at: Ref) {
    let Some(mut guard) = at.attached() else { return };
    if at.conn.tx() != Tx::Vi || at.conn.has(flag::DAMAGED | flag::RETREATING) {
        return;
    }
    if leaving::leave_sending(&mut guard).is_err() {
        stream::damaged(at.conn, fd);
        return;
    }
    stats::reason(Reason::RetreatCall);
    anchors::watch_room(&guard, fd);
    // Threads that wait for room on the VI.
    listeners::tell_all(&guard);
}

/// This process is about to close a descriptor of a connection that it has left to another program, and that is not
/// back yet because the peer is stopped. If no other process holds it, one of the library's does from here on.
#[cold]
pub(crate) fn before_close(fd: i32, at: Ref) {
    go_on(at);
    let is_anothers = at.conn.leaves_for.load(Ordering::Relaxed) == Reason::RetreatExec as u32 + 1;
    if is_anothers && at.conn.is_going_back() && !family::is_shared(at.conn) {
        let _ = PROCESSES.get().is_some_and(|processes| (processes.accompany)(&[(fd, at)]));
    }
}

/// How long until such connections are to be looked at again; `None` if there are none.
pub(crate) fn pause() -> Option<u64> {
    COMING.load(Ordering::Relaxed).then_some(COMING_NS)
}

/// Goes on with those, for the thread that watches anchors. Whether there were any.
pub(crate) fn go_on_coming() -> bool {
    if !COMING.swap(false, Ordering::Relaxed) {
        return false;
    }
    let mut coming = Vec::new();
    table::for_each_conn(|_, at| {
        if at.conn.is_going_back() {
            coming.push(at);
        }
    });
    for at in coming {
        go_on(at);
        if at.conn.is_going_back() {
            COMING.store(true, Ordering::Relaxed);
        }
    }
    true
}

/// Has the connection taken back from here on, by whichever thread comes by. False if it is back, or stays as it is.
fn begin(fd: i32, at: Ref, cause: Cause) -> bool {
    let conn = at.conn;
    let Some(mut guard) = at.attached() else { return false };
    if conn.has(flag::DAMAGED) || !stream::audit::is_whole(&mut guard, true) {
        // Nothing that the segment says of the two paths is to be believed.
        stream::damaged(conn, fd);
        drop(guard);
        detach(at);
        return false;
    }
    if conn.has(flag::RETREATING) {
        return true;
    }
    if matches!(cause, Cause::Exec | Cause::Spawn) && must_stay(&mut guard, fd) {
        return false;
    }
    if cause == Cause::Set && must_stay(&mut guard, fd) {
        leave_to_set(&mut guard, fd);
        drop(guard);
        sets::detached(at);
        return false;
    }
    conn.leaves_for.store(cause.reason() as u32 + 1, Ordering::Relaxed);
    conn.set(flag::RETREATING);
    true
}

/// Records why the connection is on TCP.
fn say_why(conn: &Conn) {
    if conn.has(flag::DAMAGED) {
        // The damage has been recorded as the reason.
        return;
    }
    let asked = conn.leaves_for.load(Ordering::Relaxed).checked_sub(1);
    let reason = asked.and_then(Reason::of).unwrap_or(Reason::RetreatPeer);
    conn.stays(reason);
    stats::reason(reason);
}

/// The connection stays as it is: on its VI, or while the peer still puts on TCP what was unread there.
fn give_up(guard: &mut Guard<'_>, came: Step) {
    if came == Step::Stays {
        guard.conn.leaves_for.store(0, Ordering::Relaxed);
    }
    guard.conn.clear(flag::RETREATING);
    // What a thread of Sovia's has left alone meanwhile.
    stream::handled::handle(guard);
    listeners::tell_all(guard);
}

/// Whether the calling thread is to hand the connection to a relay: one thread does. Under the lock.
fn hands_over(conn: &Conn) -> bool {
    let other = conn.relaying.load(Ordering::Acquire);
    let me = thread::thread_id() as u32;
    let may = other == 0 || other == me || !call::task_exists(other as i32);
    if may {
        conn.relaying.store(me, Ordering::Release);
        conn.set(flag::RETREATING);
    }
    may
}

/// Puts a relay in the place of the program's descriptors.
fn hand_over(fd: i32, at: Ref) {
    // No handler of the program's leaves this half way.
    let _inside = section::inside();
    {
        let Some(_guard) = at.attached() else { return };
        let is_ours = at.conn.relaying.load(Ordering::Acquire) == thread::thread_id() as u32;
        if !is_ours || !table::refers(fd, at) {
            // Closed meanwhile, and another one perhaps.
            return;
        }
    }
    let is_relayed = PROCESSES.get().is_some_and(|processes| (processes.relay)(fd, at));
    if is_relayed {
        at.conn.stays(Reason::Relayed);
        stats::reason(Reason::Relayed);
    } else {
        // No process to be had: what was accepted cannot be delivered, and must not look
        // as if nothing were missing.
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
        at.conn.relaying.store(0, Ordering::Release);
        detach(at);
    }
}

/// The small relatives of this process that a retreat may need; false if they cannot be had.
pub(crate) struct Processes {
    /// Puts a relay in the place of every descriptor of a connection.
    pub relay: fn(i32, Ref) -> bool,
    /// Holds connections until they are back, while this process becomes another program.
    pub accompany: fn(&[(i32, Ref)]) -> bool,
}

per_engine! {
    static PROCESSES: OnceLock<Processes> = OnceLock::new();
}

/// Has these start processes: they stand on the program's calls, which are above. Said once, at the start.
pub(crate) fn relayed_by(processes: Processes) {
    let _ = PROCESSES.set(processes);
}

/// Whether a connection must stay on its VI, because a relative has the same descriptor, and bytes that the
/// peer cannot put on TCP any more, because it has finished, are still unread: one of the two only could
/// have them.
///
/// Of a forked process that execs, a descriptor that merely leaks into the new program is by far the
/// likelier case than one that both read, so the relative keeps the connection.
fn must_stay(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    (family::is_shared(conn) || process::is_borrowed())
        && matches!(conn.rx(), Rx::Vi | Rx::Granted)
        && stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && stream::anchor_has_ended(fd)
}

/// The kernel watches a connection that must stay on its VI. What it says of the anchor, which has ended, holds
/// for what is unread on the VI as well; what is sent goes over TCP, so that the room is TCP's.
fn leave_to_set(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    if leaving::leave_sending(guard).is_err() {
        stream::damaged(conn, fd);
    }
    conn.set(flag::LEFT_TO_SETS);
}

/// Like [`now`], and the peer does the same first: what it has not read yet is on TCP before
/// anything that this end sends afterwards. For urgent data, which has a place in the stream.
pub fn with_peer(fd: i32, at: Ref, cause: Cause) {
    if at.conn.phase() == Phase::Attached && at.conn.tx() == Tx::Vi {
        answer::ask_peer(fd, at, Patience::begin());
    }
    now(fd, at, cause);
}

/// Takes back the connection of this process's whose socket `fd` is, by whatever way it has come to it.
pub fn of_socket(fd: i32) {
    if let Some((own, at)) = table::conn_of_socket(fd) {
        now(own, at, Cause::Passed);
    }
}

/// This process is about to become another program: all that this would inherit goes back to TCP.
pub fn before_exec() {
    leave_inherited(Cause::Exec);
}

/// The same before a child is started that becomes one.
pub fn before_spawn() {
    leave_inherited(Cause::Spawn);
}

fn leave_inherited(cause: Cause) {
    let mut inherited = Vec::new();
    let look = |fd, at: Ref| {
        let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
        if flags & libc::FD_CLOEXEC as usize == 0 && at.conn.phase() == Phase::Attached {
            inherited.push((fd, at));
        }
    };
    if process::is_borrowed() {
        table::for_each_conn_elsewhere(look);
    } else {
        table::for_each_conn(look);
    }
    all(&inherited, cause);
}

/// The connection is on TCP in both directions: it is an ordinary socket from here on. Nothing happens if
/// another thread has closed it meanwhile, or has done this.
fn detach(at: Ref) {
    let conn = at.conn;
    let (pair, vi, loans, how) = {
        let Some(mut guard) = at.attached() else { return };
        guard.settle_traffic();
        say_why(conn);
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        let loans = conn.loans.swap(0, Ordering::AcqRel);
        let large = stream::backlog::is_large(&guard);
        let pair = pair::get(conn.pair.load(Ordering::Relaxed));
        let vi = conn.vi.load(Ordering::Relaxed);
        if let Some(pair) = &pair {
            pair.leaving(vi);
        }
        // They find that it is on TCP, whatever becomes of the VI; relatives' sets, too, which it is to leave.
        listeners::tell_of_leaving(&guard);
        conn.set_phase(Phase::Plain);
        conn.use_memory(0);
        (pair, vi, loans, How::Ended { large })
    };
    // After that: the next call finds what the kernel reports of it.
    sets::detached(at);
    if let Some(pair) = pair {
        lent::leave(&pair, conn.pair.load(Ordering::Relaxed), vi, loans, how);
    }
}

/// Whether [`settle`] or [`is_bringing`] may have something to do: the connection is going back, or has.
#[inline]
pub(crate) fn concerns(conn: &Conn) -> bool {
    conn.has(flag::RETREATING | flag::LEFT_TO_SETS | flag::RETURNING) || conn.rx() == Rx::Back
}

/// After a call: if both directions are back on TCP, the connection becomes an ordinary socket.
pub(crate) fn settle(at: Ref) {
    let conn = at.conn;
    if conn.has(flag::LEFT_TO_SETS) {
        // By a relative, perhaps.
        sets::detached(at);
    }
    if conn.is_going_back() {
        go_on(at);
    }
}

/// How long a call that must not wait waits for bytes which it may have been told of.
const BRINGING_NS: u64 = 20_000_000;

/// Whether TCP has bytes now of those that were unread on the VI, though there were none a moment ago. Another
/// thread's call may have sent them that way since the program was told of them, and the kernel never takes back
/// what it has told. A peer that is stopped brings none: then they are told of again when they come.
pub(crate) fn is_bringing(fd: i32, at: Ref) -> bool {
    let conn = at.conn;
    if !conn.has(flag::RETURNING) {
        return false;
    }
    let start = clock::now_ns();
    let waits = Waits::begin(false);
    while clock::now_ns() - start < BRINGING_NS {
        let bell = {
            let Some(guard) = at.attached() else { return true };
            if conn.rx() != Rx::Back || poll::probe(fd, libc::POLLIN) != 0 {
                return true;
            }
            let bell = listeners::reader_bell(&guard, &waits);
            bell.going_to_sleep();
            bell
        };
        let word = bell.word().load(Ordering::SeqCst);
        let _ = futex::wait(bell.word(), word, Some(PUMP_NS / 10));
    }
    false
}

/// A set has a connection that is going back to TCP, or has left its VI.
pub(crate) fn settle_in_sets(at: Ref) {
    if at.is_attached_here() {
        settle(at);
    } else {
        // A relative has taken it back, and knows the entries only that it has copies of.
        sets::detached(at);
    }
}

/// Takes a connection that is being taken back a step further: the thread that did so may have ended.
#[cold]
#[inline(never)]
pub(crate) fn go_on(at: Ref) {
    let conn = at.conn;
    if process::is_borrowed() {
        // The numbers that are known are its parent's.
        return;
    }
    let Some(mut guard) = at.attached() else { return };
    let Some(fd) = table::descriptor_of(conn) else { return };
    if conn.is_going_back() && step_for_another(&mut guard, fd) == Step::Over {
        drop(guard);
        detach(at);
    }
}

/// The same for a call that has found nothing to receive. What it is then over is settled after it.
#[inline]
pub(crate) fn go_on_under(guard: &mut Guard<'_>, fd: i32) {
    if guard.conn.has(flag::RETREATING) {
        step_for_another(guard, fd);
    }
}

#[cold]
#[inline(never)]
fn step_for_another(guard: &mut Guard<'_>, fd: i32) -> Step {
    let conn = guard.conn;
    let relaying = conn.relaying.load(Ordering::Acquire);
    if relaying != 0 && call::task_exists(relaying as i32) {
        return Step::Waits;
    }
    let came = step(guard, fd).unwrap_or_else(|Damaged(_)| {
        stream::damaged(conn, fd);
        Step::Over
    });
    if came == Step::Stays {
        give_up(guard, came);
    }
    came
}
