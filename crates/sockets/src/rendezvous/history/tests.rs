//! Tests of the connection history.

use super::deferral::{CONNECTIONS_MOST, DEFERRED};
use super::*;
use core::net::SocketAddr;

/// Returns the key of a listener. Each test takes another number.
fn key(fd: i32) -> Key {
    Key::of(Server::Listener(fd)).unwrap()
}

fn after(lengths: &[u32], cost: Cost) -> Option<u32> {
    let word = lengths.iter().fold(0, |word, &length| with_one_more(word, length));
    cheapest(word, cost as u32, 0)
}

#[test]
fn connections_whose_threads_sleep_pay_if_they_are_longer() {
    let cheapest = |length: u32, slept: &[u64]| {
        let lengths = (0..20).fold(0, |word, _| with_one_more(word, length));
        let sleeps = slept.iter().fold(0, |word, &sleeps| with_sleeps(word, sleeps, 10));
        cheapest(lengths, Cost::Known as u32, sleeps).unwrap()
    };
    assert_eq!(cheapest(14, &[0; 9]), 0);
    assert!(cheapest(14, &[10; 9]) >= 14);
    assert!(cheapest(20, &[10; 9]) >= 20);
    assert_eq!(cheapest(60, &[10; 9]), 0);
    assert_eq!(cheapest(1000, &[10; 9]), 0);
    // After three connections whose threads did not sleep, a rendezvous at once pays again.
    assert_eq!(cheapest(14, &[10, 10, 10, 0, 0, 0]), 0);
}

#[test]
fn trials_become_rare_at_a_place_whose_threads_sleep() {
    let trials = |from: u64, to: u64| (from..to).filter(|&decided| is_trial(decided)).count();
    assert_eq!((trials(1, TRIAL), trials(TRIAL, 11 * TRIAL)), (3, 10));
}

#[test]
fn nothing_is_guessed_from_nothing() {
    assert_eq!(after(&[], Cost::Known), None);
}

#[test]
fn stored_plans_follow_the_lengths_within_the_connections_of_a_trial() {
    start();
    let key = key(201);
    // Each of the first connections computes its own plan. Without counted connections there is no plan.
    (0..PLANNED).for_each(|_| assert_eq!(plan(key), None));
    for transfers in [4, 10_000, 4] {
        (0..100).for_each(|_| learn(key, transfers, 0));
        (0..TRIAL).for_each(|_| _ = plan(key));
        // The connection that is planned as if no thread slept gets the same plan, because no thread sleeps in
        // this test.
        let is_late = |plan: Option<Plan>| plan.is_some_and(|plan| plan.known >= 4);
        assert!((0..TRIAL).all(|_| is_late(plan(key)) == (transfers == 4)), "after {transfers}");
    }
}

#[test]
fn a_refusal_defers_first_rendezvous_until_one_succeeds() {
    start();
    let (key, other) = (key(202), key(212));
    let least = |key| least_unknown(key, false);
    assert_eq!(least(key), 0);
    learn_first(key, FirstOutcome::Refused);
    learn_first(key, FirstOutcome::Unfinished);
    assert!((0..100).all(|_| least(key) == DEFERRED));
    assert_eq!(least(other), 0);
    learn_first(key, FirstOutcome::Met);
    assert_eq!(least(key), 0);
}

#[test]
fn unfinished_first_rendezvous_defer_the_next_one_for_more_and_more_connections() {
    start();
    let key = key(203);
    let deferred = || (0..).take_while(|_| least_unknown(key, false) == DEFERRED).count();
    for expected in [0, 1, 3, 7, 15, 15] {
        learn_first(key, FirstOutcome::Unfinished);
        assert_eq!(deferred(), expected);
    }
    learn_first(key, FirstOutcome::Met);
    learn_first(key, FirstOutcome::Unfinished);
    assert_eq!(deferred(), 0);
    assert_eq!(least_unknown(key, true), 0);
    learn_first(key, FirstOutcome::Met);
    assert_eq!(deferred(), usize::from(CONNECTIONS_MOST), "it was for later connections");
}

#[test]
fn an_address_inherits_no_counts_from_another_one_at_its_place() {
    start();
    let at = |port: u16| Key::of(Server::At(SocketAddr::from(([10, 0, 0, 1], port)))).unwrap();
    let first = at(1);
    let other = (2..).map(at).find(|key| key.place() == first.place()).unwrap();
    (0..20).for_each(|_| learn(first, 3, 1 << 30));
    learn_first(first, FirstOutcome::Refused);
    assert!(plan(first).is_some() && plan(other).is_none());
    assert_eq!((least_unknown(first, false), least_unknown(other, false)), (DEFERRED, 0));
    learn(other, 3, 100);
    assert!(plan(first).is_none() && plan(other).is_some_and(|plan| plan.known >= 4));
    assert_eq!((least_unknown(first, false), least_unknown(other, false)), (0, 0));
}

/// A program with more addresses than places has no counts of most of them.
#[test]
fn an_address_without_counts_is_planned_by_the_first_connections_to_others() {
    start();
    let at = |ip: u8, port| Key::of(Server::At(SocketAddr::from(([10, 7, 0, ip], port)))).unwrap();
    (0..PLANNED).for_each(|_| learn(key(213), 10_000, 0));
    let earlier = plan_first();
    (1..=200).for_each(|ip| learn(at(ip, 80), 6, 0));
    assert!(plan_first() > earlier && plan_first().is_some_and(|after| after >= 6));
    assert_eq!(plan(at(201, 80)), None);
    // A change is seen.
    (1..=200).for_each(|ip| learn(at(ip, 81), 10_000, 0));
    (0..PERIOD).for_each(|_| _ = plan_first());
    assert_eq!(plan_first(), Some(0));
}

#[test]
fn all_counts_are_halved_when_their_sum_has_reached_the_limit() {
    let full = u64::from_le_bytes([9, 0, 7, 8, 0, 3, 1, 20]);
    let halved = u64::from_le_bytes([4, 0, 3, 4, 0, 1, 0, 11]);
    assert_eq!(with_one_more(full, 1000), halved);
    assert_eq!(with_one_more(full - 1, 1000), full - 1 + (1 << 56));
}

#[test]
fn plans_are_packed_and_unpacked() {
    for (known, unknown, flag) in [(0, 0, false), (17, 0xffff, true)] {
        let plan = Plan { known, unknown, is_for_later: flag, grants: !flag };
        assert_eq!(Plan::from_word(plan.word()), Some(plan));
    }
    assert_eq!(Plan::from_word(0), None);
}

#[test]
fn short_connections_never_pay() {
    for length in [2, 3, 6, 7, 10, 11] {
        for cost in [Cost::Known, Cost::Unknown] {
            let after = after(&[length; 20], cost).unwrap();
            assert!(after >= length, "met after {after} of {length}");
        }
    }
}

/// If a server forks a process for each connection, each connection needs a new segment and so a first
/// rendezvous.
#[test]
fn a_segment_for_each_connection_pays_for_long_ones_alone() {
    for length in [20, 31, 40, 63] {
        let after = after(&[length; 20], Cost::Unknown).unwrap();
        assert!(after >= length, "met after {after} of {length}");
    }
    assert_eq!(after(&[100; 20], Cost::Unknown), Some(0));
}

#[test]
fn long_ones_meet_at_once() {
    for length in [20, 60, 200, 100_000] {
        assert_eq!(after(&[length; 20], Cost::Known), Some(0), "of {length}");
    }
    assert_eq!(after(&[200_000; 20], Cost::Unknown), Some(0));
}

#[test]
fn one_long_answer_pays_as_many_transfers_do() {
    start();
    for (fd, bytes, pays) in
        [(210, 600, false), (205, 100_000, false), (206, 1 << 20, true), (207, 1 << 30, true)]
    {
        (0..20).for_each(|_| learn(key(fd), 3, bytes));
        let plan = plan(key(fd)).unwrap();
        let seen = (plan.known == 0, plan.is_for_later, plan.grants);
        assert_eq!(seen, (pays, pays, pays), "{bytes} bytes");
    }
    // Many short transfers: the peer may send first, and has then not seen the request.
    (0..20).for_each(|_| learn(key(208), 1000, 64_000));
    let plan = plan(key(208)).unwrap();
    assert_eq!((plan.known, plan.is_for_later, plan.grants), (0, false, false));
}

#[test]
fn a_few_long_ones_among_short_ones_are_waited_for() {
    let mut lengths = vec![2; 30];
    lengths.extend([10_000; 4]);
    assert_eq!(after(&lengths, Cost::Unknown), Some(4));
}

#[test]
fn a_change_of_history_is_seen() {
    let mut lengths = vec![4; 1000];
    lengths.extend([10_000; 60]);
    assert_eq!(after(&lengths, Cost::Known), Some(0));
    lengths.extend([4; 200]);
    assert!(after(&lengths, Cost::Known).unwrap() >= 4);
}
