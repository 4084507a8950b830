//! Properties that hold in every scenario, independent of its figures.

use core::time::Duration;
use sovia_link::stream::Control;
use sovia_scale::{Scenario, Traffic, run, run_vis, small, vis};
use sovia_simnet::{Change, Part};

fn named(name: &str) -> Scenario {
    small().into_iter().find(|scenario| scenario.name == name).unwrap()
}

/// Checks that all messages arrive and that no peer is given up. With congestion control, no message may take a second:
/// a full queue costs time, but only while the overload lasts.
fn check(scenario: &Scenario) {
    let (outcome, seed, name) = (run(scenario), scenario.seed, &scenario.name);
    let of = format!("{name}, seed {seed}: {outcome:?}");
    assert_eq!((outcome.arrived, outcome.given_up), (outcome.messages, 0), "{of}");
    assert_eq!(outcome.stuck, 0, "{of}");
    let longest = Duration::from_nanos(outcome.latency.longest);
    assert!(scenario.control == Control::Fixed || longest < Duration::from_secs(1), "{of}");
}

/// Returns the small scenarios without deaths.
fn healthy() -> impl Iterator<Item = Scenario> {
    small().into_iter().filter(|scenario| scenario.deaths.is_empty())
}

#[test]
fn where_no_node_dies_all_arrives_and_no_peer_is_given_up() {
    healthy().for_each(|scenario| check(&scenario));
}

#[test]
#[ignore = "takes some minutes"]
fn rules_hold_for_many_seeds() {
    for seed in 2..60 {
        healthy().for_each(|scenario| check(&Scenario { seed, ..scenario }));
    }
}

#[test]
fn same_seed_is_the_same_run_and_another_seed_another() {
    let scenario = named("incast, 64:1, bbr");
    let first = run(&scenario);
    assert_eq!(run(&scenario), first);
    assert_ne!(run(&Scenario { seed: 2, ..scenario }), first);
}

#[test]
fn death_of_a_node_ends_its_flows_and_no_others() {
    for control in ["fixed", "bbr"] {
        let scenario = named(&format!("node dies, all to all, 16, {control}"));
        let outcome = run(&scenario);
        // Each of 15 nodes gives one node up, and sends everything to the 14 others.
        let others = 15 * 14 * u64::from(scenario.messages);
        assert_eq!((outcome.given_up, outcome.stuck), (15, 0), "{control}");
        assert!((others..outcome.messages).contains(&outcome.arrived), "{}", outcome.arrived);
    }
}

#[test]
fn death_of_the_node_that_all_send_to_is_noticed_by_all_that_are_not_done() {
    let scenario = named("target dies, incast 64:1, bbr");
    let outcome = run(&scenario);
    assert!(outcome.arrived < outcome.messages);
    // A sender either had all its messages acknowledged before, or gives the target up.
    let done = 64 - outcome.given_up;
    assert!(outcome.stuck == 0 && done < 32, "{done} of 64 were done");
    assert!(outcome.arrived >= u64::from(done) * u64::from(scenario.messages));
}

/// Only switches lose frames here. So each lost frame with an item is sent again, and hardly any other frame.
#[test]
fn what_is_sent_again_was_lost() {
    for name in ["incast, 64:1, fixed", "incast, 64:1, bbr", "permutation, 64, bbr"] {
        let frames = run(&named(name)).frames;
        assert!(frames.overflowed > 0, "{name}");
        assert!(
            frames.again <= frames.overflowed + frames.overflowed / 50 + 20,
            "{name}: {frames:?}"
        );
        assert!(frames.mistaken <= frames.again / 50, "{name}: {frames:?}");
    }
}

/// With more spines and the same nodes, no pair of nodes has less bandwidth than before.
#[test]
fn more_spines_carry_more() {
    let scenario = named("all to all, 64, bbr");
    let mut wider = scenario.clone();
    wider.fabric.spines *= 4;
    assert!(run(&wider).took < run(&scenario).took);
}

#[test]
fn vis_survive_what_recovers_and_break_by_what_does_not() {
    for scenario in vis() {
        let (outcome, name) = (run_vis(&scenario), &scenario.name);
        let cut: Vec<_> = scenario
            .faults
            .iter()
            .filter_map(|fault| match fault.change {
                Change::Fail(Part::Access(node)) => Some(node),
                _ => None,
            })
            .collect();
        assert_eq!(outcome.broken_otherwise, 0, "{name}");
        if scenario.faults.len() == cut.len() && !cut.is_empty() {
            // These are the dead node's connections to and from 15 other nodes. An end without data to send does not
            // notice the death.
            assert!(matches!(scenario.traffic, Traffic::AllToAll));
            assert!((1..=30).contains(&outcome.peer_died), "{name}: {}", outcome.peer_died);
            assert!(outcome.done >= 15 * 14, "{name}: {}", outcome.done);
        } else {
            assert_eq!((outcome.arrived, outcome.peer_died), (outcome.messages, 0), "{name}");
            assert_eq!(outcome.done * 2, outcome.vis, "{name}");
        }
    }
}
