//! A segment whose other side belongs to the fuzzer. The fuzzer first keeps the rules and then breaks them, between
//! the honest side's calls and during them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::duel::{COALESCED_MAX, Duel, expect_unmarked, marked, word};
use sovia_fuzz::hand::{Change, Rule};
use sovia_fuzz::honest::{self, FLAGS};
use sovia_fuzz::input::Input;
use sovia_fuzz::{open, place};
use sovia_ring::pool::POOL;
use sovia_ring::ring::{SLOTS, Slot};
use sovia_sockets::conn::Role;
use sovia_sockets::loan::{self, Loan};
use sovia_sockets::{Outcome, fuzzing, native};
use std::io::Write;
use std::net::Shutdown;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Moves of a story.
const MOST: usize = 64;

/// Lengths of what is sent and received.
const LENGTHS: [usize; 12] = [0, 1, 7, 48, 49, 112, 113, 700, 4096, 32 << 10, 64 << 10, 200 << 10];

fn length(input: &mut Input<'_>) -> usize {
    LENGTHS[input.below(LENGTHS.len())]
}

/// Checks that no call fails with EFAULT, because every buffer of the program is valid.
fn check(outcome: Outcome) -> usize {
    assert_ne!(outcome, Err(libc::EFAULT), "a bad address, which can only be in the segment");
    outcome.unwrap_or(0)
}

/// Does something that the rules allow a peer, or that a hostile peer might do.
fn hostile(duel: &mut Duel, input: &mut Input<'_>) {
    let side = duel.side;
    let (out, back) =
        (duel.segment.direction(duel.vi, side), duel.segment.direction(duel.vi, side ^ 1));
    let set = |words: &sovia_ring::layout::Words, at: usize, value| {
        words.0[at].store(value, Ordering::SeqCst)
    };
    match input.below(12) {
        // Takes part in the paths' play.
        0 => set(&back.path, word::GRANT, u64::from(input.u8() % 6)),
        1 => {
            let from = duel.on_tcp.wrapping_add(u64::from(input.u8() / 128));
            set(&out.writer, word::WINDOW, 32);
            set(&out.path, word::FROM, from);
            set(&out.path, word::SWITCH, from + 1);
        }
        2 => {
            set(&back.path, word::GRANT, 3);
            set(&back.path, word::RETURNED, u64::from(input.u16()));
        }
        // Sends.
        3..=5 => {
            let kind = 1 + u32::from(input.u8() % 8);
            let immediate = kind << 24 | u32::from(input.u8() % 34);
            let len = if kind == 1 { length(input).min(64 << 10) } else { 0 };
            let _ = duel.end.tx.send(immediate, &vec![b'd'; len][..]);
        }
        // Coalesces.
        6 => {
            let len = length(input) as u64;
            let packets = u64::from(input.u8() % 4);
            let tail = out.writer.0[word::TAIL].load(Ordering::SeqCst);
            set(&out.writer, word::START, tail);
            set(&out.writer, word::AFTER, packets);
            set(&out.writer, word::TAIL, tail.wrapping_add(len.min(COALESCED_MAX as u64)));
        }
        // Takes what has been sent to it.
        7 => {
            let mut owed = 0u32;
            while let Ok(Some(entry)) = duel.end.rx.head() {
                owed += u32::from(entry.immediate >> 24 == 1);
                match duel.end.rx.advance(&entry) {
                    Ok(Some(position)) => duel.end.rx.release(position),
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
            let _ = duel.end.tx.send(2 << 24 | owed, &[]);
            let tail = back.writer.0[word::TAIL].load(Ordering::SeqCst);
            set(&back.reader, word::HEAD, tail);
        }
        // TCP.
        8 => {
            let len = usize::from(input.u8());
            duel.on_tcp += (&duel.tcp).write(&vec![b't'; len]).unwrap_or(0) as u64;
        }
        9 => {
            let how = [Shutdown::Write, Shutdown::Read, Shutdown::Both][input.below(3)];
            let _ = duel.tcp.shutdown(how);
        }
        // Sets bits in the ready lists.
        10 => {
            let base = duel.places.directions[input.below(2)];
            duel.write(base + 64 * input.below(2), Change::Set(input.u64()));
        }
        // Nonsense.
        _ => duel.write(duel.places.choose(input), place::change(input)),
    }
}

/// Chooses the peer's action during the next call.
fn rule(duel: &Duel, input: &mut Input<'_>) -> Rule {
    let places = &duel.places;
    match input.below(8) {
        0..=2 => Rule::AtLook(1 + u64::from(input.u8()), place::change(input)),
        3 | 4 => {
            let when = 1 + u64::from(input.u8());
            Rule::Elsewhere(when, places.choose(input), place::change(input))
        }
        5 | 6 => Rule::Always(places.choose(input), place::change(input)),
        _ => {
            let kind = u64::from(1 + input.u8() % 7);
            let len = u32::from(input.u16() % 160);
            let pooled = u32::from(input.flag()) << 31;
            Rule::Endless {
                at: places.rings[duel.side],
                slot: size_of::<Slot>(),
                slots: SLOTS as usize,
                head: len | pooled,
                more: kind << 24 | (u64::from(input.u16()) % (POOL / 64) * 64) << 32,
            }
        }
    }
}

/// A call of the honest side's.
fn honest(duel: &Duel, rules: &mut Vec<Rule>, loans: &mut Vec<Loan>, input: &mut Input<'_>) {
    let fd = duel.honest.fd();
    match input.below(16) {
        0..=3 => {
            let mut out = marked(length(input));
            let peek = input.below(4) == 1;
            let n = check(duel.during(rules, |honest| honest.receive(&mut out, peek)));
            expect_unmarked(&out[..n]);
        }
        4..=6 => {
            let bytes = marked(length(input));
            check(duel.during(rules, |honest| honest.send(&bytes)));
        }
        7 => drop(duel.during(rules, |honest| honest.poll())),
        8 => drop(check(duel.during(rules, |honest| honest.unread()))),
        9 => {
            let how = [libc::SHUT_RD, libc::SHUT_WR, libc::SHUT_RDWR][input.below(3)];
            check(duel.during(rules, |honest| honest.shutdown(how)));
        }
        10 => drop(duel.during(rules, |honest| honest.error())),
        11 => duel.during(rules, |honest| fuzzing::audit(honest.at())),
        12 => duel.during(rules, |honest| fuzzing::repair(honest.at())),
        13 => {
            let len = length(input).clamp(1, 64 << 10);
            let lent = duel.during(rules, |_| loan::lend(fd, len));
            if let Ok(loan) = lent {
                let inside = duel.is_in_pool(loan.memory(), loan.len(), true);
                assert!(!loan.is_in_place() || inside, "lent outside the pool");
                // SAFETY: what is lent may be written.
                unsafe { loan.memory().write_bytes(b'l', loan.len()) };
                loans.push(loan);
            }
        }
        14 => {
            let borrowed = duel.during(rules, |_| loan::borrow(fd, FLAGS));
            if let Ok(loan) = borrowed {
                let inside = duel.is_in_pool(loan.memory(), loan.len(), false);
                assert!(!loan.is_in_place() || inside, "borrowed outside the pool");
                if !loan.is_empty() {
                    // SAFETY: what is borrowed may be read; the peer does not write meanwhile.
                    expect_unmarked(unsafe {
                        std::slice::from_raw_parts(loan.memory(), loan.len())
                    });
                }
                loans.push(loan);
            }
        }
        _ => {
            if loans.is_empty() {
                let _ = duel.during(rules, |honest| native::info(honest.fd()));
                return;
            }
            let mut loan = loans.swap_remove(input.below(loans.len()));
            let n = loan.len();
            if input.flag() {
                let _ = duel.during(rules, |_| loan::commit(fd, &mut loan, n, FLAGS));
            }
            duel.during(rules, |_| loan::give_back(&mut loan));
        }
    }
}

/// Plays a story. Whether bytes went over the VI both ways.
fn play(input: &mut Input<'_>) -> bool {
    let role = if input.flag() { Role::Connector } else { Role::Acceptor };
    let Some(mut duel) = Duel::new(role, &[]) else { return false };
    let mut rules = Vec::new();
    let mut loans = Vec::new();
    if input.flag() {
        // Both directions on the VI at once.
        let (out, back) = (
            duel.segment.direction(duel.vi, duel.side),
            duel.segment.direction(duel.vi, duel.side ^ 1),
        );
        back.path.0[word::GRANT].store(1, Ordering::SeqCst);
        out.writer.0[word::WINDOW].store(32, Ordering::SeqCst);
        out.path.0[word::FROM].store(duel.on_tcp, Ordering::SeqCst);
        out.path.0[word::SWITCH].store(duel.on_tcp + 1, Ordering::SeqCst);
        back.path.0[word::GRANT].store(1, Ordering::SeqCst);
        let _ = duel.end.tx.send(1 << 24, b"first");
        let _ = duel.honest.receive(&mut [0; 5], false);
        let _ = duel.honest.send(b"first");
        back.path.0[word::GRANT].store(2, Ordering::SeqCst);
    }
    input.each(MOST, |input| match input.below(8) {
        0..=2 => hostile(&mut duel, input),
        3 => rules.push(rule(&duel, input)),
        _ => honest(&duel, &mut rules, &mut loans, input),
    });
    let info = native::info(duel.honest.fd());
    for mut loan in loans {
        duel.during(&mut rules, |_| loan::give_back(&mut loan));
    }
    duel.end();
    info.bytes_sent > 0 && info.bytes_received > 0
}

fuzz_target!(|bytes: &[u8]| {
    static BEFORE: OnceLock<Vec<i32>> = OnceLock::new();
    let before = BEFORE.get_or_init(|| {
        honest::start();
        for role in [0, 1] {
            let both = play(&mut Input::new(&[role, 1]));
            assert!(both, "story {role} without a lie does not run on the VI: nothing is tested");
        }
        open::descriptors()
    });
    play(&mut Input::new(bytes));
    open::expect_no_more_than(before);
});
