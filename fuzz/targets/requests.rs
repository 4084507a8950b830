//! The table in which connections are requested and accepted, with a peer that writes into it as it likes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::hand::{self, Rule};
use sovia_fuzz::honest::{self, Honest};
use sovia_fuzz::input::Input;
use sovia_fuzz::open;
use sovia_fuzz::place::{self, Places};
use sovia_fuzz::tcp::Ends;
use sovia_ring::Segment;
use sovia_ring::layout::{Header, VIS};
use sovia_ring::request::{DISCRIMINATOR, Pending, Progress, Used};
use sovia_sockets::conn::Role;
use sovia_sockets::fuzzing::{self, Connection};
use sovia_sockets::pair;
use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Chooses how much memory a direction has used.
fn used(input: &mut Input<'_>) -> Used {
    match input.u8() % 3 {
        0 => Used::Little,
        1 => Used::ForNow,
        _ => Used::Much,
    }
}

/// Moves of a story.
const MOST: usize = 80;
/// Connections of a story.
const CONNECTIONS: usize = 5;

/// A segment of the two processes, in one of its two roles.
struct Table {
    /// The hostile side's mapping.
    segment: Segment,
    /// The hostile side's number.
    side: usize,
    /// The honest side's pair, and the address at which it has mapped the segment.
    pair: u32,
    base: usize,
}

impl Table {
    fn new(side: usize, nonce: u64) -> Table {
        let (segment, file) = Segment::create().expect("no memory");
        let mine = Segment::attach(&file).expect("the segment just made");
        let server = (side == 1).then(server);
        let pair = fuzzing::pair_with(nonce, segment, &file, side ^ 1, server).expect("no pair");
        let base = place::base(&pair::get(pair).expect("the pair just made").segment);
        Table { segment: mine, side, pair, base }
    }

    /// One of the words that matter.
    fn choose(&self, input: &mut Input<'_>) -> usize {
        let header = size_of::<Header>() / 8;
        match input.below(8) {
            0 => 8 * input.below(header),
            1 => self.pending(0) + 8 * input.below(VIS as usize / 64),
            2 => self.pending(1) + 8 * input.below(VIS as usize / 64),
            n => {
                let vi = if n < 7 { input.below(8) } else { input.below(VIS as usize) } as u32;
                Places::of(&self.segment, vi).request + 8 * input.below(DISCRIMINATOR / 8 + 1)
            }
        }
    }

    fn pending(&self, side: usize) -> usize {
        self.segment.side(side).pending.as_ptr().addr() - place::base(&self.segment)
    }

    fn rule(&self, input: &mut Input<'_>) -> Rule {
        let when = 1 + u64::from(input.u8());
        match input.below(4) {
            0 => Rule::AtLook(when, place::change(input)),
            1 | 2 => Rule::Elsewhere(when, self.choose(input), place::change(input)),
            _ => Rule::Always(self.choose(input), place::change(input)),
        }
    }
}

fn server() -> std::net::SocketAddr {
    Ends::new().acceptor.local_addr().expect("no address")
}

/// A connection, and the hostile side's end of it.
struct Line {
    honest: Honest,
    role: Role,
    tcp: TcpStream,
    connection: Connection,
}

impl Line {
    fn new(role: Role) -> Line {
        let ends = Ends::new();
        let (own, theirs) = match role {
            Role::Connector => (&ends.connector, &ends.acceptor),
            Role::Acceptor => (&ends.acceptor, &ends.connector),
        };
        let honest = Honest::new(own.try_clone().expect("no descriptor"), role);
        let tcp = theirs.try_clone().expect("no descriptor");
        Line { honest, role, tcp, connection: ends.named_by(theirs) }
    }

    /// A transfer, by which the honest side takes a step.
    fn transfer(&self) {
        match self.role {
            Role::Connector => drop(self.honest.send(b"x")),
            Role::Acceptor => {
                let _ = (&self.tcp).write(b"x");
                let _ = self.honest.receive(&mut [0; 64], false);
            }
        }
    }
}

/// Checks that no two connections have the same VI.
fn expect_distinct(lines: &[Line]) {
    let mut taken = HashSet::new();
    for line in lines.iter().filter(|line| line.honest.is_attached()) {
        let place = (line.honest.at().conn.pair.load(Ordering::Relaxed), line.honest.vi());
        assert!(place.1 < VIS, "a VI that is none");
        assert!(taken.insert(place), "two connections on one VI");
    }
}

/// The table alone, as a user of it that keeps a book of what it has: a call for each method.
fn table(table: &Table, rules: Vec<Rule>, input: &mut Input<'_>, book: &RefCell<HashSet<u32>>) {
    let pair = pair::get(table.pair).expect("a pair lives as long as its story");
    let (honest, side) = (&pair.segment, table.side ^ 1);
    let vi = u32::from(input.u8()) % VIS;
    hand::during(table.base, rules, || match input.below(7) {
        0 => {
            let before = book.borrow().clone();
            let taken = honest.request_connection_on(
                side,
                &[7; DISCRIMINATOR],
                |vi| book.borrow_mut().insert(vi),
                |vi| assert!(book.borrow_mut().remove(&vi)),
            );
            if let Some(vi) = taken {
                assert!(vi < VIS && vi as usize % 2 == side, "a VI of the other half");
                assert!(!before.contains(&vi), "a VI that is in use");
                assert!(book.borrow().contains(&vi));
            }
        }
        1 => {
            let mut found: Vec<Pending> = Vec::new();
            honest.pending(side, |request, _| {
                assert!(
                    request.vi < VIS && request.vi as usize % 2 != side,
                    "a VI of the other half"
                );
                found.push(request);
            });
            assert!(found.len() <= VIS as usize / 2);
            if let Some(&request) = found.first() {
                honest.accept(side, request);
            }
        }
        2 => drop(honest.requested(side, vi).map(|request| honest.accept(side, request))),
        3 => assert!(matches!(
            honest.progress(vi),
            Progress::Pending | Progress::Accepted | Progress::Gone
        )),
        4 => drop(honest.withdraw(side, vi)),
        5 => {
            honest.leave(side, vi, used(input), 4096);
            book.borrow_mut().remove(&vi);
        }
        _ => drop((honest.peer_left(side, vi), honest.check())),
    });
}

/// Plays a story. How many connections were accelerated.
fn play(input: &mut Input<'_>) -> usize {
    // In one the honest side requests, in the other the hostile one does.
    let tables = [Table::new(1, 1), Table::new(0, 2)];
    let mut lines: Vec<Line> = Vec::new();
    let mut rules = [const { Vec::new() }; 2];
    let books = [(); 2].map(|()| RefCell::new(HashSet::new()));
    input.each(MOST, |input| {
        let which = input.below(2);
        let of = &tables[which];
        let line = (!lines.is_empty()).then(|| input.below(lines.len()));
        match (input.below(16), line) {
            (0 | 1, _) if lines.len() < CONNECTIONS => {
                lines.push(Line::new([Role::Connector, Role::Acceptor][which]));
            }
            (2..=5, Some(i)) => {
                let rules = std::mem::take(&mut rules[which]);
                hand::during(of.base, rules, || lines[i].transfer());
            }
            (6 | 7, Some(i)) => {
                of.segment.request_connection(of.side, &lines[i].connection.discriminator());
            }
            (8 | 9, _) => {
                let mut found = Vec::new();
                of.segment.pending(of.side, |request, _| found.push(request));
                for request in found {
                    of.segment.accept(of.side, request);
                }
            }
            (10, _) => of.segment.leave(of.side, u32::from(input.u8()) % VIS, used(input), 0),
            (11 | 12, _) => hand::write(of.base, of.choose(input), place::change(input)),
            (13, _) => rules[which].push(of.rule(input)),
            (14, _) => table(of, std::mem::take(&mut rules[which]), input, &books[which]),
            (_, Some(i)) => {
                let line = lines.swap_remove(i);
                let rules = std::mem::take(&mut rules[which]);
                hand::during(of.base, rules, || drop(line));
            }
            _ => {}
        }
        expect_distinct(&lines);
    });
    let attached = lines.iter().filter(|line| line.honest.is_attached()).count();
    drop(lines);
    fuzzing::forget_peers();
    attached
}

/// Stories without a lie.
const TRUTHS: [&[u8]; 2] =
    [&[0, 0, 0, 0, 2, 0, 0, 2, 0, 0, 8, 0, 0, 2], &[1, 0, 1, 0, 6, 1, 0, 2, 1, 0, 2, 1, 0, 2]];

fuzz_target!(|bytes: &[u8]| {
    static BEFORE: OnceLock<Vec<i32>> = OnceLock::new();
    let before = BEFORE.get_or_init(|| {
        honest::start();
        for (i, truth) in TRUTHS.into_iter().enumerate() {
            let attached = play(&mut Input::new(truth));
            assert_eq!(
                attached, 1,
                "story {i} without a lie is not accelerated: nothing is tested"
            );
        }
        open::descriptors()
    });
    play(&mut Input::new(bytes));
    open::expect_no_more_than(before);
});
