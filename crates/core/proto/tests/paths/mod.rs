//! Every interleaving of two ends whose stream moves between kernel TCP and a VI ([`sovia_proto::path`]).
//!
//! A step of an end is one load, store or exchange of a shared word, or one read or write of a queue. At any step
//! an end may compute, be stopped, or die. The checker visits every reachable state. The two ends share one
//! segment, or they are on two hosts with a segment each ([`carrier`]).

mod both;
mod carrier;
mod direction;
mod fallback;
mod hosts;
mod precautions;
mod receiver;
mod seen;
mod sender;
mod world;

use crate::search::visit_all;
use both::Connection;
use direction::Direction;
use precautions::Precautions;
use sovia_proto::path;
use stateright::{Checker, HasDiscoveries, Model, Path};
use world::{Limits, Mode, SenderAt, World};

const ORDER: &str = "what is read is what was sent, in order";
const END: &str = "the end of file comes after everything that was accepted";
const ALL: &str = "no end waits for ever, and everything accepted is read";
const BOTH: &str = "both ends retreat at once, with bytes unread both ways, and both pump";

/// Returns true if a direction in which no further step is due has delivered all bytes that it must deliver.
fn is_finished(limits: &Limits, w: &World) -> bool {
    let gone = matches!(w.s.mode, Mode::Gone | Mode::Stopped);
    let sent = gone || w.s.shut || w.s.next == limits.bytes;
    let read = w.r.read == w.s.next && (w.r.end || !w.tcp_end);
    sent && (read || w.r.mode == Mode::Gone)
}

/// Returns true in the only two cases in which accepted bytes are not read. In both, the sender has been stopped
/// for ever:
///
/// - during its own fallback, while it put bytes on TCP that the receiver had not yet seen on the VI
/// - while it still had to drain bytes
fn is_excused(w: &World) -> bool {
    let taking_back = matches!(w.s.at, SenderAt::TakeBack(_)) && !w.shared.taken_back;
    let draining = w.s.owes && path::awaits_drain(w.shared.returned, w.shared.drained);
    w.s.mode == Mode::Stopped && (taking_back || draining)
}

/// Returns a direction that follows the protocol with all precautions.
fn within(limits: Limits) -> Direction {
    Direction { limits, precautions: Precautions::ALL, between_hosts: None, excused: is_excused }
}

/// Returns the steps that led to a state, each with the positions of both ends before it.
fn trace(path: &Path<World, direction::Act>) -> String {
    let mut text = String::new();
    for (w, act) in path.clone().into_vec() {
        text += &format!("  {:?} / {:?} {:?}: {act:?}\n", w.s.at, w.r.at, w.r.fallback);
    }
    text
}

/// Visits every state of one direction, and panics if a property does not hold.
#[track_caller]
fn holds(model: Direction) {
    visit_all(model, trace);
}

#[test]
fn two_ends_that_live_and_act_deliver_everything() {
    for bytes in 1..=6 {
        holds(within(Limits { bytes, ..Limits::CALM }));
    }
}

#[test]
fn every_accepted_byte_is_read_whichever_end_stops_or_dies() {
    for (bytes, room) in [(1, 1), (2, 1), (3, 1), (3, 2), (2, 16), (3, 16)] {
        holds(within(Limits { bytes, room, ..Limits::WILD }));
    }
}

#[test]
#[ignore = "takes long: the same with more bytes"]
fn every_accepted_byte_of_five_is_read_whichever_end_stops_or_dies() {
    holds(within(Limits { bytes: 5, ..Limits::WILD }));
}

/// Returns a connection whose two ends never stop. They die only if `deaths` is set.
fn connection(bytes: [u8; 2], closes: bool, deaths: bool) -> Connection {
    Connection {
        limits: bytes.map(|bytes| Limits { bytes, closes, ..Limits::CALM }),
        precautions: Precautions::ALL,
        deaths,
        between_hosts: false,
    }
}

/// Visits every state of a connection, and panics if a property does not hold.
#[track_caller]
fn visits_all(model: Connection) {
    visit_all(model, |path| format!("{:#?}", path.clone().into_actions()));
}

#[test]
fn both_directions_together_deliver_everything() {
    for model in [
        connection([1, 1], true, false),
        connection([1, 1], false, true),
        connection([2, 2], false, false),
    ] {
        visits_all(model);
    }
}

#[test]
#[ignore = "minutes, and gigabytes: more bytes both ways, and ends that close, die or lose patience"]
fn both_directions_in_larger_cases() {
    let mut impatient = connection([1, 1], false, false);
    impatient.limits = impatient.limits.map(|limits| Limits { impatience: true, ..limits });
    let cases = [
        connection([3, 1], false, false),
        impatient,
        connection([2, 2], false, true),
        connection([2, 1], true, false),
    ];
    for model in cases {
        visits_all(model);
    }
}

#[test]
fn ends_that_fallback_at_once_drain_for_each_other_because_they_refuse_late() {
    let both = |refuse_late| {
        let mut model = connection([1, 1], false, false);
        model.precautions.refuse_late = refuse_late;
        model.limits = model.limits.map(|limits| Limits { abandons: false, ..limits });
        let checker = model.checker().threads(2).spawn_dfs().join();
        assert!([ORDER, END, ALL].iter().all(|name| checker.discovery(name).is_none()));
        checker.discovery(BOTH).is_some()
    };
    assert!(both(true));
    assert!(!both(false));
}

/// Leaves out a precaution, and returns the names of the properties that then do not hold.
fn without(mut model: Direction, leave_out: impl Fn(&mut Precautions)) -> Vec<&'static str> {
    leave_out(&mut model.precautions);
    let found = HasDiscoveries::AnyFailures;
    // Breadth first, because a counterexample is few steps away.
    let checker = model.checker().finish_when(found).spawn_bfs().join();
    checker.discoveries().into_keys().filter(|name| [ORDER, END, ALL].contains(name)).collect()
}

#[test]
fn every_precaution_is_needed() {
    type LeaveOut = fn(&mut Precautions);
    let calm = Limits { bytes: 2, closes: false, ..Limits::CALM };
    let close = Limits { bytes: 2, ..Limits::CALM };
    let wild = Limits { bytes: 2, ..Limits::WILD };
    let cases: [(&str, Limits, LeaveOut); 24] = [
        ("look at the grant again", calm, |p| p.look_at_grant_again = false),
        ("unswitch by exchange", calm, |p| p.unswitch_by_exchange = false),
        ("enter by exchange", calm, |p| p.enter_by_exchange = false),
        ("a recall enters", calm, |p| p.revoke_enters = false),
        ("cancel before entry", calm, |p| p.cancel_before_entry = false),
        ("hold back", calm, |p| p.hold_back = false),
        ("refuse to pump", calm, |p| p.refuse = false),
        ("finish a return", calm, |p| p.finish_return = false),
        ("a reader that comes to ToTcp answers", calm, |p| p.answer_as_reader = false),
        ("steps not in the middle of reads", calm, |p| p.one_at_a_time = false),
        ("do not overwrite a recall", calm, |p| p.keep_revoke = false),
        ("recall only what runs on the VI", calm, |p| p.revoke_what_runs = false),
        ("no cancelling after FIN", close, |p| p.keep_after_fin = false),
        ("look at the switch at TCP's end", close, |p| p.look_at_end = false),
        ("read TCP up to a claimed switch", close, |p| p.tcp_first = false),
        ("what is returned stays until it is pumped", wild, |p| p.stay_until_drained = false),
        ("skip what came", wild, |p| p.skip_what_came = false),
        ("rescue what was not taken back", wild, |p| p.rescue = false),
        ("wait for what is being taken back", wild, |p| p.await_taking_back = false),
        ("go on reading when impatient", wild, |p| p.keep_when_impatient = false),
        ("likewise, while taking back", wild, |p| p.keep_when_taken_slowly = false),
        ("likewise, while pumping", wild, |p| p.keep_when_drained_slowly = false),
        ("see a death behind bytes", wild, |p| p.see_death_behind_bytes = false),
        ("look at the VI after a death", wild, |p| p.look_at_vi_again = false),
    ];
    for (name, limits, leave_out) in cases {
        let found = without(within(limits), leave_out);
        assert!(!found.is_empty(), "nothing went wrong without: {name}");
    }
}

#[test]
fn only_a_sender_that_is_stopped_for_ever_keeps_bytes_from_being_read() {
    let loses = |limits| {
        let model = Direction { excused: |_| false, ..within(limits) };
        let found = HasDiscoveries::AnyFailures;
        let checker = model.checker().finish_when(found).spawn_dfs().join();
        checker.discovery(ALL).is_some() || checker.discovery(END).is_some()
    };
    assert!(loses(Limits { bytes: 2, ..Limits::WILD }));
    let kills = |bytes, room| Limits { bytes, room, sender_stops: false, ..Limits::WILD };
    assert!(!loses(kills(3, 1)));
    assert!(!loses(kills(4, 16)));
}
