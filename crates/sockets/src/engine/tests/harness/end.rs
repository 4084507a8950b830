//! The ends of a connection.

use super::{CALL_NS, Engines, Epoll, Progress, pattern};
use crate::conn::{Phase, Role};
use crate::fallback::{self, Cause};
use crate::native::{self, Info};
use crate::ops::{self, Flags};
use crate::options::SO_BUF_LOCK;
use crate::rendezvous::Server;
use crate::table::Ref;
use crate::{Errno, Outcome, backlog, epoll_sets, peers, pollset, progress, stream, table};
use core::sync::atomic::Ordering;
use sovia_proto::path::{Rx, Tx};
use sovia_sys::{Fd, UserSlice, UserSliceMut, call, poll};
use std::cell::Cell;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// One end of a connection. Several threads may use it, as a socket.
#[derive(Debug)]
pub(crate) struct End {
    pub(super) engines: Arc<Engines>,
    side: usize,
    socket: TcpStream,
    is_closed: Cell<bool>,
}

// SAFETY: `is_closed` is written by a call that takes the end by value alone.
unsafe impl Sync for End {}

/// No flags: a call that waits.
pub(crate) const WAIT: Flags =
    Flags { dont_wait: false, peek: false, wait_all: false, no_signal: true, empty_waits: true };
/// MSG_DONTWAIT.
pub(crate) const NOW: Flags = Flags { dont_wait: true, ..WAIT };
/// MSG_DONTWAIT with MSG_PEEK.
pub(crate) const PEEK: Flags = Flags { peek: true, ..NOW };
/// MSG_WAITALL.
pub(crate) const ALL: Flags = Flags { wait_all: true, ..WAIT };

fn kernel_flags(flags: Flags) -> i32 {
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    flag(flags.dont_wait, libc::MSG_DONTWAIT)
        | flag(flags.peek, libc::MSG_PEEK)
        | flag(flags.wait_all, libc::MSG_WAITALL)
        | flag(flags.no_signal, libc::MSG_NOSIGNAL)
}

impl End {
    pub(super) fn new(engines: &Arc<Engines>, side: usize, socket: TcpStream) -> End {
        End { engines: Arc::clone(engines), side, socket, is_closed: Cell::new(false) }
    }

    /// Puts the connection on record in the end's engine.
    pub(super) fn open(self, role: Role) -> End {
        self.run(|| ops::opened(self.fd(), role, Server::Unknown));
        self
    }

    /// Calls `f` as a thread of the end's process.
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        self.engines.both[self.side].run(f)
    }

    pub(crate) fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// The connection on record; `None` if the kernel alone has it.
    pub(crate) fn at(&self) -> Option<Ref> {
        self.run(|| table::conn(self.fd()))
    }

    // Sending.

    pub(crate) fn send(&self, bytes: &[u8], flags: Flags) -> Outcome {
        self.send_by(self.fd(), bytes, flags)
    }

    /// Sends by another number of the connection.
    pub(crate) fn send_by(&self, fd: i32, bytes: &[u8], flags: Flags) -> Outcome {
        let kernel = || call::send(fd, bytes, kernel_flags(flags)).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::send(fd, at, bytes.into(), flags, kernel),
            None => kernel(),
        })
    }

    pub(crate) fn send_parts(&self, parts: &[&[u8]], flags: Flags) -> Outcome {
        let fd = self.fd();
        // The kernel's writev never splits what fits: one send of the whole is the same.
        let joined =
            || call::send(fd, &parts.concat()[..], kernel_flags(flags)).map_err(crate::errno);
        let list: Vec<UserSlice<'_>> = parts.iter().map(|&part| part.into()).collect();
        self.run(|| match table::conn(fd) {
            Some(at) => ops::send_parts(fd, at, &list, flags, joined),
            None => joined(),
        })
    }

    /// Sends as many bytes as have room.
    pub(crate) fn write(&self, bytes: &[u8]) -> Outcome {
        self.send(bytes, NOW)
    }

    /// Sends all of `bytes`, which must find room at once.
    pub(crate) fn put(&self, bytes: &[u8]) {
        assert_eq!(self.write(bytes), Ok(bytes.len()));
    }

    /// Sends all of `bytes`, and waits for room.
    pub(crate) fn write_all(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = self.send(bytes, WAIT).expect("the peer reads");
            bytes = &bytes[n..];
        }
    }

    /// Sends bytes of the pattern from `from` on until there is no room; returns how many.
    pub(crate) fn fill(&self, from: usize) -> usize {
        let mut sent = 0;
        loop {
            match self.write(&pattern(from + sent, 64 << 10)) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert_eq!(error, libc::EAGAIN);
                    return sent;
                }
            }
        }
    }

    // Receiving.

    pub(crate) fn receive<'a>(&self, out: impl Into<UserSliceMut<'a>>, flags: Flags) -> Outcome {
        let fd = self.fd();
        let out = out.into();
        let kernel = || call::recv(fd, out, kernel_flags(flags)).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::receive(fd, at, out, flags, kernel),
            None => kernel(),
        })
    }

    pub(crate) fn receive_parts(&self, parts: &mut [&mut [u8]], flags: Flags) -> Outcome {
        let fd = self.fd();
        let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let mut whole = vec![0; lens.iter().sum()];
        let all: UserSliceMut<'_> = (&mut whole[..]).into();
        let is_kernels = Cell::new(false);
        let list: Vec<UserSliceMut<'_>> =
            parts.iter_mut().map(|part| (&mut **part).into()).collect();
        let n = self.run(|| match table::conn(fd) {
            Some(at) => ops::receive_parts(fd, at, &list, flags, || {
                is_kernels.set(true);
                call::recv(fd, all, kernel_flags(flags)).map_err(crate::errno)
            }),
            None => Err(libc::ENOTSOCK),
        })?;
        if is_kernels.get() {
            let mut rest = &whole[..];
            for part in parts {
                let (first, others) = rest.split_at(part.len());
                part.copy_from_slice(first);
                rest = others;
            }
        }
        Ok(n)
    }

    /// Receives up to `len` bytes by one call.
    pub(crate) fn take(&self, len: usize, flags: Flags) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        let n = self.receive(&mut bytes[..], flags)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// Makes the socket's send buffer small, so that a sender on TCP is soon full, and not late.
    pub(crate) fn shrink_buffer(&self) {
        for (level, name, value) in [
            (libc::SOL_SOCKET, libc::SO_SNDBUF, 32 << 10),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        ] {
            call::setsockopt::<i32>(self.fd(), level, name, &value).unwrap();
        }
    }

    /// Bounds the memory that may hold what peers have not read by nothing that a case would notice.
    pub(crate) fn has_memory(&self) {
        self.run(|| backlog::choose(64 << 20));
    }

    /// Has the host give a socket so many bytes to send ahead, and to hold unread, where no sizes are set.
    pub(crate) fn host_gives(&self, sends: u64, holds: u64) {
        self.run(|| backlog::note_buffers(sends, holds));
        self.set(libc::SOL_SOCKET, SO_BUF_LOCK, 0);
    }

    /// Sets an option as the program does.
    pub(crate) fn set(&self, level: i32, name: i32, value: i32) {
        call::setsockopt(self.fd(), level, name, &value).unwrap();
        if let Some(at) = self.at() {
            self.run(|| ops::note_option(self.fd(), at, level, name));
        }
    }

    /// Sets SO_SNDBUF and SO_RCVBUF; how many bytes its peer may be ahead of it at most, if that has done the same.
    pub(crate) fn set_buffers(&self, size: i32) -> usize {
        let set = |name| {
            self.set(libc::SOL_SOCKET, name, size);
            call::getsockopt::<i32>(self.fd(), libc::SOL_SOCKET, name).unwrap() as usize
        };
        set(libc::SO_SNDBUF) + set(libc::SO_RCVBUF) / 2
    }

    /// Receives up to `len` bytes that are there.
    pub(crate) fn read(&self, len: usize) -> Result<Vec<u8>, Errno> {
        self.take(len, NOW)
    }

    /// Receives `len` bytes, or those before the end, and waits for them.
    pub(crate) fn read_exact(&self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            match self.take(len - bytes.len(), WAIT).expect("the peer writes") {
                some if some.is_empty() => break,
                some => bytes.extend(some),
            }
        }
        bytes
    }

    /// Receives what is there without waiting, by calls of `len` bytes each, until there is nothing, an end or an
    /// error.
    pub(crate) fn drain(&self, len: usize) -> (Vec<u8>, Result<(), Errno>) {
        let mut bytes = Vec::new();
        loop {
            match self.read(len) {
                Ok(some) if some.is_empty() => return (bytes, Ok(())),
                Ok(some) => bytes.extend(some),
                Err(error) => return (bytes, Err(error)),
            }
        }
    }

    // Readiness.

    /// `poll` of the socket alone.
    pub(crate) fn poll_for(&self, events: i16, timeout: Option<u64>) -> Result<i16, Errno> {
        let mut fds = [libc::pollfd { fd: self.fd(), events, revents: 0 }];
        self.run(|| match pollset::for_kernel(&fds) {
            None => pollset::wait(&mut fds, pollset::PollCall::Poll, timeout, None),
            Some(_on_tcp) => poll::ppoll(&mut fds, timeout, None).map_err(crate::errno),
        })
        .map(|_| fds[0].revents)
    }

    /// The events of `events` that hold now, with POLLERR and POLLHUP.
    pub(crate) fn poll(&self, events: i16) -> i16 {
        self.poll_for(events, Some(0)).unwrap()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.poll(libc::POLLOUT) & libc::POLLOUT != 0
    }

    /// FIONREAD.
    pub(crate) fn unread(&self) -> usize {
        let fd = self.fd();
        let kernel = || call::bytes_unread(fd).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::fionread(fd, at, kernel),
            None => kernel(),
        })
        .unwrap()
    }

    /// SO_ERROR; 0 for none.
    pub(crate) fn error(&self) -> Errno {
        let fd = self.fd();
        self.run(|| table::conn(fd).and_then(|at| ops::socket_error(fd, at))).unwrap_or_else(|| {
            call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap()
        })
    }

    // Ends.

    pub(crate) fn shutdown(&self, how: i32) -> Outcome {
        let fd = self.fd();
        let kernel = || call::shutdown(fd, how).map(|()| 0).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::shutdown(fd, at, how, kernel),
            None => kernel(),
        })
    }

    /// Shuts the sending half.
    pub(crate) fn finish(&self) {
        self.shutdown(libc::SHUT_WR).unwrap();
    }

    pub(crate) fn close(self) {
        drop(self);
    }

    /// Closes with SO_LINGER of 0: by a reset.
    pub(crate) fn abort(self) {
        call::setsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]).unwrap();
    }

    /// Closes the connection's number while other threads are in calls on it.
    pub(crate) fn close_number(&self) {
        let instead = Fd::own(call::eventfd(libc::EFD_CLOEXEC).unwrap());
        self.run(|| ops::close(self.fd()));
        call::dup_cloexec_onto(instead.raw(), self.fd()).unwrap();
    }

    /// The kernel closes the socket of a process that has died: the engine does nothing.
    pub(crate) fn die(self) -> Dead {
        let instead = Fd::own(call::eventfd(libc::EFD_CLOEXEC).unwrap());
        // The number stays taken, so that it means nothing else.
        call::dup_cloexec_onto(instead.raw(), self.fd()).unwrap();
        self.is_closed.set(true);
        Dead(self)
    }

    /// Likewise, and the kernel closes the descriptors by which the peer knows that the process lives.
    pub(crate) fn die_with_its_process(self) -> Dead {
        self.engines.is_dead.store(true, Ordering::Relaxed);
        self.run(peers::leave_all);
        self.die()
    }

    /// Limits the waits of blocking calls. A watchdog: a case whose call gives EAGAIN has failed.
    pub(crate) fn limit_waits(&self) {
        let limit = libc::timeval { tv_sec: (CALL_NS / 1_000_000_000) as i64, tv_usec: 0 };
        for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            call::setsockopt(self.fd(), libc::SOL_SOCKET, name, &limit).unwrap();
            if let Some(at) = self.at() {
                self.run(|| ops::note_option(self.fd(), at, libc::SOL_SOCKET, name));
            }
        }
    }

    /// A second number of the connection.
    pub(crate) fn dup(&self) -> Number<'_> {
        let fd = call::fcntl(self.fd(), libc::F_DUPFD_CLOEXEC, 0).unwrap() as i32;
        self.run(|| ops::dup(self.fd(), fd));
        Number { end: self, fd: Fd::own(fd) }
    }

    // Paths.

    pub(crate) fn info(&self) -> Info {
        self.run(|| native::info(self.fd()))
    }

    /// Bytes sent on TCP, as the engine counts them.
    pub(crate) fn tx_tcp(&self) -> u64 {
        self.at().map_or(0, |at| at.conn.tx_tcp.load(Ordering::Relaxed))
    }

    pub(crate) fn phase(&self) -> Phase {
        self.at().map_or(Phase::Plain, |at| at.conn.phase())
    }

    pub(crate) fn tx(&self) -> Tx {
        self.at().map_or(Tx::Tcp, |at| at.conn.tx())
    }

    pub(crate) fn rx(&self) -> Rx {
        self.at().map_or(Rx::Tcp, |at| at.conn.rx())
    }

    /// Makes a call that Sovia does not carry: it takes the connection back to TCP.
    pub(crate) fn to_tcp(&self) {
        if let Some(at) = self.at() {
            self.run(|| fallback::now(self.fd(), at, Cause::Call));
        }
    }

    /// Begins to take the connection back to TCP. Rounds and calls of both ends go on with that.
    pub(crate) fn leave(&self) {
        if let Some(at) = self.at() {
            self.run(|| fallback::soon(self.fd(), at, Cause::Call));
        }
    }

    /// Moves the sending direction to the VI, if the peer has granted it, without a byte.
    pub(crate) fn switch(&self) {
        let fd = self.fd();
        let way = self.run(|| {
            let mut guard = table::conn(fd).unwrap().attached().unwrap();
            stream::way(&mut guard, fd)
        });
        assert_eq!(way, stream::SendPath::Vi);
    }

    /// Does one round of the progress thread's work.
    pub(crate) fn round(&self) {
        assert_eq!(self.engines.progress, Progress::ByHand);
        self.run(progress::round);
    }

    /// A new epoll instance of the end's process.
    pub(crate) fn epoll(&self) -> Epoll {
        let epfd = Fd::own(poll::epoll_create().unwrap());
        self.run(|| epoll_sets::created(epfd.raw()));
        Epoll { engines: Arc::clone(&self.engines), side: self.side, epfd }
    }

    /// An epoll instance with the connection alone.
    pub(crate) fn watched(&self, events: i32) -> Epoll {
        let set = self.epoll();
        set.add(self, events);
        set
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let fd = self.fd();
        if self.is_closed.get() {
            self.run(|| ops::forget(fd));
        } else {
            self.run(|| ops::close(fd));
        }
    }
}

/// An end whose process has died. What the engine knows of it goes with this.
#[derive(Debug)]
pub(crate) struct Dead(#[allow(dead_code, reason = "kept for what its end does")] End);

/// A further number of an end's connection, which is closed with this.
#[derive(Debug)]
pub(crate) struct Number<'a> {
    end: &'a End,
    fd: Fd,
}

impl Number<'_> {
    pub(crate) fn fd(&self) -> i32 {
        self.fd.raw()
    }
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.end.run(|| ops::close(self.fd.raw()));
    }
}
