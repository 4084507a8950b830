//! Two lists of steps, one for each end, in every order in which the two ends may take them.
//!
//! A list is a text of words, one a step; [`World::step`] has the words. After each step, and once both ends have come to
//! rest, the world checks what must always hold.

use super::harness::{At, End, Engines, Epoll, Link, PEEK, acquainted, link_by, pattern};
use crate::conn::Role;
use libc::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use std::sync::Arc;
use std::thread;

/// More orders than this are not run: so many are drawn.
const MOST: usize = 70;

/// Seed of what is drawn, unless SOVIA_SEED says another one.
const SEED: u64 = 1;

/// Bytes that a program driven by edges sends in all.
const BULK: usize = 300_000;

/// One end, and its program.
struct Side {
    end: Option<End>,
    /// Bytes sent and received.
    sent: usize,
    got: usize,
    /// Set once the side has shut its sending half, and once it has read the other side's end.
    has_finished: bool,
    has_ended: bool,
    /// The edges that the program waits for.
    edges: Option<Epoll>,
    /// Bytes that the program driven by edges has still to send.
    pending: usize,
    /// Whether its last write found no room.
    is_full: bool,
}

impl Side {
    fn end(&self) -> &End {
        self.end.as_ref().expect("the end is open")
    }
}

/// A connection, and what its two programs have seen.
struct World {
    sides: [Side; 2],
}

impl World {
    fn new(link: Link) -> World {
        let unread = link.unread.len();
        let side = |end, sent| Side {
            end: Some(end),
            sent,
            got: 0,
            has_finished: false,
            has_ended: false,
            edges: None,
            pending: 0,
            is_full: false,
        };
        World { sides: [side(link.a, unread), side(link.b, 0)] }
    }

    /// Takes one step of an end:
    /// - `wN` writes N bytes, as many as there is room for; `rN` reads up to N; `kN` looks at up to N;
    /// - `t` is a round of its progress thread; `l` begins the fallback to TCP; `f` shuts the sending half;
    /// - `p` asks poll, and tries what poll says;
    /// - `e` has the program take its edges, and do what they tell of; `E` has it begin so, with much to send.
    fn step(&mut self, n: usize, step: &str) {
        let (word, len) = step.split_at(1);
        let len = || len.parse::<usize>().expect("a length");
        match word {
            "w" => self.write(n, len()),
            "r" => {
                self.read(n, len());
            }
            "k" => self.look(n, len()),
            "t" => self.sides[n].end().round(),
            "l" => self.sides[n].end().leave(),
            "f" => {
                self.sides[n].end().finish();
                self.sides[n].has_finished = true;
            }
            "p" => self.poll(n),
            "E" => self.begin_with_edges(n),
            "e" => self.take_edges(n),
            _ => panic!("no such step: {step}"),
        }
    }

    fn write(&mut self, n: usize, len: usize) {
        let side = &mut self.sides[n];
        match side.end().write(&pattern(side.sent, len)) {
            Ok(sent) => side.sent += sent,
            Err(error) => {
                assert_eq!(error, if side.has_finished { libc::EPIPE } else { libc::EAGAIN })
            }
        }
    }

    /// Reads; how many bytes there were.
    fn read(&mut self, n: usize, len: usize) -> usize {
        let got = self.sides[n].end().read(len);
        let (peer_sent, peer_has_finished) =
            (self.sides[1 - n].sent, self.sides[1 - n].has_finished);
        let side = &mut self.sides[n];
        match got {
            Ok(bytes) if bytes.is_empty() => {
                assert!(peer_has_finished, "an end that nobody has sent");
                assert_eq!(side.got, peer_sent, "the end before the last byte");
                side.has_ended = true;
                0
            }
            Ok(bytes) => {
                assert!(bytes == pattern(side.got, bytes.len()), "other bytes than were sent");
                side.got += bytes.len();
                assert!(side.got <= peer_sent, "more than was sent");
                bytes.len()
            }
            Err(error) => {
                assert_eq!(error, libc::EAGAIN);
                0
            }
        }
    }

    fn look(&self, n: usize, len: usize) {
        if let Ok(bytes) = self.sides[n].end().take(len, PEEK) {
            assert!(bytes == pattern(self.sides[n].got, bytes.len()), "other bytes than were sent");
        }
    }

    /// Checks that the next call finds what poll reports.
    fn poll(&mut self, n: usize) {
        let events = self.sides[n].end().poll(libc::POLLIN | libc::POLLOUT);
        if events & libc::POLLOUT != 0 && !self.sides[n].has_finished {
            let before = self.sides[n].sent;
            self.write(n, 1);
            assert_eq!(self.sides[n].sent, before + 1, "writable, and no room");
        }
        if events & libc::POLLIN != 0 {
            let has_found = self.read(n, 1) == 1 || self.sides[n].has_ended;
            assert!(has_found, "readable, and nothing there");
        }
    }

    fn begin_with_edges(&mut self, n: usize) {
        let side = &mut self.sides[n];
        side.end().shrink_buffer();
        side.edges = Some(side.end().watched(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET));
        side.pending = BULK;
        self.write_pending(n);
    }

    /// Writes until there is no room, and then waits for an edge.
    fn write_pending(&mut self, n: usize) {
        let side = &mut self.sides[n];
        side.is_full = false;
        while side.pending > 0 {
            match side.end().write(&pattern(side.sent, side.pending.min(20_000))) {
                Ok(sent) => (side.sent, side.pending) = (side.sent + sent, side.pending - sent),
                Err(error) => {
                    assert_eq!(error, libc::EAGAIN);
                    side.is_full = true;
                    return;
                }
            }
        }
        if !side.has_finished {
            side.end().finish();
            side.has_finished = true;
        }
    }

    fn take_edges(&mut self, n: usize) {
        let Some(edges) = &self.sides[n].edges else { return };
        let mask = edges.mask();
        if mask & EPOLLIN != 0 {
            while !self.sides[n].has_ended && self.read(n, 50_000) > 0 {}
        }
        if mask & EPOLLOUT != 0 && self.sides[n].is_full {
            self.write_pending(n);
        }
    }

    /// Goes on until all bytes have been read, and the ends have ended each other.
    fn rest(&mut self) {
        for n in 0..2 {
            if self.sides[n].edges.is_none() && !self.sides[n].has_finished {
                self.sides[n].end().finish();
                self.sides[n].has_finished = true;
            }
        }
        let begin = std::time::Instant::now();
        while !self.sides.iter().all(|side| side.has_ended) {
            assert!(
                begin.elapsed().as_secs() < 20,
                "the two wait for each other: {}",
                self.reported()
            );
            for n in 0..2 {
                self.sides[n].end().round();
                if self.sides[n].edges.is_some() {
                    self.take_edges(n);
                } else {
                    while !self.sides[n].has_ended && self.read(n, 50_000) > 0 {}
                }
            }
            thread::yield_now();
        }
        let [a, b] = &self.sides;
        assert_eq!((a.got, b.got), (b.sent, a.sent));
    }

    /// Describes the state of both sides, for a failure.
    fn reported(&self) -> String {
        let reported = |side: &Side| {
            format!(
                "sent {}, got {}, {} to send, full: {}, ended: {}, {:?} {:?} {:?}",
                side.sent,
                side.got,
                side.pending,
                side.is_full,
                side.has_ended,
                side.end().phase(),
                side.end().tx(),
                side.end().rx(),
            )
        };
        format!("a: {}; b: {}", reported(&self.sides[0]), reported(&self.sides[1]))
    }
}

/// Says which order has failed.
struct Order<'a> {
    what: &'a str,
    taken: Vec<String>,
}

impl Drop for Order<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}; steps of a and b: {}", self.what, self.taken.join(" "));
        }
    }
}

/// Takes the steps in one order: bit n of `order` says whose the n-th step is.
fn run(
    engines: &Arc<Engines>,
    at: At,
    sender: Role,
    lists: [&[&str]; 2],
    order: &[bool],
    what: &str,
) {
    let mut world = World::new(link_by(engines, at, sender));
    let mut reported = Order { what, taken: Vec::new() };
    let mut next = [0, 0];
    for &is_b in order {
        let n = usize::from(is_b);
        let step = lists[n][next[n]];
        next[n] += 1;
        reported.taken.push(format!("{}:{step}", ["a", "b"][n]));
        world.step(n, step);
    }
    reported.taken.push("rest".into());
    world.rest();
}

/// All orders of `a` steps of one end and `b` of the other.
fn all_orders(a: usize, b: usize) -> Vec<Vec<bool>> {
    let steps = a + b;
    (0u32..1 << steps)
        .filter(|order| order.count_ones() as usize == b)
        .map(|order| (0..steps).map(|n| order >> n & 1 != 0).collect())
        .collect()
}

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// An order in which the steps left of either end are equally likely to be next.
fn draw(random: &mut Random, a: usize, b: usize) -> Vec<bool> {
    let (mut a, mut b) = (a, b);
    let mut order = Vec::new();
    while a + b > 0 {
        let is_b = (random.next() % (a + b) as u64) < b as u64;
        *(if is_b { &mut b } else { &mut a }) -= 1;
        order.push(is_b);
    }
    order
}

/// Runs the two lists of steps in every order, or in [`MOST`] that are drawn, each on a new connection at that place.
pub(super) fn in_every_order(at: At, sender: Role, a: &str, b: &str) {
    let seed = std::env::var("SOVIA_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split(' ').collect(), b.split(' ').collect());
    let lists = [&a[..], &b[..]];
    let engines = acquainted();
    let steps = a.len() + b.len();
    let orders = if steps <= 12 { all_orders(a.len(), b.len()) } else { Vec::new() };
    if !orders.is_empty() && orders.len() <= MOST {
        for order in &orders {
            run(&engines, at, sender, lists, order, "one of all orders");
        }
    } else {
        let mut random = Random(seed);
        let what = format!("drawn with SOVIA_SEED={seed}");
        for _ in 0..MOST {
            let order = draw(&mut random, a.len(), b.len());
            run(&engines, at, sender, lists, &order, &what);
        }
    }
}
