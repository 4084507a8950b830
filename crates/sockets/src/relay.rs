//! The relay: keeps a stream alive if its peer cannot put it back on TCP.
//!
//! The relay is a grandchild of this process, so that the program's wait calls never see it. The relay keeps the
//! connection with its VI. Each of the program's descriptors for the connection becomes one end of a Unix stream
//! socket. The relay moves bytes between this socket's other end and the connection until both directions have
//! ended. The program loses no byte, but it cannot ask for the connection's addresses any more.
//!
//! A stream that is cut off must not look complete to the program. A Unix socket reports `ECONNRESET` if the other
//! end closes with bytes unread. So the relay leaves one byte of the program unread until the connection has ended.
//! If the connection is reset or the relay dies, the program gets `ECONNRESET` after the last byte.
//!
//! Relatives may share the connection. Then the relay takes only what the program receives ([`loan`]).

mod loan;

use crate::conn::flag;
use crate::ops::{self, Flags};
use crate::stream;
use crate::table::{self, Ref};
use crate::{Errno, Outcome, fallback, family, linger, pollset, process, wait};
use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use loan::RelayLoan;
use sovia_sync::critical_section;
use sovia_sys::poll::{self, PollFd, ppoll};
use sovia_sys::{Fd, UserSliceMut, call};
use std::collections::VecDeque;
use std::hash::DefaultHasher;

/// Interval in nanoseconds between the relay's checks for a change that poll does not report.
const LOOK_NS: u64 = 10_000_000;
/// Interval in nanoseconds between checks of connections whose peers are stopped.
const HELD_NS: u64 = 50_000_000;
/// Largest number of bytes that the relay moves at a time.
const PIECE: usize = 64 << 10;

/// Replaces every descriptor of the connection `at` with the socket of a new relay. Returns false if no relay can
/// be started.
///
/// Other threads may be in calls on the connection. Once this process has left the connection, these threads
/// continue on the relay's socket, which has the same descriptor numbers. Only then does the relay begin. The
/// caller moves the connection to the relay in a critical section.
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
    let is_over = || call::tcp_state(fd).is_none_or(call::TcpState::is_closed);
    if at.conn.has(flag::SHUT_WR | flag::RESET) || at.conn.has(flag::PEER_GONE) && is_over() {
        // Sends on the connection fail, so sends on the relay's socket must fail too. TCP takes the first send to a
        // peer that has died in good order, and so does the relay.
        let _ = call::shutdown(theirs.raw(), libc::SHUT_WR);
    }
    let kept = [fd, socket.fd.raw(), socket.arrivals.raw(), begins.raw()];
    let is_lent = family::is_shared(at.conn);
    let work = || {
        await_leave(&begins);
        run(fd, at, &mut socket, is_lent);
    };
    if !start_orphan(&kept, work) {
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
    if is_lent {
        loan::begin(at);
    }
    ops::leave_to_relay(&descriptors, kernel_socket.raw(), at, |guard| {
        for &fd in &descriptors {
            let cloexec = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
            let _ = call::dup_onto(theirs.raw(), fd);
            let _ = call::fcntl(fd, libc::F_SETFD, cloexec);
        }
        // Put the bytes after the exchange of descriptors. After the last bytes on the VI, calls go to the kernel
        // and must find the relay's socket.
        if !is_lent {
            let _ = fallback::put_unread(&socket.fd, guard, kernel_socket.raw());
        }
    });
    let _ = call::write(begin.raw(), &[0]);
    true
}

/// Starts a grandchild of this process that runs `work`. The program's wait calls do not see the grandchild. The
/// grandchild has only the descriptors `keep`, and holds no other connection. Returns false if the grandchild
/// cannot be started. Call this function in a critical section.
fn start_orphan(keep: &[i32], work: impl FnOnce()) -> bool {
    // SAFETY: libc's fork takes libc's and Sovia's locks, so the child finds them in a consistent state. The child only
    // forks again, and exits without the program's exit handlers.
    match unsafe { libc::fork() } {
        -1 => false,
        0 => {
            wait::ignore_cancellation();
            critical_section::leave();
            process::become_relay();
            // Close the descriptors here in the child, so that they are closed when the parent's `call::reap`
            // returns.
            ops::keep_only(keep);
            // SAFETY: libc's fork takes libc's and Sovia's locks, and the grandchild exits without the program's exit
            // handlers. The grandchild has its own process slot before this process ends, so the connection always has
            // a holder.
            match unsafe { libc::fork() } {
                0 => {
                    work();
                    call::exit_now();
                }
                relay => process::exit(i32::from(relay < 0)),
            }
        }
        child => call::reap(child),
    }
}

/// Hash of the connections that [`accompany`] was last called for, and of the calling process.
static ACCOMPANIED: AtomicU64 = AtomicU64::new(0);

/// Starts a process that holds `connections` until their fallback to TCP is over. This process is about to execute
/// another program, and the peers of these connections are stopped.
pub(crate) fn accompany(connections: &[(i32, Ref)]) -> bool {
    let mut named = DefaultHasher::new();
    call::getpid().hash(&mut named);
    connections.iter().for_each(|(_, at)| (at.index, at.generation).hash(&mut named));
    if ACCOMPANIED.swap(named.finish(), Ordering::Relaxed) == named.finish() {
        // The last exec has failed, and the process started for it still holds the connections.
        return true;
    }
    let _inside = critical_section::inside();
    let descriptors: Vec<i32> = connections.iter().map(|&(fd, _)| fd).collect();
    start_orphan(&descriptors, || {
        let mut held = connections.to_vec();
        while !held.is_empty() {
            held.retain(|&(fd, at)| fallback::is_still_pending(at) || !is_settled(fd, at));
            // Leave as soon as the last fallback is over, because the peer gets no FIN before.
            match held.last() {
                Some((_, at)) if at.conn.is_going_back() => fallback::await_peer(*at, HELD_NS),
                Some(_) => drop(ppoll(&mut [], Some(HELD_NS), None)),
                None => {}
            }
        }
    })
}

/// Returns true once the connection needs no holder any more. If the peer died during the fallback, the new program
/// cannot reach the unread bytes. Then this function resets the connection, so that the stream does not look
/// complete.
fn is_settled(fd: i32, at: Ref) -> bool {
    let is_cut = at.is_attached_here() && !family::is_shared(at.conn);
    !is_cut || call::disconnect(fd) != Err(call::Errno::EBUSY)
}

/// Waits until the process that started the relay has left the connection or has ended.
fn await_leave(begins: &Fd) {
    let mut fds = [PollFd { fd: begins.raw(), events: libc::POLLIN, revents: 0 }];
    while ppoll(&mut fds, None, None) == Err(call::Errno::EINTR) {}
}

/// Runs the relay until the connection has ended. `is_lent` says that relatives share the connection.
fn run(fd: i32, at: Ref, socket: &mut Socket, is_lent: bool) {
    fallback::goes_on_in_relay(at);
    // Make TCP send a reset if the relay is killed. The peer must not take the relay's death for the end of the
    // stream. Relatives that share the socket keep the connection alive.
    let linger = (!is_lent).then(|| {
        let linger = call::getsockopt::<[i32; 2]>(fd, libc::SOL_SOCKET, libc::SO_LINGER);
        let _ = call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]);
        linger.unwrap_or([0, 0])
    });
    let is_whole = both_ways(fd, at, socket, is_lent.then(|| RelayLoan::new(at)));
    // A relative may have moved the connection back to TCP. Then the family does not know which processes have it.
    let may_be_others = is_lent && !at.is_attached_here() || family::is_shared(at.conn);
    if !is_whole && !may_be_others {
        // The waiting bytes are lost. Reset the connection, so that the peer does not take this for the end of the
        // stream.
        let _ = call::disconnect(fd);
        return;
    }
    if let Some(linger) = linger {
        let _ = call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    }
    // Close the connection as a program would. TCP may have no room yet for all sent bytes. These bytes would be
    // lost if the relay ended now, so the relay waits.
    ops::close(fd);
    let _ = call::close(fd);
    linger::await_all();
}

/// The relay's end of the Unix socket that it shares with the program.
struct Socket {
    fd: Fd,
    /// An edge-triggered epoll instance with `fd`. A poll of `fd` itself would always find the byte that stays
    /// unread.
    arrivals: Fd,
    /// Number of bytes at the head of the receive queue that the relay has already copied. These bytes stay in the
    /// queue, so that a close reports `ECONNRESET` to the program.
    stale: usize,
    /// Set while one copied byte must stay in the queue.
    leaves_one: bool,
}

impl Socket {
    /// Makes the relay's end from `fd`. Writes a first stale byte to `theirs`, which will become the program's end.
    fn new(fd: Fd, theirs: &Fd) -> Option<Socket> {
        let arrivals = Fd::make(poll::epoll_create).ok()?;
        let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        poll::epoll_ctl(arrivals.raw(), libc::EPOLL_CTL_ADD, fd.raw(), events, 0).ok()?;
        let stale = call::write(theirs.raw(), &[0]).ok()?;
        Some(Socket { fd, arrivals, stale, leaves_one: true })
    }

    /// Consumes the epoll event for the bytes that have arrived.
    fn take_edge(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }];
        let _ = poll::epoll_wait(self.arrivals.raw(), &mut events, Some(0), None);
    }

    /// Peeks at the bytes that the program has written. Returns the number of bytes in `piece`, including stale
    /// bytes.
    fn look(&self, piece: &mut [u8]) -> Result<usize, Errno> {
        match call::recv(self.fd.raw(), piece, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
            Ok(found) => Ok(found),
            Err(call::Errno::EAGAIN) => Ok(0),
            Err(error) => Err(crate::errno(error)),
        }
    }

    /// Receives bytes that the program has written, up to the length of `piece`, without waiting.
    fn receive(&mut self, piece: &mut [u8]) -> Outcome {
        let fd = self.fd.raw();
        // Check for the end first. Bytes that the program wrote before the end are then found by `look`.
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
        // Leave the last byte in the queue.
        let (n, stale) = (found - self.stale, usize::from(self.leaves_one));
        if found > stale {
            call::recv(fd, &mut piece[..found - stale], libc::MSG_DONTWAIT)
                .map_err(crate::errno)?;
        }
        piece.copy_within(self.stale..found, 0);
        self.stale = stale;
        Ok(n)
    }

    /// Takes an urgent byte (MSG_OOB) if the program has written nothing before this byte. Unix sockets have urgent
    /// bytes since Linux 5.15.
    fn receive_urgent(&mut self) -> Option<u8> {
        let fd = self.fd.raw();
        // If `stale` is 0, a peek would skip the urgent mark, so ask the kernel for the mark.
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

    /// Takes the stale byte out of the queue.
    fn take_stale(&mut self) {
        while self.stale > 0
            && let Ok(n @ 1..) = call::recv(self.fd.raw(), &mut [0; 1], libc::MSG_DONTWAIT)
        {
            self.stale -= n;
        }
    }

    /// Reports the end of the stream to the program.
    fn end(&mut self) {
        self.leaves_one = false;
        self.take_stale();
        let _ = call::shutdown(self.fd.raw(), libc::SHUT_WR);
    }

    /// Refuses bytes that the program has written or will write. Then the program's sends fail like on a failed
    /// connection.
    fn refuse(&self) {
        let fd = self.fd.raw();
        let _ = call::shutdown(fd, libc::SHUT_RD);
        // Make room, so that a program that waits for room wakes and finds the error.
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

    /// Returns true if the program has closed its end. Returns false if the program has only shut its receiving
    /// half.
    fn is_closed(&self) -> bool {
        poll::probe(self.fd.raw(), 0) & libc::POLLHUP != 0
    }
}

/// Bytes on their way from a source to a sink: from the connection to the program, or from the program to the
/// connection.
#[derive(Default)]
struct Flow {
    waiting: VecDeque<u8>,
    /// Set once the source has ended. No bytes come after `waiting`.
    ended: bool,
    /// Set once the end of the stream has been passed on to the sink.
    passed_on: bool,
    /// Set once the source has failed. Bytes after `waiting` are lost.
    cut: bool,
    /// Set once the sink takes no more bytes. Further bytes are dropped.
    discards: bool,
}

/// Limit of waiting bytes in a direction, as large as TCP's buffers. A program that writes much before it reads
/// must not hang with a relay if it would not with TCP.
const WAITING_MAX: usize = 8 << 20;

impl Flow {
    fn has_room(&self) -> bool {
        !self.ended && self.waiting.len() < WAITING_MAX
    }

    /// Appends the bytes that the source has put into `piece`, or records the source's end or failure.
    fn take(&mut self, result: Outcome, piece: &[u8]) {
        match result {
            Ok(0) => self.ended = true,
            Ok(_) if self.discards => {}
            Ok(n) => self.waiting.extend(&piece[..n]),
            Err(libc::EAGAIN | libc::EINTR) => {}
            Err(_) => (self.ended, self.cut) = (true, true),
        }
    }

    /// Gives the first waiting bytes to `sink`, and removes those that `sink` took.
    ///
    /// # Errors
    /// The error of `sink`.
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

    /// Drops the waiting bytes, and marks both ends of the flow as ended.
    fn stop(&mut self) {
        self.waiting.clear();
        (self.ended, self.passed_on) = (true, true);
    }

    /// Returns true if the source has failed and the sink has all bytes that came before the failure.
    fn is_cut(&self) -> bool {
        self.cut && self.ended && self.waiting.is_empty()
    }

    /// Returns true once, at the time to pass the end of the stream on to the sink.
    fn ends(&mut self) -> bool {
        let now = self.ended && !self.cut && self.waiting.is_empty() && !self.passed_on;
        self.passed_on |= now;
        now
    }
}

/// Moves bytes in both directions until both have ended. Returns false if a direction has failed. `loan` is `None` if
/// no relative shares the connection.
fn both_ways(fd: i32, at: Ref, socket: &mut Socket, mut loan: Option<RelayLoan>) -> bool {
    let mut piece = vec![0u8; PIECE];
    let piece = &mut piece[..];
    let (mut inbound, mut outbound) = (Flow::default(), Flow::default());
    // Set while the program may have written bytes that the relay has not taken.
    let mut may_take = true;
    // An urgent byte from the program. The relay sends the urgent byte after all waiting bytes.
    let mut urgent = None;
    let mut has_failed = false;
    while !(inbound.passed_on && outbound.passed_on) {
        let is_settled = |loan: &mut RelayLoan| loan.settle(fd, socket, piece).is_ok();
        if !loan.as_mut().is_none_or(is_settled) {
            return false;
        }
        let is_out = loan.as_ref().is_some_and(RelayLoan::is_out);
        // A thread of the program may have been in the kernel's receive since before the connection had a VI. The
        // next bytes on TCP belong to this thread's call.
        let is_free = at.conn.rx_pins.is_empty();
        let entry = |fd: i32, events: i16| PollFd {
            fd: if events == 0 { -1 } else { fd },
            events,
            revents: 0,
        };
        let when = |is_wanted: bool, events: i16| if is_wanted { events } else { 0 };
        let takes = outbound.has_room() && urgent.is_none();
        let receives = inbound.has_room() && is_free && !is_out;
        let from_peer = when(receives, libc::POLLIN);
        let to_peer = when(!outbound.waiting.is_empty(), libc::POLLOUT);
        let mut fds = [
            entry(fd, from_peer | to_peer),
            entry(socket.fd.raw(), when(!inbound.waiting.is_empty(), libc::POLLOUT)),
            entry(socket.arrivals.raw(), when(takes && !may_take, libc::POLLIN)),
        ];
        let looks = !is_free || urgent.is_some() || is_out;
        let pause = if may_take && takes { Some(0) } else { looks.then_some(LOOK_NS) };
        if pollset::wait(&mut fds, pollset::PollCall::Poll, pause, None).is_err() {
            return false;
        }
        if receives && fds[0].revents & !libc::POLLOUT != 0 {
            let result = match &mut loan {
                Some(loan) => loan.lend(fd, socket, piece),
                None => receive(fd, at, piece),
            };
            if inbound.discards && matches!(result, Ok(1..)) && socket.is_closed() {
                return false;
            }
            match (&loan, result) {
                (Some(_), Ok(1..)) => {}
                (Some(_), Err(libc::EPIPE)) if socket.is_closed() => return false,
                (Some(_), Err(libc::EPIPE)) => inbound.stop(),
                _ => inbound.take(result, piece),
            }
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
                if let Some(loan) = &mut loan {
                    loan.end_unread();
                }
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
            // Let the program read the bytes that came before the failure. The kernel reports the error only once,
            // and the relay has got this error.
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
            // A close of the program's end does not end the stream while relatives share the connection.
            if !(socket.is_closed() && family::is_shared(at.conn)) {
                let kernel = || call::shutdown(fd, libc::SHUT_WR).map(|()| 0).map_err(crate::errno);
                let _ = ops::shutdown(fd, at, libc::SHUT_WR, kernel);
            }
        }
    }
    !has_failed
}

/// Returns true while returned bytes from the VI must go on TCP before other bytes.
fn owes(fd: i32, at: Ref) -> bool {
    at.attached().is_some_and(|mut guard| stream::returned::holds_back(&mut guard, fd))
}

fn receive(fd: i32, at: Ref, piece: &mut [u8]) -> Outcome {
    let piece = UserSliceMut::from(piece);
    let flags = Flags { dont_wait: true, ..Flags::default() };
    let kernel = || call::recv(fd, piece, libc::MSG_DONTWAIT).map_err(crate::errno);
    ops::receive(fd, at, piece, flags, kernel)
}
