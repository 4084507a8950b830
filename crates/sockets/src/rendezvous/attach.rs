//! Gives a connection its VI.

use super::give_up;
use super::permit::refusal;
use super::proof::{may_be_on, owns_other_end};
use crate::conn::{Conn, Phase, Role, flag};
use crate::message::{Link, Process};
use crate::pair::{Pending, Pinned};
use crate::table::{self, Ref};
use crate::{
    epoll_sets, handler, kernel_sockets, options, pair, protocol, stats, stream, tcp_reasons,
    thread,
};
use core::sync::atomic::Ordering;
use sovia_control::{Reason, Traffic};
use sovia_sys::call;

/// Finds the request for this connection, as the acceptor. Checks with the kernel that the requesting peer's user
/// holds the other end.
pub(super) fn find_request(link: &Link) -> Option<(Pinned, Pending)> {
    let mut found = None;
    pair::each(|index, pair| {
        if !pair.has_doorbells() {
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

/// Finds the request for this connection from `process`, which the agent introduced. Called by the acceptor.
pub(super) fn find_request_of(
    process: Process,
    other_user: u32,
    link: &Link,
) -> Option<(Pinned, Pending)> {
    let mut found = None;
    pair::each(|index, pair| {
        if !pair.is_by_agent()
            || pair.peer != process
            || pair.other_user != Some(other_user)
            || !pair.has_doorbells()
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

/// Returns true if any peer has an unanswered request for a link for which `may_be` returns true.
pub(super) fn has_requests(may_be: impl Fn(&Link) -> bool) -> bool {
    let mut found = false;
    pair::each(|_, pair| {
        // Most peers have no request. So ask last if the peer has given its doorbells, because this reads more memory.
        pair.each_request(|_, discriminator| {
            found = found
                || Link::decode(discriminator).is_some_and(|link| may_be(&link))
                    && pair.has_doorbells();
        });
    });
    found
}

/// Result of an attempt to give a connection its VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attached {
    /// The connection got no VI.
    No,
    /// The connection has its VI.
    Yes,
    /// The connection has its VI, and must go back to TCP as soon as the calling thread holds no lock.
    GoesBack,
}

/// Accepts a request, and gives the connection the requested VI. The caller has just checked that `fd` is the
/// connection's socket.
pub(super) fn attach_as_acceptor(fd: i32, at: Ref, pinned: &Pinned, request: Pending) -> Attached {
    let index = pinned.index();
    let Some(pair) = pair::get(index) else { return Attached::No };
    if !pair.accept(request) {
        return Attached::No;
    }
    let attached = give(fd, at, index, request.vi, Request::Answered);
    if attached == Attached::No {
        pair.decline(request.vi);
    }
    attached
}

/// State of the request when this end gives the connection its VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// This end has accepted the request, or has seen that the other end has accepted it.
    Answered,
    /// This end has just made the request.
    Made,
}

/// Gives a connection its VI together with the request, as the connector, and grants the VI to the acceptor. See
/// [`stream::unanswered`].
pub(super) fn attach_with_request(fd: i32, at: Ref, index: u32, vi: u32) -> Attached {
    give(fd, at, index, vi, Request::Made)
}

/// Gives a connection its VI. From then on, calls on the connection go through [`crate::stream`].
pub(super) fn attach(fd: i32, at: Ref, index: u32, vi: u32) -> Attached {
    if !table::is_socket_of(fd, at.conn) {
        return Attached::No;
    }
    give(fd, at, index, vi, Request::Answered)
}

fn give(fd: i32, at: Ref, index: u32, vi: u32, request: Request) -> Attached {
    if can_have_vi(fd, at) { occupy(fd, at, index, vi, request) } else { Attached::No }
}

/// Returns true if the connection can continue on a VI. Starts the threads that a VI needs.
///
/// Not inlined, like [`occupy`]: a thread's start needs some of the program's stack, which is free again before
/// [`occupy`] runs.
#[inline(never)]
fn can_have_vi(fd: i32, at: Ref) -> bool {
    if !call::tcp_state(fd).is_some_and(call::TcpState::is_open) {
        // The peer has closed its end, or a system call that bypassed libc has shut down one direction.
        super::ended(at, &Traffic::default());
        give_up(at, Reason::HalfClosed);
        return false;
    }
    // This is only an early check. Under the connection's lock, [`occupy`] again reads the options that a VI
    // applies.
    if !is_fresh(at.conn) && !options::allow_vi(fd) {
        give_up(at, Reason::FallbackCall);
        return false;
    }
    // The progress thread reports when the kernel socket has been closed or reset. Without this thread the
    // connection stays on TCP.
    let is_watched = kernel_sockets::start();
    if !is_watched && thread::is_refused() {
        give_up(at, Reason::NoThread);
    }
    is_watched
}

/// Returns true if the socket still has the kernel's default options.
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
        // Another thread may have given up the connection, or moved the connection back to TCP. Or it may have
        // closed this process's last descriptor of the connection.
        if conn.phase() != Phase::Eligible || !conn.is_here() || !pair.occupy(vi, at) {
            return Attached::No;
        }
        conn.pair.store(index, Ordering::Relaxed);
        conn.vi.store(vi, Ordering::Relaxed);
        conn.side.store(pair.side as u32, Ordering::Relaxed);
        if !is_fresh(conn) {
            options::note_bounds(fd, conn);
        }
        // SAFETY: `Pair::occupy` has counted this connection. A pair stays in the table and keeps its segment
        // mapped while a connection on it is counted. This connection is counted until this process has left the
        // VI.
        let mut guard = unsafe { stream::begin(locked, &pair, vi, flow, chosen) };
        conn.set(flag::MET);
        if pair.is_nic() {
            conn.set(flag::REFLECTED);
            pair.in_flight.forget();
            // Notify the NIC, because the peer grants its direction only after it knows that this end is on the VI.
            stream::reflected::notify_nic(&guard);
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
            stream::reflected::publish_user_timeout(&guard, timeout);
            options::note_inq(fd, conn);
            options::note_times(fd, conn);
        }
        if request == Request::Made {
            conn.set(flag::UNANSWERED);
        }
        // A peer on another host cannot wake this process. A handler thread waits for many connections.
        let at_once = conn.has(flag::REFLECTED) || handles.is_some();
        conn.set_phase(Phase::Attached);
        kernel_sockets::watch_new(fd, at, at_once);
        if request == Request::Made {
            stream::grant(&mut guard, fd);
        }
        if let Some(handles) = handles {
            stream::handler_queue::begin(&mut guard, handles.ready_list, handles.flags);
            // Receive the messages that arrived before the peer knew which ready list to notify.
            stream::handler_queue::handle(&mut guard);
        }
    }
    kernel_sockets::watches_new();
    if !epoll_sets::attached(at) {
        return Attached::GoesBack;
    }
    if refusal(fd, at).is_some() {
        // A reason to keep the connection on TCP has appeared since the call of `permitted`. Let the progress
        // thread check all connections.
        tcp_reasons::look_again();
    }
    if request == Request::Answered && conn.count_once() {
        stats::accelerated();
    }
    Attached::Yes
}
