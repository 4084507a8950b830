//! Opens, copies and closes descriptors: dup, close, shutdown, exec.

use super::keep;
use crate::conn::{ApproachStage, Conn, Guard, Phase, Role, flag};
use crate::fallback::Cause;
use crate::pair::lent::LeaveKind;
use crate::rendezvous::Server;
use crate::stream::Got;
use crate::table::{self, Entry, Ref};
use crate::{
    Outcome, epoll_sets, fallback, family, keepalive, kernel_sockets, linger, other_families, pair,
    process, process_slots, rendezvous, stream,
};
use core::sync::atomic::Ordering;
use sovia_control::{Reason, Traffic};
use sovia_proto::path::Rx;
use sovia_sys::call;

/// Releases Sovia's record of `fd`. Call it before `fd` is closed or replaced by another descriptor.
pub fn close(fd: i32) {
    if process::is_borrowed() {
        return;
    }
    if let Some(at) = table::conn(fd) {
        let is_others = || family::is_shared(at.conn) || !at.conn.is_the_familys();
        if table::references(at.index) == 1 && is_others() && epoll_sets::has_entry(at) {
            // Other processes still hold the connection, so the kernel's epoll instances keep their entries for it.
            // From now on only the kernel can report events for these entries.
            fallback::now(fd, at, Cause::EpollSet);
            // Another process may have moved the connection back to TCP, and this process's epoll sets may not have
            // noticed yet.
            fallback::settle_in_epoll_sets(at);
            at.conn.again.store(0, Ordering::Relaxed);
        }
    }
    if !keep::close(fd) {
        let_go(fd);
    }
}

/// Prepares for a `connect` that dissolves the association of `fd` (AF_UNSPEC). Unread bytes are lost, and the
/// kernel resets the peer. Removes the table's entry of `fd`, so that the kernel alone serves `fd`. If another
/// process holds the connection, or a poll or an epoll set watches it, the connection goes back to TCP instead.
pub fn disconnect(fd: i32, at: Ref) {
    let conn = at.conn;
    // A poll must get a notification, which a fallback sends.
    let is_polled = || at.attached().is_some_and(|guard| guard.own.watchers != 0);
    let is_watched = epoll_sets::has_entry(at) || is_polled();
    let is_elsewhere = family::is_shared(conn) || !conn.is_the_familys() || is_watched;
    if is_elsewhere
        || !conn.is_attached_here()
        || conn.has(flag::FALLING_BACK)
        || conn.waiting_here() != 0
        || table::references(at.index) != 1
    {
        // Drop the unread bytes for all holders. If not, and if the peer has ended, a relay would keep
        // them for the next association.
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
    // Make `let_go` skip the FIN on the VI. Then the peer waits for the end of TCP.
    conn.approach.fresh.store(0, Ordering::Release);
    let _ = call::setsockopt(fd, level, name, &[1i32, 0]);
    let_go(fd);
    // Restore the linger time with the flag set, because the kernel stores the time only then. Then restore the
    // flag.
    let _ = call::setsockopt(fd, level, name, &[1, before[1]]);
    let _ = call::setsockopt(fd, level, name, &before);
}

/// Drops the unread bytes of the connection.
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
            if !table::release(at.index) {
                kernel_sockets::watch_by_another(fd, at);
                table::finish_uses(at);
                rendezvous::finish_step(at);
            } else if at.conn.is_generation(at.generation) {
                last_here(fd, at);
            }
        }
        Entry::Epoll(index) => epoll_sets::closed(index, fd),
        Entry::Foreign | Entry::Private => {}
    }
}

/// Leaves a connection to a relay. `swap` puts the relay's socket in the place of `descriptors`. `kernel_socket` is
/// one more descriptor of the connection, which this process keeps. Calls that other threads are making continue on
/// the relay's socket.
pub(crate) fn leave_to_relay(
    descriptors: &[i32],
    kernel_socket: i32,
    at: Ref,
    swap: impl FnOnce(&mut Guard<'_>),
) {
    // If another thread has closed the connection meanwhile, do nothing. The relay then ends the connection.
    let Some(mut guard) = at.attached() else { return };
    at.conn.set(flag::RELAYED);
    // Hold the lock until this process no longer holds the connection. Without the lock, another thread could use a
    // swapped descriptor as if it were the kernel socket.
    swap(&mut guard);
    at.conn.let_go();
    let _ = leave_vi(guard, kernel_socket, at, false);
    // This process's epoll sets drop their entries of the connection. The entries in the kernel's epoll instances
    // stay.
    epoll_sets::detached(at);
    for &fd in descriptors {
        table::remove(fd);
        table::release(at.index);
    }
    epoll_sets::conn_closed(at);
}

/// Leaves a connection. Called when this process closes its last descriptor of the connection.
pub(super) fn last_here(fd: i32, at: Ref) {
    let conn = at.conn;
    epoll_sets::conn_closed(at);
    let is_in_rendezvous = match conn.phase() {
        Phase::Eligible => true,
        // A forked relative may have decided that the connection stays on TCP.
        Phase::Plain => conn.approach.stage() != ApproachStage::Idle,
        Phase::Attached | Phase::Free => false,
    };
    // Keep other threads of this process from taking the next step of the rendezvous. When such a thread can
    // continue, this process no longer holds the connection.
    let steps = is_in_rendezvous.then(|| rendezvous::StepLock::hold(at)).flatten();
    let reason = steps.as_ref().map_or(Reason::ShortLived, |steps| steps.forget(at));
    // Hold the lock until the generation ends. Another thread either has attached the connection by now, or finds
    // that this process no longer holds it. If two processes let go at the same time, only the second process is
    // the last holder.
    let mut locked = conn.lock();
    if fd >= 0 && conn.is_attached_here() && fallback::needs_keeper(conn) {
        drop(locked);
        // The holder is a child that inherits the descriptor, so the table must have the descriptor once more.
        table::refer(fd, at);
        fallback::start_keeper(fd, at);
        table::remove(fd);
        if !table::release(at.index) {
            return;
        }
        locked = conn.lock();
    }
    let is_eligible = conn.phase() == Phase::Eligible;
    let (guard, locked) =
        if conn.is_attached_here() { (locked.attached(), None) } else { (None, Some(locked)) };
    conn.let_go();
    let last = !family::is_shared(conn);
    drop(steps);
    let has_ended = match guard {
        Some(guard) => leave_vi(guard, fd, at, last),
        None => {
            if is_eligible {
                rendezvous::ended(at, &Traffic::default());
            } else if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
                // A forked relative may have moved the connection from its VI to TCP.
                pair.reclaim(conn.vi.load(Ordering::Relaxed));
            }
            if last {
                let unused = conn.transfers.load(Ordering::Relaxed) == 0
                    && call::tcp_state(fd).is_some_and(call::TcpState::is_closed);
                let reason = if unused { Reason::NeverConnected } else { reason };
                let stays_for = if is_eligible { Some(reason) } else { conn.stays_for() };
                stays_for.into_iter().for_each(|reason| conn.count_stay(reason));
            }
            last && conn.end(at.generation)
        }
    };
    drop(locked);
    if has_ended {
        family::give_back(at.index);
    }
}

/// Leaves the VI of a connection that this process no longer holds. `last` says that no forked relative holds the
/// connection either. Returns true if this call ended the connection's generation.
fn leave_vi(mut guard: Guard<'_>, fd: i32, at: Ref, last: bool) -> bool {
    let conn = at.conn;
    let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) else {
        return last && conn.end(at.generation);
    };
    guard.settle_traffic();
    if last && stream::unanswered::settle(&mut guard) {
        conn.count_stay(Reason::ShortLived);
    }
    rendezvous::ended(at, &guard.past);
    // Send combined bytes now. A forked relative that still holds the connection may never send again.
    stream::combine::notify_receiver(&mut guard);
    let vi = conn.vi.load(Ordering::Relaxed);
    if last || process_slots::is_known() {
        pair.leaving(vi);
    }
    if last {
        // If bytes are unread, or if the program asked for a reset, TCP ends by a reset. Then the kernel socket
        // sends the reset, and the VI gets no FIN. But a process outside the family may have got the socket, and may
        // read the bytes on TCP.
        let is_read_by_others = conn.rx() == Rx::Back && !conn.is_the_familys();
        let unread = !conn.has(flag::EOF)
            && !is_read_by_others
            && stream::unread(&mut guard, fd).is_ok_and(|n| n > 0);
        if unread {
            let abort = [1i32, 0];
            let _ = call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &abort);
        }
        if !unread && !is_to_abort(fd, conn) {
            stream::finish(&mut guard, fd);
            if let Some(rest) = stream::failover::rest(&guard) {
                linger::over(fd, rest);
            }
        }
        stream::leave(&mut guard);
    }
    let has_ended = last && conn.end(at.generation);
    if !last {
        stream::handler_queue::leave(&mut guard);
        if conn.waiting_here() != 0 {
            // Wake threads of this process that still wait for the connection, so that they find that this process
            // no longer holds it.
            stream::wake_all(&guard);
        }
    }
    let loans = conn.loans.swap(0, Ordering::AcqRel);
    let used = stream::backlog::used(&guard);
    let how = if last { LeaveKind::Ended { used } } else { LeaveKind::Vacated };
    if last && conn.is_awaited() {
        // Wake threads that still wait for the connection, so that they find that it has ended, even if the VI is
        // used again. A thread that begins to wait later takes the lock first.
        stream::wake_all(&guard);
    }
    // Do this under the lock, so that no other thread uses the VI afterwards. A pool slot that is still lent to a
    // program must not serve the VI's next generation.
    if last || process_slots::is_known() {
        pair::lent::leave(&pair, conn.pair.load(Ordering::Relaxed), at, vi, loans, how);
    }
    drop(guard);
    has_ended
}

/// Returns true if the program has asked for a reset at the close (SO_LINGER with a time of 0).
fn is_to_abort(fd: i32, conn: &Conn) -> bool {
    let linger = || call::getsockopt::<[i32; 2]>(fd, libc::SOL_SOCKET, libc::SO_LINGER);
    let is_initial = conn.approach.fresh.load(Ordering::Acquire) != 0 && conn.is_the_familys();
    !is_initial && linger() == Ok([1, 0])
}

/// Records that `to` is a second descriptor of the open file behind `from`.
pub fn dup(from: i32, to: i32) {
    match table::get(from) {
        Entry::Conn(at) if at.conn.is_generation(at.generation) => table::refer(to, at),
        Entry::Epoll(index) => {
            epoll_sets::duplicated(index);
            table::enter_epoll(to, index);
        }
        // The program may set options through either descriptor.
        _ if table::is_noted_tcp(from) => table::note_shared(),
        _ => {}
    }
}

/// Does `shutdown`. `kernel` makes the program's own call.
pub fn shutdown(fd: i32, at: Ref, how: i32, kernel: impl FnOnce() -> Outcome) -> Outcome {
    let conn = at.conn;
    if conn.phase() == Phase::Eligible {
        // Give the rendezvous up, because few bytes are still to come. A later rendezvous would have to report this
        // shutdown.
        rendezvous::shut(at);
    }
    if conn.phase() != Phase::Attached {
        return kernel();
    }
    let result = {
        // Shut the kernel socket under the lock. A send that finds `flag::SHUT_WR` asks the kernel, and must find
        // the kernel socket shut as well.
        let Some(mut guard) = at.attached() else { return kernel() };
        if stream::unanswered::settle(&mut guard) {
            drop(guard);
            fallback::settle(at);
            return kernel();
        }
        let fd = table::current(fd, at);
        stream::ending::has_gone_by_now(&mut guard, fd);
        // The kernel refuses a shutdown of a connection that has ended. Then the peer must not be notified.
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
            // Do not shut the sending half yet. Bytes that must precede the FIN are not on TCP yet.
            true if how == libc::SHUT_RDWR => {
                call::shutdown(fd, libc::SHUT_RD).map(|()| 0).map_err(crate::errno)
            }
            true => Ok(0),
            false => kernel(),
        };
        if conn.is_shut() {
            stream::shut(&mut guard);
        }
        // The kernel may still accept the call, although the program must see the connection as reset.
        if conn.has(flag::RESET) { Err(libc::ENOTCONN) } else { result }
    };
    stream::listeners::notify_own(conn);
    result
}

/// Records that this process holds no connection. Called before this process executes another program. (Connections
/// that the program inherits are back on TCP.)
pub fn leaving() {
    process_slots::leave_by_exec();
}

/// Undoes [`leaving`] after a failed exec.
pub fn staying() {
    process_slots::rejoin();
}

/// Records a new stream socket that is connected or is connecting.
pub fn opened(fd: i32, role: Role, server: Server) {
    if process::is_under_seccomp() || process::is_borrowed() {
        return;
    }
    // Sovia will read the program's memory, so prepare for bad addresses.
    sovia_signal::chain::guards();
    let is_fresh = match (role, server) {
        (Role::Connector, _) => table::is_fresh_tcp(fd),
        (Role::Acceptor, Server::Listener(listener)) => table::is_fresh_tcp(listener),
        (Role::Acceptor, _) => false,
    };
    forget(fd);
    rendezvous::history::start();
    let history = rendezvous::history::Key::of(server).map_or(0, |key| key.word());
    table::enter_conn(fd, role, history, is_fresh);
}

/// Drops the table's entry of `fd`, a number that the kernel has just handed out. The entry is left from an earlier
/// descriptor with this number, which was closed without a hook.
pub fn forget(fd: i32) {
    match table::remove(fd) {
        Entry::Conn(at) => {
            if table::release(at.index) && at.conn.is_generation(at.generation) {
                // The kernel socket is already closed, and `fd` is another descriptor now.
                last_here(-1, at);
            }
        }
        Entry::Epoll(index) => epoll_sets::closed(index, fd),
        Entry::Foreign | Entry::Private => {}
    }
}

/// Closes every descriptor except `keep` and the library's own. For a forked relative that serves only the
/// connections behind `keep`. The relative then does not count as a holder of other connections.
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

/// Records that `fd` has arrived on `channel`, from this process or another process. If this process already has a
/// record of the connection, `fd` becomes one more descriptor of this connection.
pub fn received(channel: i32, fd: i32) {
    match table::conn_of_socket(fd) {
        // The connection has a VI, or may still get one.
        Some((_, at)) if at.is_attached_here() || at.conn.phase() == Phase::Eligible => {
            table::refer(fd, at);
        }
        Some(_) => {}
        None if channel < 0 => other_families::looked_at(fd),
        None => other_families::received(channel, fd, |fd, role| opened(fd, role, Server::Unknown)),
    }
}

/// Records a TCP socket that is not connected yet. Returns false for any other descriptor.
pub fn opening(fd: i32) -> bool {
    if process::is_under_seccomp() {
        return false;
    }
    let listens = || call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    let fresh = table::is_tcp(fd) && listens() == Ok(0) && call::socket_name(fd, true).is_err();
    if fresh {
        opened(fd, Role::Connector, Server::Unknown);
    }
    fresh
}
