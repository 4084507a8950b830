//! The relay: keeps a stream alive whose peer cannot put it back on TCP.
//!
//! A grandchild of this process, so that the program's wait calls never see it, keeps the
//! connection with its VI. The program's descriptors become one end of a Unix stream socket, and
//! the relay moves bytes between the other end and the connection until both directions have ended.
//! The program then cannot ask for the connection's addresses any more: the price of losing
//! nothing.

use crate::conn::{Guard, flag};
use crate::ops::{self, Flags};
use crate::stream::{self, Got};
use crate::table::{self, Ref};
use crate::{Outcome, family, linger, pollset, process, retreat, wait};
use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sync::section;
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{Fd, call};
use std::collections::VecDeque;
use std::hash::DefaultHasher;

/// Between two looks whether a call of the program's is over.
const LOOK_NS: u64 = 10_000_000;
/// Between two looks at connections whose peers are stopped.
const HELD_NS: u64 = 50_000_000;
/// Bytes moved at a time.
const PIECE: usize = 64 << 10;

/// Puts a relay in the place of every descriptor of the connection. False if none can be had.
///
/// Other threads may be in calls on it meanwhile. Once the
/// process has left the connection they go on with the relay's socket, which has the descriptors' numbers.
/// The relay does not begin before. For the thread that hands the connection over, in a section.
pub(crate) fn take_over(fd: i32, at: Ref) -> bool {
    let pair = Fd::pair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    let Ok((ours, theirs)) = pair else { return false };
    let Ok([begins, begin]) = call::pipe().map(|ends| ends.map(Fd::own)) else { return false };
    let Ok(anchor) = Fd::make(|| call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32))
    else {
        return false;
    };
    let nonblocking = at.conn.has(flag::NONBLOCK);
    if at.conn.has(flag::SHUT_WR | flag::PEER_GONE | flag::RESET) {
        // Sending has failed, and goes on to do so.
        let _ = call::shutdown(theirs.raw(), libc::SHUT_WR);
    }
    let life = || {
        await_leave(&begins);
        run(fd, at, &ours);
    };
    if !start_orphan(&[fd, ours.raw(), begins.raw()], life) {
        return false;
    }
    if nonblocking {
        let _ = call::fcntl(theirs.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize);
    }
    let mut descriptors = Vec::new();
    table::for_each_conn(|fd, other| {
        if other.same(at) {
            descriptors.push(fd);
        }
    });
    ops::leave_to_relay(&descriptors, anchor.raw(), at, |guard| {
        for &fd in &descriptors {
            let cloexec = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
            let _ = call::dup_onto(theirs.raw(), fd);
            let _ = call::fcntl(fd, libc::F_SETFD, cloexec);
        }
        // After that: it may be the last of what is on the VI, and calls go to the kernel from there on.
        put_first(&ours, guard, anchor.raw());
    });
    let _ = call::write(begin.raw(), &[0]);
    true
}

/// Starts a grandchild of this process, which the program's wait calls do not find, for `life`. It has no descriptors
/// but `keep`, and holds no other connection. False if it cannot be had. In a section.
fn start_orphan(keep: &[i32], life: impl FnOnce()) -> bool {
    // SAFETY: libc's fork, so that its locks and ours are whole in the child; the child only starts another one and
    // leaves without running the program's exit handlers.
    match unsafe { libc::fork() } {
        -1 => false,
        0 => {
            wait::ignore_cancellation();
            section::leave();
            process::become_relay();
            // Here: it is over when this process has been reaped.
            ops::keep_only(keep);
            // SAFETY: as above. The grandchild has a place of its own in the family before this process, whose
            // place it would have to wait for, has gone: no process finds the connection without a holder.
            match unsafe { libc::fork() } {
                0 => {
                    life();
                    call::exit_now();
                }
                relay => process::exit(i32::from(relay < 0)),
            }
        }
        child => call::reap(child),
    }
}

/// Which connections [`accompany`] was last called for, and by which process.
static ACCOMPANIED: AtomicU64 = AtomicU64::new(0);

/// Leaves connections that are going back to a process of their own, since this one is about to become another
/// program, and their peers are stopped. It holds them until they are back.
pub(crate) fn accompany(connections: &[(i32, Ref)]) -> bool {
    let mut named = DefaultHasher::new();
    call::getpid().hash(&mut named);
    connections.iter().for_each(|(_, at)| (at.index, at.generation).hash(&mut named));
    if ACCOMPANIED.swap(named.finish(), Ordering::Relaxed) == named.finish() {
        // The last exec has failed.
        return true;
    }
    let _inside = section::inside();
    let descriptors: Vec<i32> = connections.iter().map(|&(fd, _)| fd).collect();
    start_orphan(&descriptors, || {
        let mut held = connections.to_vec();
        while !held.is_empty() {
            held.retain(|&(fd, at)| retreat::is_still_coming(at) || !is_settled(fd, at));
            let _ = ppoll(&mut [], Some(HELD_NS), None);
        }
    })
}

/// Whether a connection that has been held needs nothing more. If the peer has died over it, what is unread is out of
/// the new program's reach, and that must not look as if nothing were missing.
fn is_settled(fd: i32, at: Ref) -> bool {
    let is_cut = at.is_attached_here() && !family::is_shared(at.conn);
    !is_cut || call::disconnect(fd) != Err(call::Errno::EBUSY)
}

/// Puts what comes next into the relay's socket: what the program has been told is there must not be missing until
/// the relay runs. `fd`: a descriptor of the connection.
fn put_first(socket: &Fd, guard: &mut Guard<'_>, fd: i32) {
    if !guard.conn.rx_pins.is_empty() {
        // What comes next on TCP is that call's.
        return;
    }
    let mut piece = vec![0u8; PIECE];
    // Only then: at the end, a look would take the error that is the program's.
    while stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && let Got::Bytes(n @ 1..) = stream::peek(guard, fd, &mut piece)
    {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let put = call::send(socket.raw(), &piece[..n], flags).unwrap_or(0);
        let mut left = put;
        while left > 0
            && let Got::Bytes(taken @ 1..) = stream::receive(guard, fd, &mut piece[..left])
        {
            left -= taken;
        }
        if put < n {
            break;
        }
    }
}

/// Until the process has left the connection, or has ended.
fn await_leave(begins: &Fd) {
    let mut fds = [PollFd { fd: begins.raw(), events: libc::POLLIN, revents: 0 }];
    while ppoll(&mut fds, None, None) == Err(call::Errno::EINTR) {}
}

/// The relay's life.
fn run(fd: i32, at: Ref, socket: &Fd) {
    retreat::goes_on_in_relay(at);
    if !both_ways(fd, at, socket) {
        // What waits here is lost. To the peer that must not look like the end of the stream.
        let _ = call::disconnect(fd);
        return;
    }
    // As a program would, and TCP may have no room yet for all that it has sent: with this process it would be lost.
    ops::close(fd);
    let _ = call::close(fd);
    linger::await_all();
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Flow {
    waiting: VecDeque<u8>,
    /// The source has ended; what waits is the last.
    ended: bool,
    /// The end has been passed on to the sink.
    told: bool,
}

/// As much as TCP's buffers would take: a program that writes before it reads must not hang here
/// either.
const WAITING_MAX: usize = 8 << 20;

impl Flow {
    fn has_room(&self) -> bool {
        !self.ended && self.waiting.len() < WAITING_MAX
    }

    /// Puts what `source` gives behind the rest. False if it has failed.
    fn take(&mut self, result: Outcome, piece: &[u8]) -> bool {
        match result {
            Ok(0) => self.ended = true,
            Ok(n) => self.waiting.extend(&piece[..n]),
            Err(libc::EAGAIN | libc::EINTR) => {}
            Err(_) => return false,
        }
        true
    }

    /// Gives the first bytes to `sink`. False if it has failed.
    fn give(&mut self, sink: impl FnOnce(&[u8]) -> Outcome) -> bool {
        let (first, _) = self.waiting.as_slices();
        if first.is_empty() {
            return true;
        }
        match sink(first) {
            Ok(n) => {
                self.waiting.drain(..n);
                true
            }
            Err(libc::EAGAIN | libc::EINTR) => true,
            Err(_) => false,
        }
    }

    /// Whether the end is to be passed on to the sink now.
    fn ends(&mut self) -> bool {
        let now = self.ended && self.waiting.is_empty() && !self.told;
        self.told |= now;
        now
    }
}

/// Moves bytes in both directions until both have ended. False if one of them has failed before.
fn both_ways(fd: i32, at: Ref, socket: &Fd) -> bool {
    let mut piece = vec![0u8; PIECE];
    let piece = &mut piece[..];
    let (mut inbound, mut outbound) = (Flow::default(), Flow::default());
    while !(inbound.told && outbound.told) {
        // A thread of the program's may be in the kernel's receive since before the connection had a VI. What
        // comes next is that call's.
        let is_free = at.conn.rx_pins.is_empty();
        let interest = |from: &Flow, to: &Flow| {
            let input = if from.has_room() { libc::POLLIN } else { 0 };
            let output = if to.waiting.is_empty() { 0 } else { libc::POLLOUT };
            input | output
        };
        let entry = |fd: i32, events: i16| PollFd {
            fd: if events == 0 { -1 } else { fd },
            events,
            revents: 0,
        };
        let mut fds = [
            entry(fd, interest(&inbound, &outbound)),
            entry(socket.raw(), interest(&outbound, &inbound)),
        ];
        if !is_free {
            fds[0].events &= !libc::POLLIN;
        }
        if pollset::wait(&mut fds, (!is_free).then_some(LOOK_NS), None).is_err() {
            return false;
        }
        if is_free && inbound.has_room() && fds[0].revents & !libc::POLLOUT != 0 {
            let result = receive(fd, at, piece);
            if !inbound.take(result, piece) {
                return false;
            }
        }
        if outbound.has_room() && fds[1].revents & !libc::POLLOUT != 0 {
            let result = call::recv(socket.raw(), piece, libc::MSG_DONTWAIT).map_err(crate::errno);
            if !outbound.take(result, piece) {
                return false;
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let given =
            inbound.give(|bytes| call::send(socket.raw(), bytes, flags).map_err(crate::errno));
        let taken = outbound.give(|bytes| {
            let kernel = || call::send(fd, bytes, flags).map_err(crate::errno);
            let how = Flags { no_signal: true, dont_wait: true, ..Flags::default() };
            ops::send(fd, at, bytes, how, kernel)
        });
        if !given || !taken {
            return false;
        }
        if inbound.ends() {
            let _ = call::shutdown(socket.raw(), libc::SHUT_WR);
        }
        if outbound.ends() {
            let kernel = || call::shutdown(fd, libc::SHUT_WR).map(|()| 0).map_err(crate::errno);
            let _ = ops::shutdown(fd, at, libc::SHUT_WR, kernel);
        }
    }
    true
}

fn receive(fd: i32, at: Ref, piece: &mut [u8]) -> Outcome {
    let kernel_piece: *mut [u8] = piece;
    let flags = Flags { dont_wait: true, ..Flags::default() };
    ops::receive(fd, at, piece, flags, || {
        // SAFETY: the closure runs instead of any other use of the same buffer, within this call.
        let piece = unsafe { &mut *kernel_piece };
        call::recv(fd, piece, libc::MSG_DONTWAIT).map_err(crate::errno)
    })
}
