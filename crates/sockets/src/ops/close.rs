//! Descriptors come and go: dup, close, shutdown, exec.

use super::keep;
use crate::conn::{Guard, Phase, Role, Stage, flag};
use crate::fallback::Cause;
use crate::meeting::Server;
use crate::pair::lent::How;
use crate::stream::Got;
use crate::table::{self, Entry, Ref};
use crate::{
    Outcome, fallback, family, inheritance, keepalive, kernel_sockets, linger, meeting, members,
    pair, process, rest, sets, stream,
};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sys::call;

/// `fd` is about to be closed, or replaced by another descriptor. The caller closes it afterwards.
pub fn close(fd: i32) {
    if process::is_borrowed() {
        return;
    }
    if let Some(at) = table::conn(fd) {
        let is_others = || family::is_shared(at.conn) || !at.conn.is_the_familys();
        if table::references(at.index) == 1 && is_others() && sets::has_entry(at) {
            // Other processes hold it still, so the kernel's instance keeps the entry, and it alone reports events from here on.
            fallback::now(fd, at, Cause::Set);
            // One of them may have taken it back, and this process not have come to its sets since.
            fallback::settle_in_sets(at);
            at.conn.again.store(0, Ordering::Relaxed);
        }
        if at.conn.has(flag::FALLING_BACK) {
            fallback::before_close(fd, at);
        }
    }
    if !keep::close(fd) {
        let_go(fd);
    }
}

/// `connect` is about to dissolve the association of `fd` (AF_UNSPEC): what is unread goes, and the kernel resets its peer. From
/// here on the library knows nothing of the number. A connection that is held or watched elsewhere goes back to TCP instead.
pub fn disconnect(fd: i32, at: Ref) {
    let conn = at.conn;
    // A poll is notified when the connection goes back.
    let is_polled = || at.attached().is_some_and(|guard| guard.own.watchers != 0);
    let is_watched = sets::has_entry(at) || is_polled();
    let is_elsewhere = family::is_shared(conn) || !conn.is_the_familys() || is_watched;
    if is_elsewhere
        || !conn.is_attached_here()
        || conn.has(flag::FALLING_BACK)
        || conn.waiting_here() != 0
        || table::references(at.index) != 1
    {
        // For all that have it: where the peer has ended, a relay or a keeper would keep it for the next association.
        drop_unread(fd, at);
        fallback::now(fd, at, Cause::Call);
        return;
    }
    if let Some(guard) = at.attached() {
        keepalive::leave(&guard);
    }
    kernel_sockets::leave(fd);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    let before = call::getsockopt::<[i32; 2]>(fd, level, name).unwrap_or_default();
    // Without a FIN on the VI the peer waits for the end of TCP.
    let _ = call::setsockopt(fd, level, name, &[1i32, 0]);
    let_go(fd);
    // The kernel takes a time with the flag alone.
    let _ = call::setsockopt(fd, level, name, &[1, before[1]]);
    let _ = call::setsockopt(fd, level, name, &before);
}

/// Drops the bytes that have come on a VI.
fn drop_unread(fd: i32, at: Ref) {
    let Some(mut guard) = at.attached() else { return };
    let mut left = stream::unread(&mut guard, fd).unwrap_or(0);
    let mut piece = [0; 1 << 10];
    while left > 0
        && let n = left.min(piece.len())
        && let Got::Bytes(taken @ 1..) = stream::receive(&mut guard, fd, (&mut piece[..n]).into())
    {
        left -= taken;
    }
}

fn let_go(fd: i32) {
    match table::remove(fd) {
        Entry::Conn(at) => {
            if table::release(at.index) && at.conn.is_generation(at.generation) {
                last_here(fd, at);
            }
        }
        Entry::Epoll(index) => sets::closed(index, fd),
        Entry::Foreign | Entry::Private => {}
    }
}

/// The process leaves a connection to a relay. `swap` puts the relay's socket in the place of its descriptors;
/// `kernel_socket` is one more, which it keeps. Calls of other threads that are under way go on with the socket.
pub(crate) fn leave_to_relay(
    descriptors: &[i32],
    kernel_socket: i32,
    at: Ref,
    swap: impl FnOnce(&mut Guard<'_>),
) {
    // Closed meanwhile: the relay ends it.
    let Some(mut guard) = at.attached() else { return };
    at.conn.set(flag::RELAYED);
    // Under the lock, until the process has it no more: no other thread asks the kernel socket's number for what the
    // relay's socket cannot know.
    swap(&mut guard);
    at.conn.let_go();
    let _ = leave_vi(guard, kernel_socket, at, false);
    // The sets' own entries go with the connection; what they watch stays.
    sets::detached(at);
    for &fd in descriptors {
        table::remove(fd);
        table::release(at.index);
    }
    sets::conn_closed(at);
}

/// The process's last descriptor of a connection goes.
pub(super) fn last_here(fd: i32, at: Ref) {
    let conn = at.conn;
    sets::conn_closed(at);
    let is_meeting = match conn.phase() {
        Phase::Candidate => true,
        // A relative has decided that it stays on TCP.
        Phase::Plain => conn.approach.stage() != Stage::Idle,
        Phase::Attached | Phase::Free => false,
    };
    // No thread of this process takes a step again: it holds the connection no more when it could.
    let steps = is_meeting.then(|| meeting::Steps::hold(at)).flatten();
    let reason = steps.as_ref().map_or(Reason::ShortLived, |steps| steps.forget(at));
    // Under the lock until the end of its life: another thread attaches the connection before, or finds that the process holds it
    // no more. Of two processes that let go at the same time, the second one alone is the last.
    let locked = conn.lock();
    let is_candidate = conn.phase() == Phase::Candidate;
    let locked =
        if conn.is_attached_here() { locked.attached().ok_or(None) } else { Err(Some(locked)) };
    conn.let_go();
    let last = !family::is_shared(conn);
    drop(steps);
    let has_ended = match locked {
        Ok(guard) => leave_vi(guard, fd, at, last),
        Err(_locked) => {
            if is_candidate {
                meeting::ended(at, 0);
            } else if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
                // A relative may have taken it off its VI.
                pair.reclaim(conn.vi.load(Ordering::Relaxed));
            }
            if last {
                let unused = conn.transfers.load(Ordering::Relaxed) == 0
                    && call::tcp_state(fd).is_some_and(call::TcpState::is_closed);
                let reason = if unused { Reason::NeverConnected } else { reason };
                let stays_for = if is_candidate { Some(reason) } else { conn.stays_for() };
                stays_for.into_iter().for_each(|reason| conn.count_stay(reason));
            }
            last && conn.end(at.generation)
        }
    };
    if has_ended {
        family::give_back(at.index);
    }
}

/// The process leaves the VI of a connection that it holds no more; `last`: no relative holds it either. Returns true if the
/// connection's life has ended by that.
fn leave_vi(mut guard: Guard<'_>, fd: i32, at: Ref, last: bool) -> bool {
    let conn = at.conn;
    let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) else {
        return last && conn.end(at.generation);
    };
    guard.settle_traffic();
    if last && stream::unanswered::settle(&mut guard) {
        conn.count_stay(Reason::ShortLived);
    }
    meeting::ended(at, guard.past.messages_sent);
    // A relative that holds it still may never send again.
    stream::combine::tell(&mut guard);
    let vi = conn.vi.load(Ordering::Relaxed);
    if last || members::is_known() {
        pair.leaving(vi);
    }
    if last {
        // With unread bytes, or if the program asked for it, TCP ends by a reset: the kernel socket
        // does, and the VI has no FIN.
        let unread = !conn.has(flag::EOF) && stream::unread(&mut guard, fd).is_ok_and(|n| n > 0);
        if unread {
            let abort = [1i32, 0];
            let _ = call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &abort);
        }
        if call::getsockopt::<[i32; 2]>(fd, libc::SOL_SOCKET, libc::SO_LINGER) != Ok([1, 0]) {
            stream::finish(&mut guard, fd);
            if let Some(rest) = stream::failover::rest(&guard) {
                linger::over(fd, rest);
            }
        }
        stream::leave(&mut guard);
    }
    let has_ended = last && conn.end(at.generation);
    if !last {
        stream::handled::leave(&mut guard);
        if conn.waiting_here() != 0 {
            // Threads of this process that still wait for it find that they have it no more.
            stream::wake_all(&guard);
        }
    }
    let loans = conn.loans.swap(0, Ordering::AcqRel);
    let used = stream::backlog::used(&guard);
    let how = if last { How::Ended { used } } else { How::Vacated };
    if last && conn.is_awaited() {
        // Threads that still wait for it find that it has ended, whatever becomes of the VI. One that comes to wait
        // from here on takes the lock first.
        stream::wake_all(&guard);
    }
    // Under the lock: no other thread uses the VI after this. A program that still reads or writes in a
    // place of its pool must not find it in its next life.
    if last || members::is_known() {
        pair::lent::leave(&pair, conn.pair.load(Ordering::Relaxed), at, vi, loans, how);
    }
    drop(guard);
    has_ended
}

/// `to` has become a second descriptor of what `from` is.
pub fn dup(from: i32, to: i32) {
    match table::get(from) {
        Entry::Conn(at) if at.conn.is_generation(at.generation) => table::refer(to, at),
        Entry::Epoll(index) => {
            sets::duplicated(index);
            table::enter_epoll(to, index);
        }
        // Options may be set by either number.
        _ if table::is_noted_tcp(from) => table::note_shared(),
        _ => {}
    }
}

/// `shutdown`. `kernel` makes the real call.
pub fn shutdown(fd: i32, at: Ref, how: i32, kernel: impl FnOnce() -> Outcome) -> Outcome {
    let conn = at.conn;
    if conn.phase() == Phase::Candidate {
        // What is left of it is not worth a meeting, in which the ends would have to tell each other of this.
        meeting::shut(at);
    }
    if how != libc::SHUT_RD {
        rest::come_after(conn, fd, false)?;
    }
    if conn.phase() != Phase::Attached {
        return kernel();
    }
    let result = {
        // The kernel socket is shut under the lock: a send that finds the flag asks the kernel, and must
        // find it shut there as well.
        let Some(mut guard) = at.attached() else { return kernel() };
        if stream::unanswered::settle(&mut guard) {
            drop(guard);
            fallback::settle(at);
            return kernel();
        }
        stream::ending::has_gone_by_now(&mut guard, fd);
        // The kernel refuses it for a connection that is over, and the peer is not told of it.
        let is_refused = call::tcp_state(fd).is_none_or(call::TcpState::is_closed);
        if !is_refused {
            if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
                stream::finish(&mut guard, fd);
                conn.set(flag::SHUT_WR);
            }
            if how == libc::SHUT_RD || how == libc::SHUT_RDWR {
                conn.set(flag::SHUT_RD);
            }
        }
        let result = match stream::failover::holds_shutdown(&guard) && how != libc::SHUT_RD {
            // What goes on TCP first is not there yet.
            true if how == libc::SHUT_RDWR => {
                call::shutdown(fd, libc::SHUT_RD).map(|()| 0).map_err(crate::errno)
            }
            true => Ok(0),
            false => kernel(),
        };
        if conn.is_shut() {
            stream::shut(&mut guard);
        }
        // The kernel may not be done with a connection that counts as reset.
        if conn.has(flag::RESET) { Err(libc::ENOTCONN) } else { result }
    };
    stream::listeners::tell_own(conn);
    result
}

/// The process is about to become another program, which holds none of this. (What it inherits
/// has gone back to TCP.)
pub fn leaving() {
    members::leave_by_exec();
}

/// It has not become one.
pub fn staying() {
    members::rejoin();
}

/// A new stream socket: connected, or on its way.
pub fn opened(fd: i32, role: Role, server: Server) {
    if process::is_confined() || process::is_borrowed() {
        return;
    }
    // From here on the program's memory is looked at.
    sovia_signal::chain::guards();
    let is_fresh = match (role, server) {
        (Role::Connector, _) => table::is_fresh_tcp(fd),
        (Role::Acceptor, Server::Listener(listener)) => table::is_fresh_tcp(listener),
        (Role::Acceptor, _) => false,
    };
    forget(fd);
    meeting::history::start();
    table::enter_conn(fd, role, meeting::history::place_of(server), is_fresh);
}

/// Drops what the table holds of `fd`, which is a number that the kernel has just handed out: the
/// number's last owner has been closed past every hook.
pub fn forget(fd: i32) {
    match table::remove(fd) {
        Entry::Conn(at) => {
            if table::release(at.index) && at.conn.is_generation(at.generation) {
                // Its kernel socket is gone already; the number means something else now.
                last_here(-1, at);
            }
        }
        Entry::Epoll(index) => sets::closed(index, fd),
        Entry::Foreign | Entry::Private => {}
    }
}

/// In a relative that serves one purpose: closes every descriptor but those and the library's own. It does
/// not count among the holders of other connections then.
pub fn keep_only(keep: &[i32]) {
    let mut others = Vec::new();
    table::for_each_conn(|fd, _| {
        if !keep.contains(&fd) {
            others.push(fd);
        }
    });
    others.into_iter().for_each(let_go);
    let mut from = 0;
    let limit = call::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(table::FDS as u64);
    for fd in 0..limit.min(table::FDS as u64) as i32 {
        let stays = keep.contains(&fd) || matches!(table::get(fd), Entry::Private);
        if stays {
            if fd > from {
                call::close_range(from, fd - 1);
            }
            from = fd + 1;
        }
    }
    call::close_range(from, i32::MAX);
}

/// `fd` has come on `channel` from another process, or from this one by a way round. If it is a connection that this
/// process has on a VI already, it is one more descriptor of that.
pub fn received(channel: i32, fd: i32) {
    match table::conn_of_socket(fd) {
        // One that may get a VI is one more descriptor of that, too.
        Some((_, at)) if at.is_attached_here() || at.conn.phase() == Phase::Candidate => {
            table::refer(fd, at);
        }
        Some(_) => {}
        None if channel < 0 => inheritance::looked_at(fd),
        None => inheritance::received(channel, fd, |fd, role| opened(fd, role, Server::Unknown)),
    }
}

/// Records a TCP socket that has not been connected yet; false if it is none.
pub fn opening(fd: i32) -> bool {
    if process::is_confined() {
        return false;
    }
    let listens = || call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    let fresh = table::is_tcp(fd) && listens() == Ok(0) && call::socket_name(fd, true).is_err();
    if fresh {
        opened(fd, Role::Connector, Server::Unknown);
    }
    fresh
}
