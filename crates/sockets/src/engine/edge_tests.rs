//! Epoll instances between two engines: each event is reported once, to a thread that waits.
//!
//! Time limits here are watchdogs: a call that reaches one has missed its event.

use crate::conn::{Phase, Role};
use crate::epoll_sets::{self, EpollSet};
use crate::native::{self, Info};
use crate::ops::{self, Flags};
use crate::per_engine::Engine;
use crate::rendezvous::Server;
use crate::{Outcome, epoll, table};
use core::sync::atomic::Ordering;
use sovia_sys::{Fd, UserSliceMut, call, poll};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

const WATCHDOG: Option<u64> = Some(20_000_000_000);
const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const EDGE: u32 = libc::EPOLLET as u32;

/// The two engines of all tests here: what an engine has lasts as long as the process.
fn both() -> [Engine; 2] {
    static BOTH: OnceLock<[Engine; 2]> = OnceLock::new();
    *BOTH.get_or_init(|| [engine(), engine()])
}

fn engine() -> Engine {
    let engine = Engine::new();
    // A relay would be a copy of all engines.
    engine.run(super::start_alone);
    engine
}

/// One end of a connection.
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

    fn info(&self) -> Info {
        self.engine.run(|| native::info(self.fd()))
    }

    fn send(&self, bytes: &[u8], dont_wait: bool) -> Outcome {
        let fd = self.fd();
        let flags = libc::MSG_NOSIGNAL | if dont_wait { libc::MSG_DONTWAIT } else { 0 };
        let kernel = || call::send(fd, bytes, flags).map_err(crate::errno);
        let how = Flags { dont_wait, ..Flags::default() };
        self.engine.run(|| match table::conn(fd) {
            Some(at) => ops::send(fd, at, bytes.into(), how, kernel),
            None => kernel(),
        })
    }

    /// Writes a few bytes, for which there is room.
    fn write(&self, bytes: &[u8]) {
        assert_eq!(self.send(bytes, false), Ok(bytes.len()));
    }

    /// Sends until there is no room; returns the number of bytes sent.
    fn fill(&self) -> usize {
        let mut sent = 0;
        loop {
            match self.send(&[7; 1 << 16], true) {
                Ok(n) => sent += n,
                Err(error) => {
                    assert_eq!(error, libc::EAGAIN);
                    return sent;
                }
            }
        }
    }

    /// Reads `len` bytes, or less at the end of the stream.
    fn read(&self, len: usize) -> Vec<u8> {
        let (fd, mut bytes, mut done) = (self.fd(), vec![0; len], 0);
        while done < len {
            let out = UserSliceMut::from(&mut bytes[done..]);
            let kernel = || call::recv(fd, out, 0).map_err(crate::errno);
            let got = self.engine.run(|| match table::conn(fd) {
                Some(at) => ops::receive(fd, at, out, Flags::default(), kernel),
                None => kernel(),
            });
            match got.expect("the peer writes") {
                0 => break,
                n => done += n,
            }
        }
        bytes.truncate(done);
        bytes
    }

    fn shut_writing(&self) {
        let kernel = || self.socket.shutdown(Shutdown::Write).map(|()| 0).map_err(|_| libc::EIO);
        let shut = || ops::shutdown(self.fd(), self.at(), libc::SHUT_WR, kernel);
        self.engine.run(shut).unwrap();
    }

    fn at(&self) -> table::Ref {
        self.engine.run(|| table::conn(self.fd())).expect("a connection on record")
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let fd = self.fd();
        self.engine.run(|| ops::close(fd));
    }
}

/// Connector and acceptor of a new connection.
fn connected() -> [End; 2] {
    let [connector, acceptor] = both();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    [End::new(connector, client, Role::Connector), End::new(acceptor, server, Role::Acceptor)]
}

/// Exchanges words until `is_done`, which is asked when the acceptor has read. False if the two ends will not meet.
fn exchange([a, b]: &[End; 2], is_done: impl Fn() -> bool) -> bool {
    loop {
        a.write(b"ping");
        assert_eq!(b.read(4), b"ping");
        if is_done() {
            return true;
        }
        if [a, b].iter().any(|end| end.info().state == native::State::Tcp as u32) {
            return false;
        }
        b.write(b"pong");
        assert_eq!(a.read(4), b"pong");
    }
}

/// Returns true once both directions of a connection are on the VI.
fn have_met(ends: &[End; 2]) -> bool {
    let is_on_vi = |end: &End| end.info().sends == 1 && end.info().receives == 1;
    exchange(ends, || ends.iter().all(is_on_vi))
}

/// A connection that has its VI.
fn met() -> [End; 2] {
    core::iter::repeat_with(connected).find(have_met).expect("an endless search")
}

/// An epoll instance of a program.
struct Instance {
    engine: Engine,
    epfd: i32,
    index: u32,
}

impl Instance {
    fn new(engine: Engine) -> Instance {
        let epfd = poll::epoll_create().unwrap();
        let index = engine.run(|| {
            epoll_sets::created(epfd);
            let table::Entry::Epoll(index) = table::get(epfd) else { panic!("not followed") };
            index
        });
        Instance { engine, epfd, index }
    }

    fn set(&self) -> &'static EpollSet {
        self.engine.run(|| epoll_sets::get(self.index)).expect("an open instance")
    }

    fn control(&self, op: i32, fd: i32, events: u32, data: u64) -> Outcome {
        let ask = || poll::epoll_ctl(self.epfd, op, fd, events, data);
        let kernel = || ask().map(|()| 0).map_err(crate::errno);
        self.engine.run(|| epoll::control(self.index, op, fd, Some((events, data)), kernel))
    }

    fn add(&self, fd: i32, events: u32, data: u64) {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data).unwrap();
    }

    /// Events with their data, as `epoll_wait` gives them.
    fn wait(&self, timeout: Option<u64>) -> Vec<(u32, u64)> {
        let mut out = [epoll::Event { events: 0, u64: 0 }; 4];
        let n = self.engine.run(|| match epoll::is_ours(self.index) {
            true => epoll::wait(self.index, &mut out, timeout, None).unwrap(),
            false => {
                let n = poll::epoll_wait(self.epfd, &mut out, timeout, None).unwrap();
                epoll::filter(&mut out[..n], None)
            }
        });
        out[..n].iter().map(|event| (event.events, event.u64)).collect()
    }

    /// Takes the events that there are.
    fn drain(&self) {
        while !self.wait(Some(0)).is_empty() {}
    }

    /// Waits until that many threads sleep in the instance.
    fn await_sleepers(&self, count: u32) {
        while self.set().asleep.load(Ordering::SeqCst) != count {
            thread::yield_now();
        }
        // They have announced it, and are about to be in the kernel.
        thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.engine.run(|| ops::close(self.epfd));
        drop(Fd::keep(self.epfd));
    }
}

#[test]
fn room_on_tcp_is_reported_after_the_peer_has_finished_on_the_vi() {
    let (ends, watched, sent) = loop {
        let ends = connected();
        let [a, b] = &ends;
        let watched = Instance::new(b.engine);
        watched.add(b.fd(), IN | OUT | libc::EPOLLRDHUP as u32 | EDGE, 1);
        if !exchange(&ends, || b.at().conn.phase() == Phase::Attached) || b.info().sends == 1 {
            continue;
        }
        let sent = b.fill();
        // The connector gets its VI by reading, and is the first to send there.
        a.read(1);
        a.write(b"x");
        if a.info().sends == 1 {
            break (ends, watched, sent);
        }
    };
    let [a, b] = &ends;
    a.shut_writing();
    assert_eq!(b.read(2), b"x", "and then the end");
    assert_eq!(b.info().sends, 0);
    watched.drain();
    a.read(sent - 1);
    loop {
        let events = watched.wait(WATCHDOG);
        assert!(!events.is_empty(), "no event tells of the room");
        if events.iter().any(|&(events, _)| events & OUT != 0) {
            break;
        }
    }
}

#[test]
fn a_second_event_wakes_the_second_thread_that_sleeps_in_an_instance() {
    let [first, second] = [met(), met()];
    let watched = &Instance::new(first[1].engine);
    watched.add(first[1].fd(), IN | EDGE, 1);
    watched.add(second[1].fd(), IN | EDGE, 2);
    watched.drain();
    let mut reported = thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| watched.wait(WATCHDOG)));
        watched.await_sleepers(2);
        first[0].write(b"one");
        watched.await_sleepers(1);
        // The other thread has returned to its program, and does not wait again.
        while !threads.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::yield_now();
        }
        second[0].write(b"two");
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    reported.sort_by_key(|&(_, data)| data);
    assert_eq!(reported, [(IN, 1), (IN, 2)]);
}

#[test]
fn a_connection_meets_in_an_instance_behind_one_that_was_closed() {
    let [_, engine] = both();
    let mut instances: Vec<Instance> = (0..70).map(|_| Instance::new(engine)).collect();
    drop(instances.remove(66));
    let last = instances.last().unwrap();
    let [a, b] = &loop {
        let ends = connected();
        last.add(ends[1].fd(), IN | EDGE, 7);
        if have_met(&ends) {
            break ends;
        }
    };
    last.drain();
    a.write(b"news");
    assert_eq!(last.wait(WATCHDOG), [(IN, 7)]);
    assert_eq!(b.read(4), b"news");
}

#[test]
fn an_instance_takes_the_place_of_one_that_was_closed() {
    // An engine of its own, in which no other test has instances.
    let engine = engine();
    let first = Instance::new(engine);
    let (set, generation) = (first.set(), first.set().generation());
    drop(first);
    let second = Instance::new(engine);
    assert!(core::ptr::eq(set, second.set()));
    assert_ne!(generation, second.set().generation());
}

#[test]
fn a_set_that_follows_no_instance_takes_no_call() {
    let engine = engine();
    let instance = Instance::new(engine);
    let set = instance.set();
    drop(instance);
    assert_eq!(set.with_generation(set.generation(), |_| ()), Err(libc::EBADF));
}

#[test]
fn a_child_forked_in_a_handler_during_a_sleep_counts_no_sleeper() {
    let engine = engine();
    let instance = Instance::new(engine);
    let set = instance.set();
    set.asleep.store(0, Ordering::SeqCst);
    // The call that the handler interrupted goes on in the child.
    assert!(!set.count_awake());
    assert_eq!(set.asleep.load(Ordering::SeqCst), 0);
}

#[test]
fn a_call_that_began_before_its_instance_was_closed_fails() {
    let [a, b] = &met();
    let at = b.at();
    let [_, other] = &connected();
    let closed = Instance::new(b.engine);
    // An entry that has been freed.
    closed.add(other.fd(), IN, 2);
    closed.control(libc::EPOLL_CTL_DEL, other.fd(), 0, 0).unwrap();
    let (set, generation) = (closed.set(), closed.set().generation());
    drop(closed);
    let add = || {
        b.engine.run(|| {
            set.with_generation(generation, |inner| {
                set.control_attached(inner, libc::EPOLL_CTL_ADD, b.fd(), at, Some((IN, 1)))
            })
        })
    };
    assert_eq!(add(), Err(libc::EBADF));
    let next = Instance::new(b.engine);
    assert_eq!(add(), Err(libc::EBADF));
    next.add(b.fd(), IN, 3);
    a.write(b"news");
    assert_eq!(next.wait(WATCHDOG), [(IN, 3)]);
}

#[test]
fn entries_of_two_numbers_stay_in_an_instance_when_one_is_closed_and_the_connection_goes_back() {
    let [a, b] = &met();
    let second = Fd::duplicate(b.fd(), 0).unwrap();
    b.engine.run(|| ops::dup(b.fd(), second.raw()));
    let watched = Instance::new(b.engine);
    watched.add(second.raw(), IN, 2);
    watched.add(b.fd(), IN, 1);
    b.engine.run(|| ops::close(second.raw()));
    drop(second);
    b.engine.run(|| native::to_tcp(b.fd()));
    assert_eq!(b.info().state, native::State::Tcp as u32);
    a.write(b"news");
    let mut reported = watched.wait(WATCHDOG);
    reported.sort_by_key(|&(_, data)| data);
    assert_eq!(reported, [(IN, 1), (IN, 2)]);
    let third = watched.control(libc::EPOLL_CTL_ADD, b.fd(), IN, 3);
    assert_eq!(third, Err(libc::EEXIST));
    watched.control(libc::EPOLL_CTL_DEL, b.fd(), 0, 0).unwrap();
    assert_eq!(watched.wait(WATCHDOG), [(IN, 2)]);
}
