//! The relay: keeps a stream alive whose peer cannot put it back on TCP.
//!
//! A grandchild of this process, so that the program's wait calls never see it, keeps the
//! connection with its VI. The program's descriptors become one end of a Unix stream socket, and
//! the relay moves bytes between the other end and the connection until both directions have ended.
//! The program then cannot ask for the connection's addresses any more: the price of losing
//! nothing.
//!
//! A stream that is cut off must not look as if it were whole. The kernel tells a Unix socket `ECONNRESET` when its
//! peer closes with bytes unread. So the relay leaves a byte unread for as long as the connection has not ended. A reset,
//! like the death of the relay itself, reaches the program behind the last byte.

use crate::conn::{Guard, flag};
use crate::ops::{self, Flags};
use crate::stream::{self, Got};
use crate::table::{self, Ref};
use crate::{Errno, Outcome, fallback, family, linger, pollset, process, wait};
use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sync::section;
use sovia_sys::poll::{self, PollFd, ppoll};
use sovia_sys::{Fd, UserSliceMut, call};
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
    let Some(mut socket) = Socket::new(ours, &theirs) else { return false };
    let Ok([begins, begin]) = call::pipe().map(|ends| ends.map(Fd::own)) else { return false };
    let Ok(kernel_socket) =
        Fd::make(|| call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).map(|n| n as i32))
    else {
        return false;
    };
    let nonblocking = at.conn.has(flag::NONBLOCK);
    if at.conn.has(flag::SHUT_WR | flag::PEER_GONE | flag::RESET) {
        // Sending has failed, and goes on to do so.
        let _ = call::shutdown(theirs.raw(), libc::SHUT_WR);
    }
    let kept = [fd, socket.fd.raw(), socket.arrivals.raw(), begins.raw()];
    let life = || {
        await_leave(&begins);
        run(fd, at, &mut socket);
    };
    if !start_orphan(&kept, life) {
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
    ops::leave_to_relay(&descriptors, kernel_socket.raw(), at, |guard| {
        for &fd in &descriptors {
            let cloexec = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
            let _ = call::dup_onto(theirs.raw(), fd);
            let _ = call::fcntl(fd, libc::F_SETFD, cloexec);
        }
        // After that: it may be the last of what is on the VI, and calls go to the kernel from there on.
        put_first(&socket.fd, guard, kernel_socket.raw());
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
            held.retain(|&(fd, at)| fallback::is_still_coming(at) || !is_settled(fd, at));
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
        && let Got::Bytes(n @ 1..) = stream::peek(guard, fd, (&mut piece[..]).into())
    {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let put = call::send(socket.raw(), &piece[..n], flags).unwrap_or(0);
        let mut left = put;
        while left > 0
            && let Got::Bytes(taken @ 1..) = stream::receive(guard, fd, (&mut piece[..left]).into())
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
fn run(fd: i32, at: Ref, socket: &mut Socket) {
    fallback::goes_on_in_relay(at);
    // If this process is killed, the peer is not to take that for the end of the stream.
    let linger = call::getsockopt::<[i32; 2]>(fd, libc::SOL_SOCKET, libc::SO_LINGER);
    let _ = call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]);
    if !both_ways(fd, at, socket) {
        // What waits here is lost. To the peer that must not look like the end of the stream.
        let _ = call::disconnect(fd);
        return;
    }
    let _ = call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger.unwrap_or([0, 0]));
    // As a program would, and TCP may have no room yet for all that it has sent: with this process it would be lost.
    ops::close(fd);
    let _ = call::close(fd);
    linger::await_all();
}

/// The relay's end of the socket that the program has.
struct Socket {
    fd: Fd,
    /// An epoll instance, edge-triggered: `fd` itself is always readable.
    arrivals: Fd,
    /// Bytes at the head of the queue that have been taken before, and lie there for what a close tells the program then.
    stale: usize,
    /// Whether one such byte is to lie there.
    leaves_one: bool,
}

impl Socket {
    /// `theirs`: the program's end, which the program does not have yet.
    fn new(fd: Fd, theirs: &Fd) -> Option<Socket> {
        let arrivals = Fd::make(poll::epoll_create).ok()?;
        let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        poll::epoll_ctl(arrivals.raw(), libc::EPOLL_CTL_ADD, fd.raw(), events, 0).ok()?;
        let stale = call::write(theirs.raw(), &[0]).ok()?;
        Some(Socket { fd, arrivals, stale, leaves_one: true })
    }

    /// Takes the edge that was given for what has arrived.
    fn take_edge(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }];
        let _ = poll::epoll_wait(self.arrivals.raw(), &mut events, Some(0), None);
    }

    /// Looks at what the program has written; how many bytes, with those that are stale.
    fn look(&self, piece: &mut [u8]) -> Result<usize, Errno> {
        match call::recv(self.fd.raw(), piece, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
            Ok(found) => Ok(found),
            Err(call::Errno::EAGAIN) => Ok(0),
            Err(error) => Err(crate::errno(error)),
        }
    }

    /// Receives what the program has written, as far as there is room in `piece`, without waiting.
    fn receive(&mut self, piece: &mut [u8]) -> Outcome {
        let fd = self.fd.raw();
        // In this order: what comes before the end is found.
        let has_ended = poll::probe(fd, libc::POLLRDHUP) & (libc::POLLRDHUP | libc::POLLHUP) != 0;
        let found = self.look(&mut *piece)?;
        if found <= self.stale {
            let error = || call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
            return match has_ended.then(error) {
                None => Err(libc::EAGAIN),
                Some(Ok(0)) => Ok(0),
                Some(Ok(error)) => Err(error),
                Some(Err(error)) => Err(crate::errno(error)),
            };
        }
        // The last byte stays behind.
        let (n, stale) = (found - self.stale, usize::from(self.leaves_one));
        if found > stale {
            call::recv(fd, &mut piece[..found - stale], libc::MSG_DONTWAIT)
                .map_err(crate::errno)?;
        }
        piece.copy_within(self.stale..found, 0);
        self.stale = stale;
        Ok(n)
    }

    /// Takes the urgent byte that comes next (MSG_OOB), if the program has written nothing before it. Unix sockets have such bytes since
    /// Linux 5.15.
    fn receive_urgent(&mut self) -> Option<u8> {
        let fd = self.fd.raw();
        // Without a stale byte a look passes over the mark, which stays where the byte was.
        let is_next = match self.stale {
            0 => call::is_at_mark(fd),
            stale => self.look(&mut [0; 2]) == Ok(stale),
        };
        let mut byte = [0];
        let flags = libc::MSG_OOB | libc::MSG_DONTWAIT;
        if !is_next || call::recv(fd, &mut byte, flags) != Ok(1) {
            return None;
        }
        self.take_stale();
        Some(byte[0])
    }

    /// Takes the byte that has stayed behind: it keeps a mark from being passed.
    fn take_stale(&mut self) {
        while self.stale > 0
            && let Ok(n @ 1..) = call::recv(self.fd.raw(), &mut [0; 1], libc::MSG_DONTWAIT)
        {
            self.stale -= n;
        }
    }

    /// Tells the program that nothing more comes, and that all has come.
    fn end(&mut self) {
        self.leaves_one = false;
        self.take_stale();
        let _ = call::shutdown(self.fd.raw(), libc::SHUT_WR);
    }

    /// Refuses what the program has written and writes from here on, as a connection that has failed does.
    fn refuse(&self) {
        let fd = self.fd.raw();
        let _ = call::shutdown(fd, libc::SHUT_RD);
        // A program that waits for room finds the error.
        let mut piece = vec![0; PIECE];
        while let Ok(unread) = call::bytes_unread(fd)
            && unread > self.stale
        {
            let n = (unread - self.stale).min(PIECE);
            if call::recv(fd, &mut piece[..n], libc::MSG_DONTWAIT).is_err() {
                break;
            }
        }
    }

    /// Returns true if the program has closed its end. One that has only shut its receiving half goes on.
    fn is_closed(&self) -> bool {
        poll::probe(self.fd.raw(), 0) & libc::POLLHUP != 0
    }
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Flow {
    waiting: VecDeque<u8>,
    /// The source has ended; what waits is the last.
    ended: bool,
    /// The end has been passed on to the sink.
    told: bool,
    /// The source has failed: what waits is the last that came, and more is missing.
    cut: bool,
    /// The sink takes nothing any more: what comes is thrown away.
    discards: bool,
}

/// As much as TCP's buffers would take: a program that writes before it reads must not hang here
/// either.
const WAITING_MAX: usize = 8 << 20;

impl Flow {
    fn has_room(&self) -> bool {
        !self.ended && self.waiting.len() < WAITING_MAX
    }

    /// Puts what `source` gives behind the rest.
    fn take(&mut self, result: Outcome, piece: &[u8]) {
        match result {
            Ok(0) => self.ended = true,
            Ok(_) if self.discards => {}
            Ok(n) => self.waiting.extend(&piece[..n]),
            Err(libc::EAGAIN | libc::EINTR) => {}
            Err(_) => (self.ended, self.cut) = (true, true),
        }
    }

    /// Gives the first bytes to `sink`.
    ///
    /// # Errors
    /// Why that has failed.
    fn give(&mut self, sink: impl FnOnce(&[u8]) -> Outcome) -> Result<(), Errno> {
        let (first, _) = self.waiting.as_slices();
        if first.is_empty() {
            return Ok(());
        }
        match sink(first) {
            Ok(n) => drop(self.waiting.drain(..n)),
            Err(libc::EAGAIN | libc::EINTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Takes nothing more and gives nothing more.
    fn stop(&mut self) {
        self.waiting.clear();
        (self.ended, self.told) = (true, true);
    }

    /// Whether all that came has been given to the sink, and more is missing.
    fn is_cut(&self) -> bool {
        self.cut && self.ended && self.waiting.is_empty()
    }

    /// Whether the end is to be passed on to the sink now.
    fn ends(&mut self) -> bool {
        let now = self.ended && !self.cut && self.waiting.is_empty() && !self.told;
        self.told |= now;
        now
    }
}

/// Moves bytes in both directions until both have ended. False if one of them has failed before.
fn both_ways(fd: i32, at: Ref, socket: &mut Socket) -> bool {
    let mut piece = vec![0u8; PIECE];
    let piece = &mut piece[..];
    let (mut inbound, mut outbound) = (Flow::default(), Flow::default());
    // The program may have written something that has not been taken.
    let mut may_take = true;
    // A byte that the program has sent as urgent, behind all that waits.
    let mut urgent = None;
    let mut has_failed = false;
    while !(inbound.told && outbound.told) {
        // A thread of the program's may be in the kernel's receive since before the connection had a VI. What
        // comes next is that call's.
        let is_free = at.conn.rx_pins.is_empty();
        let entry = |fd: i32, events: i16| PollFd {
            fd: if events == 0 { -1 } else { fd },
            events,
            revents: 0,
        };
        let when = |is_wanted: bool, events: i16| if is_wanted { events } else { 0 };
        let takes = outbound.has_room() && urgent.is_none();
        let from_peer = when(inbound.has_room() && is_free, libc::POLLIN);
        let to_peer = when(!outbound.waiting.is_empty(), libc::POLLOUT);
        let mut fds = [
            entry(fd, from_peer | to_peer),
            entry(socket.fd.raw(), when(!inbound.waiting.is_empty(), libc::POLLOUT)),
            entry(socket.arrivals.raw(), when(takes && !may_take, libc::POLLIN)),
        ];
        let looks = !is_free || urgent.is_some();
        let pause = if may_take && takes { Some(0) } else { looks.then_some(LOOK_NS) };
        if pollset::wait(&mut fds, pollset::By::Poll, pause, None).is_err() {
            return false;
        }
        if is_free && inbound.has_room() && fds[0].revents & !libc::POLLOUT != 0 {
            let result = receive(fd, at, piece);
            if inbound.discards && matches!(result, Ok(1..)) && socket.is_closed() {
                return false;
            }
            inbound.take(result, piece);
        }
        if fds[2].revents != 0 {
            socket.take_edge();
            may_take = true;
        }
        if may_take && takes {
            urgent = socket.receive_urgent();
            let result = if urgent.is_some() { Err(libc::EAGAIN) } else { socket.receive(piece) };
            may_take = urgent.is_some() || result != Err(libc::EAGAIN);
            outbound.take(result, piece);
            if outbound.cut {
                return false;
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let given =
            inbound.give(|bytes| call::send(socket.fd.raw(), bytes, flags).map_err(crate::errno));
        if given.is_err() && socket.is_closed() {
            return false;
        }
        if given.is_err() {
            (inbound.discards, _) = (true, inbound.waiting.clear());
        }
        let taken = outbound.give(|bytes| {
            let kernel = || call::send(fd, bytes, flags).map_err(crate::errno);
            let how = Flags { no_signal: true, dont_wait: true, ..Flags::default() };
            ops::send(fd, at, bytes.into(), how, kernel)
        });
        let taken = taken.and_then(|()| match urgent {
            Some(byte) if outbound.waiting.is_empty() && !owes(fd, at) => {
                match call::send(fd, &[byte], flags | libc::MSG_OOB) {
                    Err(call::Errno::EAGAIN | call::Errno::EINTR) => Ok(()),
                    sent => {
                        urgent = None;
                        sent.map(drop).map_err(crate::errno)
                    }
                }
            }
            _ => Ok(()),
        });
        if let Err(error) = taken {
            // The program may read what came before the failure. The kernel has reported the error here, once.
            (has_failed, inbound.cut) = (true, inbound.cut || error != libc::EPIPE);
            outbound.stop();
            socket.refuse();
        }
        if inbound.is_cut() {
            return false;
        }
        if inbound.ends() {
            socket.end();
        }
        if outbound.ends() {
            let kernel = || call::shutdown(fd, libc::SHUT_WR).map(|()| 0).map_err(crate::errno);
            let _ = ops::shutdown(fd, at, libc::SHUT_WR, kernel);
        }
    }
    !has_failed
}

/// Returns true while bytes that were unread on the VI must go on TCP first.
fn owes(fd: i32, at: Ref) -> bool {
    at.attached().is_some_and(|mut guard| stream::returned::holds_back(&mut guard, fd))
}

fn receive(fd: i32, at: Ref, piece: &mut [u8]) -> Outcome {
    let piece = UserSliceMut::from(piece);
    let flags = Flags { dont_wait: true, ..Flags::default() };
    let kernel = || call::recv(fd, piece, libc::MSG_DONTWAIT).map_err(crate::errno);
    ops::receive(fd, at, piece, flags, kernel)
}
