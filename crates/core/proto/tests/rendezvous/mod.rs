//! Every interleaving of processes that look for the other end of their connections (`sockets/src/rendezvous`).
//!
//! The model has two connections. A step of a process is one datagram, or one access to the table of requests. Ends
//! may close, and processes may die. Processes of another user may bind names and send false messages. The checker
//! visits every reachable state. In each state it asks whether the remaining ends would still meet if they only
//! kept looking.
//!
//! An end may be attached alone, if the other end was closed, was killed or has given up. This is harmless. An end
//! sends on a VI only after the other end has granted the VI, and no other process grants it. So the end stays on
//! TCP, and leaves the VI when it is closed.
//!
//! The model leaves out a connector that forks, and connections of a process to itself. It also leaves out bytes of
//! a request that change while a process reads them; `shm/ring/src/request.rs` loads its word again. No precaution
//! stops a process of the same user that sends only false messages, because such a process could also use a
//! debugger.

mod acceptor;
mod calm;
mod connector;
mod look;
mod model;
mod rules;
mod world;

use crate::search::visit_all;
use look::Rendezvous;
use rules::{Answers, Limits, Precautions, Scene};
use stateright::{Checker, HasDiscoveries, Model, Path};

const SAME: &str = "a VI has the two ends of one connection";
const PROVEN: &str = "descriptors go to, and come from, the process that has the other end";
const DOORBELLS: &str = "an attached end can wake its peer";
const SWITCH: &str = "what an attached end sees granted was granted by its connection's other end";
const READ: &str = "an end that has granted a VI on which the other end is stays to read it";
const VISIBLE: &str = "a request that waits can be seen";
const LEAK: &str = "an end is there to leave every VI";
const MEET: &str = "ends that keep looking come to a VI";

/// Returns the steps that led to a state.
fn trace(path: &Path<world::World, model::Act>) -> String {
    path.clone().into_actions().iter().map(|act| format!("  {act:?}\n")).collect()
}

/// Visits every state, and panics if a property does not hold.
#[track_caller]
fn holds(scene: Scene, limits: Limits) {
    let model = Rendezvous { scene, limits, rules: Precautions::ALL };
    visit_all(model, |path| format!("in {scene:?}\n{}", trace(path)));
}

const SCENES: [Scene; 4] = [Scene::Same, Scene::Workers, Scene::Forked, Scene::Crossed];

#[test]
fn ends_that_keep_looking_meet() {
    for scene in SCENES {
        holds(scene, Limits::CALM);
    }
    // Room for more than one datagram adds only states, no new behaviour.
    holds(Scene::Crossed, Limits { room: 2, ..Limits::CALM });
}

#[test]
fn whichever_end_closes_gives_up_or_dies_the_others_meet() {
    for scene in [Scene::Same, Scene::Crossed] {
        holds(scene, Limits::DEADLY);
        holds(scene, Limits { remembers_closed: true, ..Limits::CLOSING });
        holds(scene, Limits { impatience: true, ..Limits::CALM });
    }
}

#[test]
fn a_vi_may_be_granted_with_the_request() {
    let early = Limits { early: true, ..Limits::CALM };
    for scene in [Scene::Same, Scene::Workers, Scene::Crossed] {
        holds(scene, early);
    }
    for scene in [Scene::Same, Scene::Crossed] {
        holds(scene, Limits { closes: true, ..early });
        holds(scene, Limits { impatience: true, ..early });
    }
    holds(Scene::Same, Limits { closes: true, deaths: true, ..early });
    for (name, limits) in [(READ, early), (SAME, Limits { closes: true, ..early })] {
        let without = |p: &mut Precautions| p.revoke_by_exchange = false;
        assert!(fails(name, Scene::Same, limits, without), "still {name}");
    }
}

#[test]
fn other_processes_that_bind_names_and_forge_messages_change_nothing() {
    for scene in [Scene::Same, Scene::Crossed] {
        holds(scene, Limits::ATTACKED);
    }
}

#[test]
#[ignore = "minutes: the same with a third process, and with more at a time"]
fn the_larger_cases() {
    for scene in [Scene::Workers, Scene::Forked] {
        holds(scene, Limits::DEADLY);
    }
    for scene in SCENES {
        holds(scene, Limits { room: 2, ..Limits::CLOSING });
        holds(scene, Limits { closes: true, ..Limits::ATTACKED });
    }
    holds(Scene::Same, Limits { attacks: 2, room: 2, ..Limits::CALM });
}

/// Returns true if the checker finds the property `name` violated when a precaution is left out.
fn fails(
    name: &'static str,
    scene: Scene,
    limits: Limits,
    leave_out: fn(&mut Precautions),
) -> bool {
    let mut model = Rendezvous { scene, limits, rules: Precautions::ALL };
    leave_out(&mut model.rules);
    let found = HasDiscoveries::AllOf([name].into());
    let checker = model.checker().finish_when(found).spawn_bfs().join();
    checker.discovery(name).is_some()
}

#[test]
fn every_precaution_is_needed() {
    type LeaveOut = fn(&mut Precautions);
    let calm = Limits::CALM;
    let wide = Limits { room: 2, ..Limits::CALM };
    let close = Limits::CLOSING;
    let attack = Limits::ATTACKED;
    let (same, crossed) = (Scene::Same, Scene::Crossed);
    let (workers, forked) = (Scene::Workers, Scene::Forked);
    let cases: [(&str, Scene, Limits, LeaveOut); 19] = [
        (PROVEN, same, attack, |p| p.check_user = false),
        (PROVEN, same, attack, |p| p.check_process = false),
        (PROVEN, same, attack, |p| p.check_cookie = false),
        (SAME, same, calm, |p| p.accept_what_was_found = false),
        (SAME, same, calm, |p| p.accept_by_exchange = false),
        (SAME, same, calm, |p| p.withdraw_by_exchange = false),
        (SAME, same, close, |p| p.recycle = false),
        (SWITCH, same, close, |p| p.recycle = false),
        (LEAK, same, close, |p| p.leave_what_was_accepted = false),
        (VISIBLE, same, calm, |p| p.clear_what_was_taken = false),
        (DOORBELLS, crossed, wide, |p| p.doorbells_first = false),
        (MEET, same, close, |p| p.keep_file = false),
        (MEET, same, calm, |p| p.answers = Answers::LastName),
        (MEET, same, calm, |p| p.answers = Answers::EveryName),
        (MEET, same, attack, |p| p.receive_always = false),
        (MEET, same, attack, |p| p.answer_first = false),
        (MEET, crossed, calm, |p| p.pairs_by_role = false),
        (MEET, forked, calm, |p| p.own_pairs = false),
        (MEET, workers, calm, |p| p.try_other_way = false),
    ];
    for (i, (name, scene, limits, leave_out)) in cases.into_iter().enumerate() {
        assert!(fails(name, scene, limits, leave_out), "case {i}: still {name}");
    }
    assert!(fails(MEET, same, calm, |p| p.greet_again = false));
}

/// Checks that no answer is ever lost. An acceptor sends its answer to an inbox that stays, or it does not use the
/// offer.
#[test]
fn no_end_needs_to_answer_twice() {
    for limits in [Limits::CALM, Limits::DEADLY, Limits::ATTACKED] {
        assert!(!fails(MEET, Scene::Same, limits, |p| p.answer_again = false));
    }
}
