//! Connections in a given state of their way to the VI or back ([`At`]).

use super::{End, Engines, Progress, UNREAD, WATCHDOG};
use crate::conn::{Phase, Role};
use crate::{Errno, protocol};
use sovia_proto::configuration::Configuration;
use sovia_proto::path::{Rx, Tx};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Instant;

/// Bytes of a stream, distinguished by their places.
pub(crate) fn pattern(from: usize, len: usize) -> Vec<u8> {
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
pub(crate) enum At {
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
pub(crate) struct Link {
    /// The end that sends in that direction.
    pub(crate) a: End,
    /// The end that receives.
    pub(crate) b: End,
    /// Bytes that `a` has sent and `b` has not read.
    pub(crate) unread: Vec<u8>,
}

impl Link {
    /// Both ends.
    pub(crate) fn ends(&self) -> [&End; 2] {
        [&self.a, &self.b]
    }

    /// Does a round of each progress thread's work.
    pub(crate) fn turn(&self) {
        self.a.round();
        self.b.round();
    }

    /// Looks until `look` finds something, with the work of both progress threads in between.
    #[track_caller]
    pub(crate) fn until<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        until(&self.ends(), look)
    }

    /// Waits for a fact.
    #[track_caller]
    pub(crate) fn becomes(&self, fact: impl Fn() -> bool) {
        self.until(|| fact().then_some(()));
    }

    /// Has `a` send all of `bytes`. At some places the peer has its part to do first.
    #[track_caller]
    pub(crate) fn send(&self, bytes: &[u8]) {
        send(&self.ends(), &self.a, bytes);
    }

    /// Has `b` send all of `bytes`, and `a` have them without reading.
    #[track_caller]
    pub(crate) fn answer(&self, bytes: &[u8]) {
        send(&self.ends(), &self.b, bytes);
        self.becomes(|| self.a.unread() == bytes.len());
    }

    /// Lets `b` receive all that `a` had sent before, and has sent since.
    #[track_caller]
    pub(crate) fn arrives(&self, sent: &[u8]) {
        arrives(&self.ends(), &self.b, &[&self.unread, sent].concat());
    }

    /// Lets `a` receive the bytes.
    #[track_caller]
    pub(crate) fn is_answered(&self, sent: &[u8]) {
        arrives(&self.ends(), &self.a, sent);
    }
}

/// Has `from` send all of `bytes`, with the work of the ends' progress threads while there is no room.
#[track_caller]
pub(crate) fn send(ends: &[&End], from: &End, bytes: &[u8]) {
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
pub(crate) fn next(ends: &[&End], end: &End) -> Result<Vec<u8>, Errno> {
    until(ends, || Some(end.read(64 << 10)).filter(|got| *got != Err(libc::EAGAIN)))
}

/// Lets `end` come to the end of the stream, which stays.
#[track_caller]
pub(crate) fn ends(others: &[&End], end: &End) {
    for _ in 0..2 {
        assert_eq!(next(others, end), Ok(Vec::new()));
    }
}

/// Lets `end` come to a reset: an error once, then the end.
#[track_caller]
pub(crate) fn is_reset(others: &[&End], end: &End) {
    assert_eq!(next(others, end), Err(libc::ECONNRESET));
    ends(others, end);
}

/// Repeats `look` until it finds something, and runs the ends' progress threads in between. Loopback delivers bytes
/// at any time, so the kernel decides when this succeeds.
#[track_caller]
pub(crate) fn until<T>(ends: &[&End], mut look: impl FnMut() -> Option<T>) -> T {
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
pub(crate) fn arrives(ends: &[&End], to: &End, expected: &[u8]) {
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
pub(crate) fn exchange(a: &End, b: &End) {
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
pub(crate) fn fresh(engines: &Arc<Engines>) -> [End; 2] {
    connected(engines, At::Tcp)
}

/// Returns the same through a listener that may have others.
pub(crate) fn fresh_by(listener: &TcpListener, engines: &Arc<Engines>) -> [End; 2] {
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
pub(crate) fn met_by(engines: &Arc<Engines>) -> [End; 2] {
    loop {
        let ends = fresh(engines);
        if meet(&ends) {
            return ends;
        }
    }
}

/// Talks until both directions are on the VI; false if the ends have given each other up.
pub(crate) fn meet(ends: &[End; 2]) -> bool {
    let is_on_vi = |end: &End| end.tx() == Tx::Vi && end.rx() == Rx::Vi;
    talk(ends, || ends.iter().all(is_on_vi))
}

/// Returns two ends on the VI, with a choice of the protocol for both.
pub(crate) fn met_as(choice: &str) -> [End; 2] {
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
pub(crate) fn met() -> [End; 2] {
    met_by(&Engines::take(Progress::ByHand))
}

/// Returns two ends on the VI whose engines have progress threads.
pub(crate) fn met_with_threads() -> [End; 2] {
    met_by(&Engines::take(Progress::Thread))
}

/// Engines that have met, so that further connections of theirs meet by one request.
pub(crate) fn acquainted() -> Arc<Engines> {
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
pub(crate) fn link(at: At, sender: Role) -> Link {
    link_by(&acquainted(), at, sender)
}

/// Returns a link at a place, between ends of these engines.
pub(crate) fn link_by(engines: &Arc<Engines>, at: At, sender: Role) -> Link {
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
pub(crate) mod at {
    use super::{At, Link, Role, link};

    macro_rules! places {
        ($($(#[$doc:meta])* $name:ident: $at:ident),+) => {
            $($(#[$doc])* pub(crate) fn $name(sender: Role) -> Link { link(At::$at, sender) })+
        };
    }
    places! {
        kernel: Kernel, on_tcp: Tcp, granted: Granted, switched: Switched, entered: Entered, revoked: Revoked, left: Left,
        draining: Draining, back_on_tcp: Back
    }
}
