//! Random walks of two ends with fixed seeds, so that a failure is repeatable.

use sovia_tests::walk::compare::{Verdict, compare, shorten};
use sovia_tests::walk::script::Script;
use sovia_tests::walk::seeds::{Kind, of_seed};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

/// # Panics
/// If Sovia and the kernel differ in any of the walks.
fn walk(kind: Kind, seeds: Range<u64>) {
    walk_beside(kind, seeds, 1);
}

/// Runs many walks at the same time, because their ends mostly rest.
fn walk_beside(kind: Kind, seeds: Range<u64>, beside: usize) {
    let program = Path::new(env!("CARGO_BIN_EXE_walk"));
    let (left, undecided, differ) =
        (Mutex::new(seeds.clone()), Mutex::new(0), Mutex::new(String::new()));
    let next = || left.lock().unwrap().next();
    let take = || {
        while let Some(seed) = next() {
            let script = of_seed(seed, kind);
            match compare(program, &script) {
                Verdict::Same | Verdict::Known(_) => {}
                Verdict::Undecided => *undecided.lock().unwrap() += 1,
                Verdict::Differ(text) => {
                    let short = shorten(program, &script);
                    let text = format!("seed {seed}:\n{text}shorter: walk script '{short}'\n");
                    differ.lock().unwrap().push_str(&text);
                }
            }
        }
    };
    thread::scope(|scope| (0..beside).for_each(|_| drop(scope.spawn(take))));
    let (undecided, differ) = (undecided.into_inner().unwrap(), differ.into_inner().unwrap());
    assert!(differ.is_empty(), "{differ}");
    // A walk that the kernel does not repeat shows nothing.
    let walks = seeds.end - seeds.start;
    assert!(undecided * 4 < walks, "{undecided} of {walks} walks differ over the kernel itself");
}

/// Shortened walks in which Sovia once differed.
#[test]
fn walks_that_once_differed() {
    let program = Path::new(env!("CARGO_BIN_EXE_walk"));
    for text in [
        // After a fork no thread watched the kernel socket until the next call, and that call found
        // nothing.
        "7; B write 1; B fork; A kill; B2 error",
        "8; B write 1000; B fork; A close; B read 300000",
        "11; B fork; A exit; B write 9000",
        // The death of a peer caused one more edge after its end had been reported.
        "18; A add 0 edge both end; B shutdown 1; A events 0 4; B exit; A events 0 4",
        // After a fork, a program that waited for something else did not answer a peer that fell back.
        "9; A write 112; A fork; B fork; B child spawn kernel poll 7; A2 write 7",
        "6; A fork; B write 100; B child vfork kernel nothing 112; B write 112",
        // A relay refused the first send for a peer that had ended normally.
        "12; A write 1; A kill; B child spawn kernel poll 112; B await 48; B close",
        // A reset after the program's own shutdown was reported twice.
        "4; A write 112; A fork; B read 8; A2 write 49; A2 shutdown 1; B exit; A2 read 1000",
        "8; B write 112; A write 112; A shutdown 2; A fork; A error; B close; A write 7; A2 write 1000",
        // A forked child that only sent did not learn of its peer's death.
        "5; A fork; A kill; B kill; A2 write 112",
        // A child moved a connection to TCP, and the inherited epoll set noticed only a second later.
        "5; B add 0 both end; B fork; A kill; B2 child spawn kernel poll 8; B2 events 0 4",
        "5; B add 0 both end; B fork; A write 3; B2 child spawn kernel poll 8; B2 events 0 4",
        // The peer's end on the VI hid the reset for bytes that it had sent before.
        "10; B shutdown 2; A write 100; A close; B read 10",
        // The peer put the unread bytes on a TCP connection that was shut.
        "11; A fork; B write 113; A shutdown 2; A2 child system kernel write 48",
        "11; B write 113; A shutdown 2; A child spawn kernel poll 1",
        // Bytes that another program wrote on TCP were lost or came late, because the peer expected all bytes
        // on the VI.
        "12; B write 7; B shutdown 1; A child exec kernel write 100; B await 300000; A close; B await 300000",
        "12; B write 7; B shutdown 1; A child exec kernel write 100; B poll; A write 113; B poll; B read 300000",
        // A sender that went back put what it had sent before the other end shut both halves on a TCP that was shut.
        "5; A write 3000; B shutdown 2; A child system kernel poll 7; A poll; A error; B poll; B error; B await 300000",
        // MSG_PEEK hid a reset that a receive told.
        "12; A shutdown 2; B write 3000; B close; A peek 300000",
        // An entry that EPOLLONESHOT had disabled was armed again when the connection moved to its VI.
        "4; B add 0 edge once out; B events 0 4; A write 3000; B write 20000; B events 0 4",
        // A send that had sent a part took the error that the next call was to tell.
        "18; A sleep send 20000000; B shutdown 1; B exit; A poll; A woken; A error",
        "24; A kill; B sleep send 20000000; B woken; B poll; B error; B poll",
        // A poll that had begun over the kernel was not woken: another thread's receive let the bytes come on the VI.
        "4; B sleep readable 0; B write 112; A read 1000; B write 48; B read 300000; A write 1000; B woken",
        // A peer's death with bytes unread was no reset any more where the connection went back before a call had found it.
        "12; A write 3000; B kill; A child vfork kernel nothing 100; A read 10",
        "7; A write 7; B write 112; B kill; A child exec here nothing 112; A read 112; A read 10",
        // A receive that took the last bytes from a keeper took the reset behind them as well.
        "9; B write 1; A shutdown 2; B write 9000; A child exec here nothing 112; A read 10; A read 10",
        // A receive ended at the VI's end though it had begun before the switch, and more had come behind.
        "3; A write 1000; B write 1000; A read 8; B write 3000; A peek 1000; B splice-in 1; B write 112",
        // The VI's end behind an acknowledgement was reported as bytes: SOVIA_COPY.
        "8; B least 100",
        // A child did not receive what the thread of its parent, which had ended, was to handle: SOVIA_HANDLER, SOVIA_NOTIFY.
        "12; B fork; B exit; A write 113; B2 read 113",
        "12; B fork; B2 sleep receive 10; B exit; A write 10; B2 woken",
        "12; B fork; B2 add 0 level in; B2 sleep events 0; B exit; A write 10; B2 woken",
        // A reset by a death was reported as an edge twice.
        "19; B write 20000; B add 0 edge out; A kill; B events 0 4; B events 0 4",
        "23; B shutdown 0; B add 0 edge both; B write 113; A kill; B events 0 4; B events 0 4",
        // A splice to a connection whose peer was back on TCP left the unread bytes to a relay, which cannot discard bytes.
        "7; A write 49; A least 8; B splice-out 7; B discard 20000; B close",
    ] {
        let script: Script = text.parse().expect("a walk");
        if let Verdict::Differ(text) | Verdict::Known(text) = compare(program, &script) {
            panic!("walk script '{script}':\n{text}");
        }
    }
}

#[test]
fn walks_by_calls() {
    walk(Kind::Calls, 0..60);
}

#[test]
fn walks_with_children_and_deaths() {
    walk(Kind::Processes, 400..460);
}

#[test]
fn walks_with_other_programs() {
    walk(Kind::Programs, 0..60);
}

#[test]
fn walks_with_epoll_and_sleeping_threads() {
    walk(Kind::Waits, 0..40);
}

#[test]
fn walks_with_calls_of_every_form() {
    walk(Kind::Forms, 0..40);
}

#[test]
fn walks_with_connections_that_are_given_away() {
    walk(Kind::Gifts, 0..40);
}

#[test]
fn walks_with_several_connections() {
    walk(Kind::Several, 0..40);
}

/// 20,000 walks, in tests that run beside each other.
macro_rules! many {
    ($($name:ident $kind:ident;)+) => {
        $(
            #[test]
            #[ignore = "takes long; run it by name"]
            fn $name() {
                walk_beside(Kind::$kind, 1000..3858, 4);
            }
        )+
    };
}

many! {
    many_walks_by_calls Calls;
    many_walks_with_children_and_deaths Processes;
    many_walks_with_other_programs Programs;
    many_walks_with_epoll_and_sleeping_threads Waits;
    many_walks_with_calls_of_every_form Forms;
    many_walks_with_connections_that_are_given_away Gifts;
    many_walks_with_several_connections Several;
}
