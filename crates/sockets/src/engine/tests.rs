//! Two engines in one process: the ends of a connection, each as in a program of its own.

use crate::conn::{Role, flag};
use crate::meeting::Server;
use crate::native::{self, Info};
use crate::ops::{self, Flags};
use crate::per_engine::Engine;
use crate::stream::handled;
use crate::{Outcome, epoll, pair, pollset, sets, table};
use core::sync::atomic::Ordering;
use sovia_sys::{call, poll};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

/// One end of a connection. It may be used by several threads, as a socket may.
struct End {
    engine: Engine,
    socket: TcpStream,
}

impl End {
    fn new(engine: Engine, socket: TcpStream, role: Role) -> End {
        let fd = socket.as_raw_fd();
        engine.run(|| ops::opened(fd, role, Server::Unknown));
        End { engine, socket }
    }

    fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    fn write(&self, bytes: &[u8]) -> Outcome {
        let fd = self.fd();
        let kernel = || call::send(fd, bytes, libc::MSG_NOSIGNAL).map_err(crate::errno);
        self.engine.run(|| match table::conn(fd) {
            Some(at) => ops::send(fd, at, bytes, Flags::default(), kernel),
            None => kernel(),
        })
    }

    fn write_all(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = self.write(bytes).expect("the peer reads");
            bytes = &bytes[n..];
        }
    }

    fn read(&self, out: &mut [u8]) -> Outcome {
        self.receive(out, Flags::default())
    }

    fn receive(&self, out: &mut [u8], flags: Flags) -> Outcome {
        let fd = self.fd();
        let all: *mut [u8] = out;
        // SAFETY: the engine makes the kernel's call in the place of its own copying, never beside it.
        let kernel = || call::recv(fd, unsafe { &mut *all }, 0).map_err(crate::errno);
        self.engine.run(|| match table::conn(fd) {
            Some(at) => ops::receive(fd, at, out, flags, kernel),
            None => kernel(),
        })
    }

    fn read_exact(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match self.read(&mut bytes[done..]).expect("the peer writes") {
                0 => break,
                n => done += n,
            }
        }
        bytes.truncate(done);
        bytes
    }

    fn info(&self) -> Info {
        self.engine.run(|| native::info(self.fd()))
    }

    fn to_tcp(&self) {
        self.engine.run(|| native::to_tcp(self.fd()));
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let fd = self.fd();
        self.engine.run(|| ops::close(fd));
    }
}

fn engines() -> [Engine; 2] {
    let engines = [Engine::new(), Engine::new()];
    for engine in engines {
        // A relay would be a copy of both engines.
        engine.run(super::start_alone);
    }
    engines
}

fn connected([connector, acceptor]: [Engine; 2]) -> [End; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    [End::new(connector, client, Role::Connector), End::new(acceptor, server, Role::Acceptor)]
}

/// Whether both directions of a connection are on the VI, after some words to and fro. Two ends do not look for each
/// other for ever: one that has had no answer for some transfers stays on TCP.
fn have_met([a, b]: &[End; 2]) -> bool {
    let is_on_vi = |info: Info| info.sends == 1 && info.receives == 1;
    while !(is_on_vi(a.info()) && is_on_vi(b.info())) {
        if [a, b].iter().any(|end| end.info().state == native::State::Tcp as u32) {
            return false;
        }
        a.write_all(b"ping");
        assert_eq!(b.read_exact(4), b"ping");
        b.write_all(b"pong");
        assert_eq!(a.read_exact(4), b"pong");
    }
    true
}

/// A connection that has its VI.
fn met() -> [End; 2] {
    let engines = engines();
    core::iter::repeat_with(|| connected(engines)).find(have_met).expect("an endless search")
}

#[test]
fn the_ends_of_a_connection_meet_in_one_process() {
    let [a, b] = &met();
    a.write_all(b"over the VI");
    assert_eq!(b.read_exact(11), b"over the VI");
    assert!(a.info().is_accelerated() && b.info().is_accelerated());
    assert!(a.info().bytes_sent >= 11 && b.info().bytes_received >= 11);
}

#[test]
fn an_engine_knows_nothing_of_the_other_ones_connections() {
    let engines = engines();
    let [a, b] = &connected(engines);
    let knows = |engine: Engine, end: &End| engine.run(|| table::conn(end.fd()).is_some());
    assert!(knows(engines[0], a) && knows(engines[1], b));
    assert!(!knows(engines[0], b) && !knows(engines[1], a));
}

/// Bytes of a stream, told apart by their places.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|n| (n / 251 + n * 7) as u8).collect()
}

#[test]
fn what_is_unread_on_the_vi_is_read_in_its_place_after_either_end_went_back() {
    for leaves in 0..2 {
        let ends = met();
        let [a, b] = &ends;
        a.write_all(&pattern(0, 5_000));
        assert_eq!(b.read_exact(1_000), pattern(0, 1_000));
        thread::scope(|scope| {
            // The one asks, the other answers when it calls.
            let going = scope.spawn(|| ends[leaves].to_tcp());
            a.write_all(&pattern(5_000, 3_000));
            assert_eq!(b.read_exact(7_000), pattern(1_000, 7_000));
            going.join().unwrap();
        });
        while a.info().is_accelerated() || b.info().is_accelerated() {
            a.write_all(b"x");
            assert_eq!(b.read_exact(1), b"x");
            b.write_all(b"y");
            assert_eq!(a.read_exact(1), b"y");
        }
    }
}

#[test]
fn gathered_bytes_behind_packets_that_no_thread_has_handled_are_not_the_end_of_the_stream() {
    const LEN: usize = 64 * 200;
    let [a, b] = &met();
    let at = b.engine.run(|| table::conn(b.fd())).unwrap();
    // A thread that handles messages and stands still.
    b.engine.run(|| {
        let pair = pair::share(at.conn.pair.load(Ordering::Relaxed)).unwrap();
        let waiter = pair.take_waiter(0).unwrap();
        handled::begin(&mut at.attached().unwrap(), waiter, 0);
    });
    // More packets than the window has: what comes behind them is gathered.
    for from in (0..LEN).step_by(64) {
        a.write_all(&pattern(from, 64));
    }
    let read = |how: Flags| {
        // News of the socket have a call look closely.
        at.conn.set(flag::ANCHOR);
        b.receive(&mut [0; 64], Flags { dont_wait: true, ..how })
    };
    assert_eq!(read(Flags::default()), Err(libc::EAGAIN));
    assert_eq!(read(Flags { peek: true, ..Flags::default() }), Err(libc::EAGAIN));
    b.engine.run(|| handled::handle_own(&mut at.attached().unwrap()));
    assert_eq!(b.read_exact(LEN), pattern(0, LEN));
}

#[test]
fn bytes_of_tcp_that_were_read_and_not_counted_are_counted_where_tcp_ends() {
    let engines = engines();
    let mut connections = core::iter::repeat_with(|| connected(engines));
    let switched = |[a, b]: &[End; 2]| loop {
        a.write_all(b"ping");
        match (a.info(), b.info()) {
            (a, b) if a.sends == 1 && b.receives == 0 => return true,
            (a, _) if a.sends == 1 || a.state == native::State::Tcp as u32 => return false,
            _ => {}
        }
        assert_eq!(b.read_exact(4), b"ping");
        b.write_all(b"pong");
        assert_eq!(a.read_exact(4), b"pong");
    };
    // The one sends over the VI, and the other has not come there yet.
    let [a, b] = connections.find(switched).expect("an endless search");
    b.engine.run(|| table::conn(b.fd()).unwrap().conn.rx_tcp.fetch_sub(3, Ordering::Relaxed));
    a.write_all(b"the rest");
    let kernel = || a.socket.shutdown(Shutdown::Write).map(|()| 0).map_err(|_| libc::EIO);
    let shut = || ops::shutdown(a.fd(), table::conn(a.fd()).unwrap(), libc::SHUT_WR, kernel);
    a.engine.run(shut).unwrap();
    assert_eq!(b.read_exact(20), b"pingthe rest");
}

#[test]
fn threads_that_send_on_one_end_send_each_message_whole() {
    const THREADS: usize = 3;
    const MESSAGES: usize = 2_000;
    let [a, b] = &met();
    thread::scope(|scope| {
        for sender in 0..THREADS as u8 {
            scope.spawn(move || {
                for n in 0..MESSAGES as u32 {
                    let mut message = [sender; 40];
                    message[4..8].copy_from_slice(&n.to_le_bytes());
                    a.write_all(&message);
                }
            });
        }
        let mut next = [0u32; THREADS];
        for _ in 0..THREADS * MESSAGES {
            let message = b.read_exact(40);
            let sender = message[0];
            let n = u32::from_le_bytes(message[4..8].try_into().unwrap());
            assert!(message[8..].iter().all(|&byte| byte == sender));
            assert_eq!(n, next[usize::from(sender)]);
            next[usize::from(sender)] += 1;
        }
    });
}

#[test]
fn poll_reports_bytes_on_the_vi_and_its_end() {
    let [a, b] = met();
    let poll = |timeout| {
        let mut fds = [libc::pollfd { fd: b.fd(), events: libc::POLLIN, revents: 0 }];
        b.engine.run(|| {
            assert!(pollset::is_ours(&fds));
            pollset::wait(&mut fds, timeout, None).map(|n| (n, fds[0].revents))
        })
    };
    assert_eq!(poll(Some(0)), Ok((0, 0)));
    thread::scope(|scope| {
        scope.spawn(|| a.write_all(b"news"));
        assert_eq!(poll(None), Ok((1, libc::POLLIN)));
    });
    assert_eq!(b.read_exact(4), b"news");
    drop(a);
    assert!(poll(None).is_ok_and(|(n, events)| n == 1 && events & libc::POLLIN != 0));
    assert_eq!(b.read(&mut [0; 4]), Ok(0));
}

#[test]
fn an_epoll_set_reports_bytes_on_the_vi() {
    let [a, b] = &met();
    let epfd = poll::epoll_create().unwrap();
    b.engine.run(|| {
        sets::created(epfd);
        let table::Entry::Epoll(index) = table::get(epfd) else { panic!("not followed") };
        let wanted = (libc::EPOLLIN as u32, 7);
        let kernel = || {
            let (events, data) = wanted;
            poll::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, b.fd(), events, data)
                .map(|()| 0)
                .map_err(crate::errno)
        };
        epoll::control(index, libc::EPOLL_CTL_ADD, b.fd(), Some(wanted), kernel).unwrap();
    });
    let wait = |timeout| {
        let mut out = [epoll::Event { events: 0, u64: 0 }; 4];
        b.engine.run(|| {
            let table::Entry::Epoll(index) = table::get(epfd) else { panic!("not followed") };
            assert!(epoll::is_ours(index));
            let n = epoll::wait(index, &mut out, timeout, None).unwrap();
            (n, { out[0].events }, { out[0].u64 })
        })
    };
    assert_eq!(wait(Some(0)).0, 0);
    thread::scope(|scope| {
        scope.spawn(|| a.write_all(b"news"));
        assert_eq!(wait(None), (1, libc::EPOLLIN as u32, 7));
    });
    assert_eq!(b.read_exact(4), b"news");
    assert_eq!(wait(Some(0)).0, 0);
    b.engine.run(|| ops::close(epfd));
    drop(sovia_sys::Fd::keep(epfd));
}
