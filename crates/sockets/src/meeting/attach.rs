//! A connection gets its VI.

use super::give_up;
use super::permit::refusal;
use super::proof::{may_be_on, owns_other_end};
use crate::conn::{Conn, Phase, Role, flag};
use crate::message::{Link, Process};
use crate::pair::{Pending, Pinned};
use crate::table::{self, Ref};
use crate::{handler, kept, kernel_sockets, options, pair, protocol, sets, stats, stream, thread};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sys::call;

/// Acceptor: the request that mirrors our end of the connection.
pub(super) fn find_request(link: &Link) -> Option<(Pinned, Pending)> {
    let mut found = None;
    pair::each(|index, pair| {
        if !pair.has_doors() {
            return;
        }
        let user = || pair.other_user.unwrap_or_else(call::geteuid);
        pair.each_request(|request, discriminator| {
            if let Some(theirs) = Link::decode(discriminator)
                && theirs.same_connection(link)
                && may_be_on(pair, link, Role::Acceptor)
                && owns_other_end(link, Role::Acceptor, theirs.cookie, user())
            {
                found = pair.pin(index).map(|pinned| (pinned, request));
            }
        });
    });
    found
}

/// Acceptor: the request that mirrors our end of the connection, of the process that the agent has introduced as the one with
/// the other end.
pub(super) fn find_request_of(
    process: Process,
    other_user: u32,
    link: &Link,
) -> Option<(Pinned, Pending)> {
    let mut found = None;
    pair::each(|index, pair| {
        if !pair.is_far()
            || pair.peer != process
            || pair.other_user != Some(other_user)
            || !pair.has_doors()
        {
            return;
        }
        pair.each_request(|request, discriminator| {
            if Link::decode(discriminator).is_some_and(|theirs| theirs.same_connection(link)) {
                found = pair.pin(index).map(|pinned| (pinned, request));
            }
        });
    });
    found
}

/// Whether any process asks for a connection whose addresses `may_be` those that are wanted.
pub(super) fn has_requests(may_be: impl Fn(&Link) -> bool) -> bool {
    let mut found = false;
    pair::each(|_, pair| {
        if !found && pair.has_doors() {
            pair.each_request(|_, discriminator| {
                found |= Link::decode(discriminator).is_some_and(|link| may_be(&link));
            });
        }
    });
    found
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attached {
    /// The connection is as it was.
    No,
    /// It has its VI.
    Yes,
    /// It has one, and must go back to TCP as soon as no lock is held.
    GoesBack,
}

pub(super) fn attach_as_acceptor(fd: i32, at: Ref, pinned: &Pinned, request: Pending) -> Attached {
    let index = pinned.index();
    let Some(pair) = pair::get(index) else { return Attached::No };
    if !pair.accept(request) {
        return Attached::No;
    }
    let attached = attach(fd, at, index, request.vi);
    if attached == Attached::No {
        pair.decline(request.vi);
    }
    attached
}

/// Whether the end that gets a VI knows of the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// It has taken the request, or has seen that the other end has.
    Answered,
    /// It has just made the request.
    Made,
}

/// Connector: gives a connection its VI with the request for it, and grants it to the other end. See
/// [`stream::unanswered`].
pub(super) fn attach_with_request(fd: i32, at: Ref, index: u32, vi: u32) -> Attached {
    give(fd, at, index, vi, Request::Made)
}

/// Gives a connection its VI. From here on its calls go through [`crate::stream`].
pub(super) fn attach(fd: i32, at: Ref, index: u32, vi: u32) -> Attached {
    if !table::is_socket_of(fd, at.conn) {
        return Attached::No;
    }
    give(fd, at, index, vi, Request::Answered)
}

fn give(fd: i32, at: Ref, index: u32, vi: u32, request: Request) -> Attached {
    if can_have_vi(fd, at) { occupy(fd, at, index, vi, request) } else { Attached::No }
}

/// Whether the connection can go on on a VI, and everything that it needs for it runs.
///
/// A function of its own, as [`occupy`] is: the threads start in it, which takes some of the program's stack, while
/// none is taken for what comes after.
#[inline(never)]
fn can_have_vi(fd: i32, at: Ref) -> bool {
    if !call::tcp_state(fd).is_some_and(call::TcpState::is_open) {
        // The other end has closed it already, or a side has been shut past libc.
        super::ended(at, 0);
        give_up(at, Reason::HalfClosed);
        return false;
    }
    // Read again under the lock, for those that the connection keeps to.
    if !is_fresh(at.conn) && !options::allow_vi(fd) {
        give_up(at, Reason::RetreatCall);
        return false;
    }
    // The progress thread tells us of the kernel socket's death; without it there is no acceleration.
    let is_watched = kernel_sockets::start();
    if !is_watched && thread::is_refused() {
        give_up(at, Reason::NoThread);
    }
    is_watched
}

/// Whether the socket has the options that the kernel begins with.
fn is_fresh(conn: &Conn) -> bool {
    conn.approach.fresh.load(Ordering::Acquire) != 0
}

#[inline(never)]
fn occupy(fd: i32, at: Ref, index: u32, vi: u32, request: Request) -> Attached {
    let Some(pair) = pair::get(index) else { return Attached::No };
    let conn = at.conn;
    let (flow, chosen) = protocol::of(conn);
    let handles = handler::ready(chosen.handling, index);
    {
        let locked = conn.lock();
        // Another thread may have given the connection up, taken it back to TCP, or closed its last descriptor here.
        if conn.phase() != Phase::Candidate || !conn.is_here() || !pair.occupy(vi, at) {
            return Attached::No;
        }
        conn.pair.store(index, Ordering::Relaxed);
        conn.vi.store(vi, Ordering::Relaxed);
        conn.side.store(pair.side as u32, Ordering::Relaxed);
        if !is_fresh(conn) {
            options::note_bounds(fd, conn);
        }
        // SAFETY: the pair keeps the segment mapped while the VI is occupied.
        let mut guard = unsafe { stream::begin(locked, &pair, vi, flow, chosen) };
        conn.set(flag::MET);
        if pair.is_nic() {
            conn.set(flag::REFLECTED);
            // The peer grants when it knows of this end.
            stream::reflected::tell_nic(&guard);
        }
        if call::is_nonblocking(fd) {
            conn.set(flag::NONBLOCK);
        }
        stream::combine::switch(&mut guard, fd);
        if !is_fresh(conn) {
            let timeout = |name| call::timeout_ns(fd, name).unwrap_or(0);
            conn.receive_timeout.store(timeout(libc::SO_RCVTIMEO), Ordering::Relaxed);
            conn.send_timeout.store(timeout(libc::SO_SNDTIMEO), Ordering::Relaxed);
            let timeout = options::note_user_timeout(fd, conn);
            stream::reflected::say_user_timeout(&guard, timeout);
            options::note_inq(fd, conn);
            options::note_times(fd, conn);
        }
        if request == Request::Made {
            conn.set(flag::UNANSWERED);
        }
        conn.set_phase(Phase::Attached);
        if request == Request::Made {
            stream::grant(&mut guard, fd);
        }
        if let Some(handles) = handles {
            stream::handled::begin(&mut guard, handles.ready_list, handles.flags);
            // What came before the peer knew which ready list to tell.
            stream::handled::handle(&mut guard);
        }
    }
    kernel_sockets::watch_new(fd, at);
    if !sets::attached(at) {
        return Attached::GoesBack;
    }
    if refusal(fd, at).is_some() {
        // Since it was permitted.
        kept::look_again();
    }
    if request == Request::Answered && conn.count_once() {
        stats::accelerated();
    }
    Attached::Yes
}
