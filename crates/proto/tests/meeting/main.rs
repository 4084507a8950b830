//! Every interleaving of processes that look for the other end of their connections
//! (`sovia/meeting`).
//!
//! Two connections; the processes act at the granularity of single datagrams and single accesses
//! to the table of requests, ends close, processes die, strangers bind names and lie. The checker
//! visits every state that can come about.

mod acceptor;
mod calm;
mod connector;
mod look;
mod model;
mod rules;
mod world;

use look::Meeting;
use rules::{Limits, Precautions, Scene};
use stateright::{Checker, HasDiscoveries, Model, Path};

const SAME: &str = "a VI has the two ends of one connection";
const PROVEN: &str = "descriptors go to, and come from, the process that has the other end";
const DOORS: &str = "an attached end can wake its peer";
const SWITCH: &str = "what an attached end sees granted was granted by its connection's other end";
const VISIBLE: &str = "a request that waits can be seen";
const LEAK: &str = "somebody is there to leave every VI";
const MEET: &str = "ends that keep looking come to a VI";

/// How a state came about.
fn trace(path: Path<world::World, model::Act>) -> String {
    path.into_actions().iter().map(|act| format!("  {act:?}\n")).collect()
}

/// Visits everything.
#[track_caller]
fn holds(scene: Scene, limits: Limits) {
    let rules = Precautions::ALL;
    let model = Meeting { scene, limits, rules };
    let checker = model.checker().threads(2).spawn_bfs().join();
    eprintln!("{scene:?} {} states", checker.unique_state_count());
    for (name, path) in checker.discoveries() {
        if checker.discovery_classification(name).to_string() == "counterexample" {
            let last = *path.last_state();
            panic!("not so in {scene:?}: {name}\n{}{last:#?}", trace(path));
        }
    }
    checker.assert_properties();
}

#[test]
fn ends_that_keep_looking_meet() {
    for scene in [Scene::Same, Scene::Workers, Scene::Forked, Scene::Crossed] {
        holds(scene, Limits::CALM);
    }
}

#[test]
fn closing() {
    for scene in [Scene::Same, Scene::Workers, Scene::Forked, Scene::Crossed] {
        holds(scene, Limits::CLOSING);
    }
}

#[test]
fn deadly() {
    for scene in [Scene::Same, Scene::Workers, Scene::Forked, Scene::Crossed] {
        holds(scene, Limits::DEADLY);
    }
}

#[test]
fn attacked() {
    for scene in [Scene::Same, Scene::Workers, Scene::Forked, Scene::Crossed] {
        holds(scene, Limits::ATTACKED);
    }
}

/// Leaves something out, and says what the checker found then.
fn without(scene: Scene, limits: Limits, leave_out: impl Fn(&mut Precautions)) -> Vec<&'static str> {
    let mut model = Meeting { scene, limits, rules: Precautions::ALL };
    leave_out(&mut model.rules);
    let found = HasDiscoveries::AnyFailures;
    let checker = model.checker().finish_when(found).spawn_bfs().join();
    let mut all = Vec::new();
    for (name, path) in checker.discoveries() {
        if checker.discovery_classification(name).to_string() == "counterexample" {
            eprintln!("{name}:\n{}", trace(path));
            all.push(name);
        }
    }
    all
}

#[test]
fn every_precaution_is_needed() {
    type LeaveOut = fn(&mut Precautions);
    let calm = Limits::CALM;
    let close = Limits::CLOSING;
    let attack = Limits::ATTACKED;
    let (same, crossed) = (Scene::Same, Scene::Crossed);
    let cases: [(&str, Scene, Limits, LeaveOut); 17] = [
        ("the user", same, attack, |p| p.check_user = false),
        ("the process", same, attack, |p| p.check_process = false),
        ("the cookie", same, attack, |p| p.check_cookie = false),
        ("the request that was found", same, calm, |p| p.accept_what_was_found = false),
        ("accepting by exchange", same, calm, |p| p.accept_by_exchange = false),
        ("withdrawing by exchange", same, calm, |p| p.withdraw_by_exchange = false),
        ("leaving what was accepted", same, close, |p| p.leave_what_was_accepted = false),
        ("fresh VIs", same, close, |p| p.recycle = false),
        ("clearing one's own bit", same, calm, |p| p.clear_what_was_taken = false),
        ("doors before attaching", same, calm, |p| p.doors_first = false),
        ("keeping the file", same, close, |p| p.keep_file = false),
        ("an inbox that stays", same, calm, |p| p.answer_to_inbox = false),
        ("emptying the inbox", same, attack, |p| p.empty_inbox = false),
        ("answering first", same, attack, |p| p.answer_first = false),
        ("pairs by role", crossed, calm, |p| p.pairs_by_role = false),
        ("one's own pairs", Scene::Forked, calm, |p| p.own_pairs = false),
        ("trying the other way", Scene::Workers, calm, |p| p.try_other_way = false),
    ];
    for (name, scene, limits, leave_out) in cases {
        eprintln!("=== {name}");let found = without(scene, limits, leave_out); eprintln!("{} {found:?}", if found.is_empty() {"NOTHING"} else {"ok"});
    }
}
