//! Ends of connections, and connections that are brought to a named place.

use crate::conn::{Phase, Role};
use crate::epoll::KernelSleep;
use crate::fallback::{self, Cause};
use crate::meeting::Server;
use crate::native::{self, Info};
use crate::ops::{self, Flags};
use crate::options::SO_BUF_LOCK;
use crate::per_engine::Engine;
use crate::table::Ref;
use crate::{
    Errno, Outcome, backlog, config, epoll, peers, pollset, progress, protocol, sets, stream, table,
};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_proto::configuration::Configuration;
use sovia_proto::path::{Rx, Tx};
use sovia_sys::{Fd, UserSlice, UserSliceMut, call, poll};
use std::cell::Cell;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Limit of a wait for a fact. A watchdog: a case that takes so long has failed.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Limit of a call that waits, in nanoseconds. It is longer than [`WATCHDOG`]: a call that finds something only once it gives
/// up, because nothing has woken it, comes too late.
pub(super) const CALL_NS: u64 = 2 * WATCHDOG.as_secs() * 1_000_000_000;

/// Transfers of an end before it looks for its peer.
const MEET_AFTER: u32 = 0;

/// Memory that may hold what peers have not read: so little that a case fills it in a moment.
const MEMORY: u64 = 128 << 10;

/// Bytes that lie unread in the places that are reached with unread bytes.
pub(super) const UNREAD: usize = 1_000;

/// Mode of an engine's progress work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The thread, as in a program.
    Thread,
    /// The case, by [`End::round`].
    ByHand,
}

/// Pairs of engines that no connection uses, and the number of pairs that may still be made.
struct Pool {
    free: Mutex<(Vec<[Engine; 2]>, usize)>,
    given_back: Condvar,
}

impl Pool {
    const fn of(most: usize) -> Pool {
        Pool { free: Mutex::new((Vec::new(), most)), given_back: Condvar::new() }
    }
}

/// A process has room for 16 of the library's threads.
static THREADED: Pool = Pool::of(5);
static BY_HAND: Pool = Pool::of(64);

fn pool(progress: Progress) -> &'static Pool {
    match progress {
        Progress::Thread => &THREADED,
        Progress::ByHand => &BY_HAND,
    }
}

/// Two engines, each as in a process of its own: the connector's and the acceptor's.
#[derive(Debug)]
pub(super) struct Engines {
    both: [Engine; 2],
    progress: Progress,
    /// Set where a process of the two has died: no other case may have them.
    is_dead: AtomicBool,
}

impl Engines {
    /// Takes two engines that have met before, if there are any.
    pub(super) fn take(progress: Progress) -> Arc<Engines> {
        let pool = pool(progress);
        let mut free = pool.free.lock().unwrap();
        loop {
            if let Some(both) = free.0.pop() {
                return Engines::of(both, progress);
            }
            if free.1 > 0 {
                free.1 -= 1;
                drop(free);
                return Engines::make(progress);
            }
            free = pool.given_back.wait(free).unwrap();
        }
    }

    /// Has connections look for each other's ends after so many transfers.
    pub(super) fn meet_after(&self, transfers: u32) {
        for engine in self.both {
            engine.run(|| config::meet_after_transfers(transfers));
        }
    }

    /// Has two engines without connections forget that they have met.
    pub(super) fn part(&self) {
        for engine in self.both {
            engine.run(|| crate::pair::leave_all(sets::forget_pair));
        }
    }

    fn of(both: [Engine; 2], progress: Progress) -> Arc<Engines> {
        Arc::new(Engines { both, progress, is_dead: AtomicBool::new(false) })
    }

    fn make(progress: Progress) -> Arc<Engines> {
        let both = [Engine::new(), Engine::new()];
        for engine in both {
            engine.run(|| {
                if progress == Progress::ByHand {
                    progress::start_by_hand();
                    backlog::choose(MEMORY);
                }
                // A relay would be a copy of both engines.
                crate::engine::start_alone();
                config::meet_after_transfers(MEET_AFTER);
            });
        }
        Engines::of(both, progress)
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        let is_clean = |engine: &Engine| {
            engine.run(|| {
                if self.progress == Progress::ByHand {
                    backlog::choose(MEMORY);
                }
                config::meet_after_transfers(MEET_AFTER);
                let mut any = false;
                table::for_each_conn(|_, _| any = true);
                !any
            })
        };
        let pool = pool(self.progress);
        // A case that has failed leaves nothing to others.
        let is_dead = self.is_dead.load(Ordering::Relaxed);
        if thread::panicking() || is_dead || !self.both.iter().all(is_clean) {
            if let Ok(mut free) = pool.free.lock() {
                free.1 += 1;
            }
        } else if let Ok(mut free) = pool.free.lock() {
            free.0.push(self.both);
        }
        pool.given_back.notify_one();
    }
}

/// One end of a connection. Several threads may use it, as a socket.
#[derive(Debug)]
pub(super) struct End {
    engines: Arc<Engines>,
    side: usize,
    socket: TcpStream,
    is_closed: Cell<bool>,
}

// SAFETY: `is_closed` is written by a call that takes the end by value alone.
unsafe impl Sync for End {}

/// No flags: a call that waits.
pub(super) const WAIT: Flags =
    Flags { dont_wait: false, peek: false, wait_all: false, no_signal: true, empty_waits: true };
/// MSG_DONTWAIT.
pub(super) const NOW: Flags = Flags { dont_wait: true, ..WAIT };
/// MSG_DONTWAIT with MSG_PEEK.
pub(super) const PEEK: Flags = Flags { peek: true, ..NOW };
/// MSG_WAITALL.
pub(super) const ALL: Flags = Flags { wait_all: true, ..WAIT };

fn kernel_flags(flags: Flags) -> i32 {
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    flag(flags.dont_wait, libc::MSG_DONTWAIT)
        | flag(flags.peek, libc::MSG_PEEK)
        | flag(flags.wait_all, libc::MSG_WAITALL)
        | flag(flags.no_signal, libc::MSG_NOSIGNAL)
}

impl End {
    fn new(engines: &Arc<Engines>, side: usize, socket: TcpStream) -> End {
        End { engines: Arc::clone(engines), side, socket, is_closed: Cell::new(false) }
    }

    /// Puts the connection on record in the end's engine.
    fn open(self, role: Role) -> End {
        self.run(|| ops::opened(self.fd(), role, Server::Unknown));
        self
    }

    /// Calls `f` as a thread of the end's process.
    pub(super) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        self.engines.both[self.side].run(f)
    }

    pub(super) fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// The connection on record; `None` if the kernel alone has it.
    pub(super) fn at(&self) -> Option<Ref> {
        self.run(|| table::conn(self.fd()))
    }

    // Sending.

    pub(super) fn send(&self, bytes: &[u8], flags: Flags) -> Outcome {
        self.send_by(self.fd(), bytes, flags)
    }

    /// Sends by another number of the connection.
    pub(super) fn send_by(&self, fd: i32, bytes: &[u8], flags: Flags) -> Outcome {
        let kernel = || call::send(fd, bytes, kernel_flags(flags)).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::send(fd, at, bytes.into(), flags, kernel),
            None => kernel(),
        })
    }

    pub(super) fn send_parts(&self, parts: &[&[u8]], flags: Flags) -> Outcome {
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
    pub(super) fn write(&self, bytes: &[u8]) -> Outcome {
        self.send(bytes, NOW)
    }

    /// Sends all of `bytes`, which must find room at once.
    pub(super) fn put(&self, bytes: &[u8]) {
        assert_eq!(self.write(bytes), Ok(bytes.len()));
    }

    /// Sends all of `bytes`, and waits for room.
    pub(super) fn write_all(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = self.send(bytes, WAIT).expect("the peer reads");
            bytes = &bytes[n..];
        }
    }

    /// Sends bytes of the pattern from `from` on until there is no room; returns how many.
    pub(super) fn fill(&self, from: usize) -> usize {
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

    pub(super) fn receive(&self, out: &mut [u8], flags: Flags) -> Outcome {
        let fd = self.fd();
        let out = UserSliceMut::from(out);
        let kernel = || call::recv(fd, out, kernel_flags(flags)).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::receive(fd, at, out, flags, kernel),
            None => kernel(),
        })
    }

    pub(super) fn receive_parts(&self, parts: &mut [&mut [u8]], flags: Flags) -> Outcome {
        let fd = self.fd();
        let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let mut whole = vec![0; lens.iter().sum()];
        let mut kernel =
            || call::recv(fd, &mut whole[..], kernel_flags(flags)).map_err(crate::errno);
        let mut is_kernels = false;
        let list: Vec<UserSliceMut<'_>> =
            parts.iter_mut().map(|part| (&mut **part).into()).collect();
        let n = self.run(|| match table::conn(fd) {
            Some(at) => ops::receive_parts(fd, at, &list, flags, || {
                is_kernels = true;
                kernel()
            }),
            None => Err(libc::ENOTSOCK),
        })?;
        if is_kernels {
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
    pub(super) fn take(&self, len: usize, flags: Flags) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        let n = self.receive(&mut bytes, flags)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// Makes the socket's send buffer small, so that a sender on TCP is soon full, and not late.
    pub(super) fn shrink_buffer(&self) {
        for (level, name, value) in [
            (libc::SOL_SOCKET, libc::SO_SNDBUF, 32 << 10),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        ] {
            call::setsockopt::<i32>(self.fd(), level, name, &value).unwrap();
        }
    }

    /// Bounds the memory that may hold what peers have not read by nothing that a case would notice.
    pub(super) fn has_memory(&self) {
        self.run(|| backlog::choose(64 << 20));
    }

    /// Has the host give a socket so many bytes to send ahead, and to hold unread, where no sizes are set.
    pub(super) fn host_gives(&self, sends: u64, holds: u64) {
        self.run(|| backlog::note_buffers(sends, holds));
        self.set(libc::SOL_SOCKET, SO_BUF_LOCK, 0);
    }

    /// Sets an option as the program does.
    pub(super) fn set(&self, level: i32, name: i32, value: i32) {
        call::setsockopt(self.fd(), level, name, &value).unwrap();
        if let Some(at) = self.at() {
            self.run(|| ops::note_option(self.fd(), at, level, name));
        }
    }

    /// Sets SO_SNDBUF and SO_RCVBUF; how many bytes its peer may be ahead of it at most, if that has done the same.
    pub(super) fn set_buffers(&self, size: i32) -> usize {
        let set = |name| {
            self.set(libc::SOL_SOCKET, name, size);
            call::getsockopt::<i32>(self.fd(), libc::SOL_SOCKET, name).unwrap() as usize
        };
        set(libc::SO_SNDBUF) + set(libc::SO_RCVBUF) / 2
    }

    /// Receives up to `len` bytes that are there.
    pub(super) fn read(&self, len: usize) -> Result<Vec<u8>, Errno> {
        self.take(len, NOW)
    }

    /// Receives `len` bytes, or those before the end, and waits for them.
    pub(super) fn read_exact(&self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            match self.take(len - bytes.len(), WAIT).expect("the peer writes") {
                some if some.is_empty() => break,
                some => bytes.extend(some),
            }
        }
        bytes
    }

    /// Receives what is there without waiting, by calls of `len` bytes each, until there is nothing, an end or an error.
    pub(super) fn drain(&self, len: usize) -> (Vec<u8>, Result<(), Errno>) {
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
    pub(super) fn poll_for(&self, events: i16, timeout: Option<u64>) -> Result<i16, Errno> {
        let mut fds = [libc::pollfd { fd: self.fd(), events, revents: 0 }];
        self.run(|| match pollset::for_kernel(&fds) {
            None => pollset::wait(&mut fds, pollset::By::Poll, timeout, None),
            Some(_on_tcp) => poll::ppoll(&mut fds, timeout, None).map_err(crate::errno),
        })
        .map(|_| fds[0].revents)
    }

    /// The events of `events` that hold now, with POLLERR and POLLHUP.
    pub(super) fn poll(&self, events: i16) -> i16 {
        self.poll_for(events, Some(0)).unwrap()
    }

    pub(super) fn is_writable(&self) -> bool {
        self.poll(libc::POLLOUT) & libc::POLLOUT != 0
    }

    /// FIONREAD.
    pub(super) fn unread(&self) -> usize {
        let fd = self.fd();
        let kernel = || call::bytes_unread(fd).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::fionread(fd, at, kernel),
            None => kernel(),
        })
        .unwrap()
    }

    /// SO_ERROR; 0 for none.
    pub(super) fn error(&self) -> Errno {
        let fd = self.fd();
        self.run(|| table::conn(fd).and_then(|at| ops::socket_error(fd, at))).unwrap_or_else(|| {
            call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap()
        })
    }

    // Ends.

    pub(super) fn shutdown(&self, how: i32) -> Outcome {
        let fd = self.fd();
        let kernel = || call::shutdown(fd, how).map(|()| 0).map_err(crate::errno);
        self.run(|| match table::conn(fd) {
            Some(at) => ops::shutdown(fd, at, how, kernel),
            None => kernel(),
        })
    }

    /// Shuts the sending half.
    pub(super) fn finish(&self) {
        self.shutdown(libc::SHUT_WR).unwrap();
    }

    pub(super) fn close(self) {
        drop(self);
    }

    /// Closes with SO_LINGER of 0: by a reset.
    pub(super) fn abort(self) {
        call::setsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]).unwrap();
    }

    /// Closes the connection's number while other threads are in calls on it.
    pub(super) fn close_number(&self) {
        let instead = Fd::own(call::eventfd(libc::EFD_CLOEXEC).unwrap());
        self.run(|| ops::close(self.fd()));
        call::dup_cloexec_onto(instead.raw(), self.fd()).unwrap();
    }

    /// The kernel closes the socket of a process that has died: the engine does nothing.
    pub(super) fn die(self) -> Dead {
        let instead = Fd::own(call::eventfd(libc::EFD_CLOEXEC).unwrap());
        // The number stays taken, so that it means nothing else.
        call::dup_cloexec_onto(instead.raw(), self.fd()).unwrap();
        self.is_closed.set(true);
        Dead(self)
    }

    /// Likewise, and the kernel closes the descriptors by which the peer knows that the process lives.
    pub(super) fn die_with_its_process(self) -> Dead {
        self.engines.is_dead.store(true, Ordering::Relaxed);
        self.run(peers::leave_all);
        self.die()
    }

    /// Limits the waits of blocking calls. A watchdog: a case whose call gives EAGAIN has failed.
    pub(super) fn limit_waits(&self) {
        let limit = libc::timeval { tv_sec: (CALL_NS / 1_000_000_000) as i64, tv_usec: 0 };
        for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            call::setsockopt(self.fd(), libc::SOL_SOCKET, name, &limit).unwrap();
            if let Some(at) = self.at() {
                self.run(|| ops::note_option(self.fd(), at, libc::SOL_SOCKET, name));
            }
        }
    }

    /// A second number of the connection.
    pub(super) fn dup(&self) -> Number<'_> {
        let fd = call::fcntl(self.fd(), libc::F_DUPFD_CLOEXEC, 0).unwrap() as i32;
        self.run(|| ops::dup(self.fd(), fd));
        Number { end: self, fd: Fd::own(fd) }
    }

    // Paths.

    pub(super) fn info(&self) -> Info {
        self.run(|| native::info(self.fd()))
    }

    /// Bytes sent on TCP, as the engine counts them.
    pub(super) fn tx_tcp(&self) -> u64 {
        self.at().map_or(0, |at| at.conn.tx_tcp.load(Ordering::Relaxed))
    }

    pub(super) fn phase(&self) -> Phase {
        self.at().map_or(Phase::Plain, |at| at.conn.phase())
    }

    pub(super) fn tx(&self) -> Tx {
        self.at().map_or(Tx::Tcp, |at| at.conn.tx())
    }

    pub(super) fn rx(&self) -> Rx {
        self.at().map_or(Rx::Tcp, |at| at.conn.rx())
    }

    /// Takes the connection back to TCP, and returns once it is there.
    pub(super) fn to_tcp(&self) {
        self.run(|| native::to_tcp(self.fd()));
    }

    /// Begins to take the connection back to TCP. Rounds and calls of both ends go on with that.
    pub(super) fn leave(&self) {
        if let Some(at) = self.at() {
            self.run(|| fallback::soon(self.fd(), at, Cause::Call));
        }
    }

    /// Moves the sending direction to the VI, if the peer has granted it, without a byte.
    pub(super) fn switch(&self) {
        let fd = self.fd();
        let way = self.run(|| {
            let mut guard = table::conn(fd).unwrap().attached().unwrap();
            stream::way(&mut guard, fd)
        });
        assert_eq!(way, stream::Way::Vi);
    }

    /// Does one round of the progress thread's work.
    pub(super) fn round(&self) {
        assert_eq!(self.engines.progress, Progress::ByHand);
        self.run(progress::round);
    }

    /// A new epoll instance of the end's process.
    pub(super) fn epoll(&self) -> Epoll {
        let epfd = Fd::own(poll::epoll_create().unwrap());
        self.run(|| sets::created(epfd.raw()));
        Epoll { engines: Arc::clone(&self.engines), side: self.side, epfd }
    }

    /// An epoll instance with the connection alone.
    pub(super) fn watched(&self, events: i32) -> Epoll {
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
pub(super) struct Dead(#[allow(dead_code, reason = "kept for what its end does")] End);

/// A further number of an end's connection, which is closed with this.
#[derive(Debug)]
pub(super) struct Number<'a> {
    end: &'a End,
    fd: Fd,
}

impl Number<'_> {
    pub(super) fn fd(&self) -> i32 {
        self.fd.raw()
    }
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.end.run(|| ops::close(self.fd.raw()));
    }
}

/// An epoll instance of one process.
#[derive(Debug)]
pub(super) struct Epoll {
    engines: Arc<Engines>,
    side: usize,
    epfd: Fd,
}

impl Epoll {
    fn index(&self) -> u32 {
        match self.run(|| table::get(self.epfd.raw())) {
            table::Entry::Epoll(index) => index,
            _ => panic!("not followed"),
        }
    }

    fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        self.engines.both[self.side].run(f)
    }

    /// `epoll_ctl`.
    pub(super) fn control(&self, op: i32, fd: i32, events: i32, data: u64) -> Outcome {
        let events = events as u32;
        let epfd = self.epfd.raw();
        let kernel =
            || poll::epoll_ctl(epfd, op, fd, events, data).map(|()| 0).map_err(crate::errno);
        self.run(|| epoll::control(self.index(), op, fd, Some((events, data)), kernel))
    }

    /// Adds an end, with its number as the event's data.
    pub(super) fn add(&self, end: &End, events: i32) {
        self.control(libc::EPOLL_CTL_ADD, end.fd(), events, end.fd() as u64).unwrap();
    }

    pub(super) fn modify(&self, end: &End, events: i32) {
        self.control(libc::EPOLL_CTL_MOD, end.fd(), events, end.fd() as u64).unwrap();
    }

    pub(super) fn remove(&self, end: &End) -> Outcome {
        self.control(libc::EPOLL_CTL_DEL, end.fd(), 0, 0)
    }

    /// `epoll_wait` for up to `most` events: masks and data.
    pub(super) fn wait_for(&self, most: usize, timeout: Option<u64>) -> Vec<(i32, u64)> {
        let mut out = vec![epoll::Event { events: 0, u64: 0 }; most];
        let n = self.run(|| {
            let index = self.index();
            let is_kernels = !epoll::is_ours(index);
            let sleeps = timeout != Some(0);
            let sleep = if is_kernels && sleeps { KernelSleep::begin(index) } else { None };
            if is_kernels && (sleep.is_some() || !sleeps) {
                let n = poll::epoll_wait(self.epfd.raw(), &mut out, timeout, None).unwrap();
                if let Some(sleep) = sleep {
                    sleep.end();
                }
                let kept = epoll::filter(&mut out[..n], None);
                if kept > 0 || !sleeps {
                    return kept;
                }
            }
            epoll::wait(index, &mut out, timeout, None).unwrap()
        });
        out[..n].iter().map(|event| ({ event.events } as i32, { event.u64 })).collect()
    }

    /// The events that are there now.
    pub(super) fn now(&self) -> Vec<(i32, u64)> {
        self.wait_for(8, Some(0))
    }

    /// The mask of the only connection in the instance; 0 if it is not ready.
    pub(super) fn mask(&self) -> i32 {
        let events = self.now();
        assert!(events.len() <= 1, "{events:?}");
        events.first().map_or(0, |&(mask, _)| mask)
    }

    /// Loses the marks of peers, which come later than what they are for.
    pub(super) fn lose_marks(&self) {
        self.run(|| {
            let set = sets::get(self.index()).unwrap();
            set.with(|inner| inner.lanes.iter().for_each(|lane| lane.ready_list().drain(|_| ())));
        });
    }

    /// Threads that sleep in the instance for what is on VIs.
    pub(super) fn sleepers(&self) -> u32 {
        self.run(|| sets::get(self.index()).unwrap().asleep.load(Ordering::Relaxed))
    }

    /// Waits for events; none after [`CALL_NS`].
    pub(super) fn wait(&self) -> Vec<(i32, u64)> {
        self.wait_for(8, Some(CALL_NS))
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        self.run(|| ops::close(self.epfd.raw()));
    }
}

/// Bytes of a stream, distinguished by their places.
pub(super) fn pattern(from: usize, len: usize) -> Vec<u8> {
    /// Bytes after which the pattern comes again.
    const PERIOD: usize = 251 * 256;
    static PATTERN: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..PERIOD).map(|n| (n / 251 + n * 7) as u8).collect());
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = (from + bytes.len()) % PERIOD;
        bytes.extend_from_slice(&PATTERN[at..PERIOD.min(at + len - bytes.len())]);
    }
    bytes
}

/// A place of one direction on its way to the VI and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// No engine knows of the connection: what the kernel does.
    Kernel,
    /// On TCP: the ends have not met.
    Tcp,
    /// The receiver has granted the VI.
    Granted,
    /// The sender has switched to the VI, and sent nothing there.
    Switched,
    /// The receiver has come to the VI.
    Entered,
    /// The receiver has revoked the direction, and the sender has not answered.
    Revoked,
    /// The sender has left the VI, and the receiver has not come by.
    Left,
    /// The sender is to put on TCP what the receiver has left unread on the VI.
    Draining,
    /// On TCP again, in both directions.
    Back,
}

/// A connection, seen from one of its directions.
#[derive(Debug)]
pub(super) struct Link {
    /// The end that sends in that direction.
    pub(super) a: End,
    /// The end that receives.
    pub(super) b: End,
    /// Bytes that `a` has sent and `b` has not read.
    pub(super) unread: Vec<u8>,
}

impl Link {
    /// Both ends.
    pub(super) fn ends(&self) -> [&End; 2] {
        [&self.a, &self.b]
    }

    /// Does a round of each progress thread's work.
    pub(super) fn turn(&self) {
        self.a.round();
        self.b.round();
    }

    /// Looks until `look` finds something, with the work of both progress threads in between.
    #[track_caller]
    pub(super) fn until<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        until(&self.ends(), look)
    }

    /// Waits for a fact.
    #[track_caller]
    pub(super) fn becomes(&self, fact: impl Fn() -> bool) {
        self.until(|| fact().then_some(()));
    }

    /// Has `a` send all of `bytes`. At some places the peer has its part to do first.
    #[track_caller]
    pub(super) fn send(&self, bytes: &[u8]) {
        send(&self.ends(), &self.a, bytes);
    }

    /// Has `b` send all of `bytes`, and `a` have them without reading.
    #[track_caller]
    pub(super) fn answer(&self, bytes: &[u8]) {
        send(&self.ends(), &self.b, bytes);
        self.becomes(|| self.a.unread() == bytes.len());
    }

    /// Lets `b` receive all that `a` had sent before, and has sent since.
    #[track_caller]
    pub(super) fn arrives(&self, sent: &[u8]) {
        arrives(&self.ends(), &self.b, &[&self.unread, sent].concat());
    }

    /// Lets `a` receive the bytes.
    #[track_caller]
    pub(super) fn is_answered(&self, sent: &[u8]) {
        arrives(&self.ends(), &self.a, sent);
    }
}

/// Has `from` send all of `bytes`, with the work of the ends' progress threads while there is no room.
#[track_caller]
pub(super) fn send(ends: &[&End], from: &End, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        sent += until(ends, || match from.write(&bytes[sent..]) {
            Err(libc::EAGAIN) => None,
            result => Some(result.expect("the connection is open")),
        });
    }
}

/// Returns the bytes, the end or the error of the next receive of `end` that finds any.
#[track_caller]
pub(super) fn next(ends: &[&End], end: &End) -> Result<Vec<u8>, Errno> {
    until(ends, || Some(end.read(64 << 10)).filter(|got| *got != Err(libc::EAGAIN)))
}

/// Lets `end` come to the end of the stream, which stays.
#[track_caller]
pub(super) fn ends(others: &[&End], end: &End) {
    for _ in 0..2 {
        assert_eq!(next(others, end), Ok(Vec::new()));
    }
}

/// Lets `end` come to a reset: an error once, then the end.
#[track_caller]
pub(super) fn is_reset(others: &[&End], end: &End) {
    assert_eq!(next(others, end), Err(libc::ECONNRESET));
    ends(others, end);
}

/// Looks until `look` finds something, with the work of the ends' progress threads in between. What is awaited is a fact
/// of the kernel's, which delivers over loopback when it likes.
#[track_caller]
pub(super) fn until<T>(ends: &[&End], mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < WATCHDOG, "nothing comes: {ends:?}");
        for end in ends {
            if end.engines.progress == Progress::ByHand {
                end.round();
            }
        }
        thread::yield_now();
    }
}

/// Lets `to` receive the expected bytes, and no byte more.
#[track_caller]
pub(super) fn arrives(ends: &[&End], to: &End, expected: &[u8]) {
    let mut got = Vec::new();
    while got.len() < expected.len() {
        let most = (expected.len() - got.len()).min(64 << 10);
        let some = until(ends, || match to.read(most) {
            Err(libc::EAGAIN) => None,
            result => Some(result),
        });
        let some = some.unwrap_or_else(|error| panic!("error {error} after {} bytes", got.len()));
        assert!(!some.is_empty(), "the end after {} of {} bytes", got.len(), expected.len());
        got.extend(some);
    }
    assert!(got == expected, "other bytes than were sent, among {}", got.len());
}

/// Sends a byte each way.
pub(super) fn exchange(a: &End, b: &End) {
    send(&[a, b], a, b"x");
    arrives(&[a, b], b, b"x");
    send(&[a, b], b, b"y");
    arrives(&[a, b], a, b"y");
}

/// A connection that has carried nothing; the connector comes first.
fn connected(engines: &Arc<Engines>, at: At) -> [End; 2] {
    connected_by(&TcpListener::bind("127.0.0.1:0").unwrap(), engines, at)
}

fn connected_by(listener: &TcpListener, engines: &Arc<Engines>, at: At) -> [End; 2] {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let ends = [End::new(engines, 0, client), End::new(engines, 1, server)];
    if at == At::Kernel {
        return ends;
    }
    let [client, server] = ends;
    [client.open(Role::Connector), server.open(Role::Acceptor)]
}

/// A connection that the engines know of, and that has carried nothing.
pub(super) fn fresh(engines: &Arc<Engines>) -> [End; 2] {
    connected(engines, At::Tcp)
}

/// Returns the same through a listener that may have others.
pub(super) fn fresh_by(listener: &TcpListener, engines: &Arc<Engines>) -> [End; 2] {
    connected_by(listener, engines, At::Tcp)
}

/// Talks to and fro until `is_there` holds after a step. False if the ends have given each other up: two ends do not look for
/// each other for ever.
fn talk([a, b]: &[End; 2], is_there: impl Fn() -> bool) -> bool {
    let steps: [&dyn Fn(); 4] =
        [&|| a.put(b"ping"), &|| arrives(&[a, b], b, b"ping"), &|| b.put(b"pong"), &|| {
            arrives(&[a, b], a, b"pong")
        }];
    loop {
        for (n, step) in steps.iter().enumerate() {
            step();
            // Not while bytes are under way.
            if n % 2 == 1 && is_there() {
                return true;
            }
        }
        if [a, b].iter().any(|end| end.phase() == Phase::Plain) {
            return false;
        }
    }
}

/// A connection whose directions are both on the VI; the connector comes first.
pub(super) fn met_by(engines: &Arc<Engines>) -> [End; 2] {
    loop {
        let ends = fresh(engines);
        if meet(&ends) {
            return ends;
        }
    }
}

/// Talks until both directions are on the VI; false if the ends have given each other up.
pub(super) fn meet(ends: &[End; 2]) -> bool {
    let is_on_vi = |end: &End| end.tx() == Tx::Vi && end.rx() == Rx::Vi;
    talk(ends, || ends.iter().all(is_on_vi))
}

/// Returns two ends on the VI, with a choice of the protocol for both.
pub(super) fn met_as(choice: &str) -> [End; 2] {
    let engines = Engines::take(Progress::ByHand);
    let configuration = Configuration::of_socket(choice).unwrap();
    loop {
        let ends = fresh(&engines);
        for end in &ends {
            end.run(|| protocol::choose_for(end.fd(), &configuration)).unwrap();
        }
        if meet(&ends) {
            return ends;
        }
    }
}

/// A connection whose directions are both on the VI, with the progress threads' work done by the case.
pub(super) fn met() -> [End; 2] {
    met_by(&Engines::take(Progress::ByHand))
}

/// Returns two ends on the VI whose engines have progress threads.
pub(super) fn met_with_threads() -> [End; 2] {
    met_by(&Engines::take(Progress::Thread))
}

/// Engines that have met, so that further connections of theirs meet by one request.
pub(super) fn acquainted() -> Arc<Engines> {
    let engines = Engines::take(Progress::ByHand);
    let [a, _] = &engines.both;
    let mut has_pair = false;
    a.run(|| crate::pair::each(|_, _| has_pair = true));
    if !has_pair {
        drop(met_by(&engines));
    }
    engines
}

/// A connection at that place of its way, in the direction in which the end of role `sender` sends.
pub(super) fn link(at: At, sender: Role) -> Link {
    link_by(&acquainted(), at, sender)
}

/// Returns a link at a place, between ends of these engines.
pub(super) fn link_by(engines: &Arc<Engines>, at: At, sender: Role) -> Link {
    let seen_from = |[client, server]: [End; 2]| match sender {
        Role::Connector => Link { a: client, b: server, unread: Vec::new() },
        Role::Acceptor => Link { a: server, b: client, unread: Vec::new() },
    };
    match at {
        At::Kernel | At::Tcp => seen_from(connected(engines, at)),
        At::Granted | At::Switched => loop {
            let ends = fresh(engines);
            let (from, to) = match sender {
                Role::Connector => (&ends[0], &ends[1]),
                Role::Acceptor => (&ends[1], &ends[0]),
            };
            let is_granted = || {
                from.phase() == Phase::Attached && from.tx() == Tx::Tcp && to.rx() == Rx::Granted
            };
            if !talk(&ends, is_granted) {
                continue;
            }
            let link = seen_from(ends);
            if at == At::Switched {
                link.a.switch();
                assert_eq!((link.a.tx(), link.b.rx()), (Tx::Vi, Rx::Granted));
            }
            return link;
        },
        At::Entered => seen_from(met_by(engines)),
        At::Revoked => {
            let link = seen_from(met_by(engines));
            link.b.leave();
            assert_eq!((link.a.tx(), link.b.rx()), (Tx::Vi, Rx::Vi));
            link
        }
        At::Left => {
            let link = seen_from(met_by(engines));
            link.a.leave();
            assert_eq!((link.a.tx(), link.b.rx()), (Tx::Back, Rx::Vi));
            link
        }
        At::Draining => {
            let mut link = seen_from(met_by(engines));
            link.unread = pattern(0, UNREAD);
            link.a.put(&link.unread);
            link.b.leave();
            link.a.round();
            link.b.round();
            assert_eq!((link.a.tx(), link.b.rx()), (Tx::Back, Rx::Back));
            link
        }
        At::Back => {
            let link = seen_from(met_by(engines));
            link.b.leave();
            let is_plain = |end: &End| end.phase() == Phase::Plain;
            while !(is_plain(&link.a) && is_plain(&link.b)) {
                link.turn();
                exchange(&link.a, &link.b);
            }
            link
        }
    }
}

/// A connection at each place, by the role of the end that sends in the direction.
pub(super) mod at {
    use super::{At, Link, Role, link};

    macro_rules! places {
        ($($(#[$doc:meta])* $name:ident: $at:ident),+) => {
            $($(#[$doc])* pub(in super::super) fn $name(sender: Role) -> Link { link(At::$at, sender) })+
        };
    }
    places! {
        kernel: Kernel, on_tcp: Tcp, granted: Granted, switched: Switched, entered: Entered, revoked: Revoked, left: Left,
        draining: Draining, back_on_tcp: Back
    }
}

/// Makes cases of functions that take a [`Link`]: one for each function, place and direction. What the function checks must
/// hold of the kernel's own connections as well, which is the first place.
macro_rules! cases {
    ($($function:ident at $($(#[$attribute:meta])* $place:ident)+;)+) => {
        $(mod $function {
            #[test]
            fn of_the_kernel() {
                super::$function(super::super::harness::at::kernel(crate::conn::Role::Connector));
            }
            $(mod $place {
                $(#[$attribute])*
                #[test]
                fn from_the_connector() {
                    super::super::$function(super::super::super::harness::at::$place(crate::conn::Role::Connector));
                }
                $(#[$attribute])*
                #[test]
                fn from_the_acceptor() {
                    super::super::$function(super::super::super::harness::at::$place(crate::conn::Role::Acceptor));
                }
            })+
        })+
    };
}
pub(super) use cases;
