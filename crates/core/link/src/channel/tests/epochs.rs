//! Tests of ends that are created again.

use super::script::{CONFIG, converse, events, frames, hand_in, messages};
use crate::Time;
use crate::channel::{Channel, Event, Reason};
use crate::wire::{Packet, Word};
use proptest::prelude::*;

fn end(seed: u64) -> Channel {
    Channel::new(CONFIG, 5, seed)
}

/// Returns all frames of a conversation in which both ends send messages.
fn conversation(seeds: (u64, u64)) -> Vec<Vec<u8>> {
    let (mut a, mut b) = (end(seeds.0), end(seeds.1));
    for n in 0..3u8 {
        a.send(&[n; 90]).unwrap();
    }
    b.send(b"old").unwrap();
    let mut all = Vec::new();
    for _ in 0..20 {
        let (from_a, from_b) = (frames(&mut a, 0), frames(&mut b, 0));
        hand_in(&mut b, 0, &from_a);
        hand_in(&mut a, 0, &from_b);
        messages(&mut b);
        all.extend(from_a);
        all.extend(from_b);
    }
    assert!(a.is_idle() && b.is_idle());
    all
}

proptest! {
    /// Late frames of two earlier ends, at any moment and any number of times.
    #[test]
    fn frames_of_earlier_ends_are_not_taken(
        late in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..60),
    ) {
        let old = conversation((1, 2));
        let (mut a, mut b) = (end(3), end(4));
        a.send(b"new").unwrap();
        b.send(b"new too").unwrap();
        let mut now = 0;
        for (which, at_a) in late {
            let frame = which.get(&old).clone();
            hand_in(if at_a { &mut a } else { &mut b }, now, &[frame]);
            let (from_a, from_b) = (frames(&mut a, now), frames(&mut b, now));
            hand_in(&mut b, now, &from_a);
            hand_in(&mut a, now, &from_b);
            now += 100;
        }
        for _ in 0..20 {
            now += 20_000_000;
            a.handle_timeout(Time::from_nanos(now));
            b.handle_timeout(Time::from_nanos(now));
            converse(&mut a, &mut b, now);
        }
        prop_assert_eq!(messages(&mut a), [b"new too"]);
        prop_assert_eq!(messages(&mut b), [b"new"]);
        for end in [&mut a, &mut b] {
            let broken = |event: &Event| matches!(event, Event::Broken(_));
            prop_assert!(!events(end).iter().any(broken));
        }
    }
}

#[test]
fn send_to_a_restarted_peer_breaks_the_end() {
    let (mut a, mut b) = (end(1), end(2));
    a.send(b"to the first").unwrap();
    converse(&mut a, &mut b, 0);
    let mut b = end(3);
    a.send(b"to the first, which is gone").unwrap();
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut a), [Event::Opened, Event::Broken(Reason::PeerRestarted)]);
    assert!(!a.can_send() && a.poll_timeout().is_none());
    assert_eq!(frames(&mut a, 0), Vec::<Vec<u8>>::new());
    assert_eq!(messages(&mut b), Vec::<Vec<u8>>::new());

    let mut a = end(4);
    a.send(b"again").unwrap();
    converse(&mut a, &mut b, 0);
    assert_eq!(messages(&mut b), [b"again"]);
}

#[test]
fn end_whose_peer_was_made_again_is_broken_when_that_sends() {
    let (mut a, mut b) = (end(1), end(2));
    a.send(b"to the first").unwrap();
    converse(&mut a, &mut b, 0);
    let mut b = end(3);
    b.send(b"hello").unwrap();
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut a), [Event::Opened, Event::Broken(Reason::PeerRestarted)]);

    let mut a = end(4);
    let now = b.poll_timeout().unwrap().nanos();
    b.handle_timeout(Time::from_nanos(now));
    converse(&mut a, &mut b, now);
    assert_eq!(messages(&mut a), [b"hello"], "the new end has said it again");
}

#[test]
fn hello_of_an_earlier_end_that_comes_late_breaks_nothing() {
    let (mut a, mut b) = (end(1), end(2));
    b.send(b"x").unwrap();
    let hello = frames(&mut b, 0);
    let mut b = end(3);
    a.send(b"y").unwrap();
    converse(&mut a, &mut b, 0);
    hand_in(&mut a, 0, &hello);
    let probe = frames(&mut a, 0);
    assert_eq!(probe.len(), 1);
    hand_in(&mut b, 0, &probe);
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut a), [Event::Opened]);
    b.send(b"z").unwrap();
    converse(&mut a, &mut b, 0);
    assert_eq!(messages(&mut a), [b"z"]);
}

/// A probe has a fresh nonce, so an earlier end's echo cannot match.
#[test]
fn echo_of_another_nonce_breaks_nothing() {
    let (mut a, mut b, mut other) = (end(1), end(2), end(3));
    a.send(b"x").unwrap();
    converse(&mut a, &mut b, 0);
    other.send(b"y").unwrap();
    hand_in(&mut a, 0, &frames(&mut other, 0));
    let probe = frames(&mut a, 0);
    let Ok(Packet::Probe { to, from, nonce, .. }) = Packet::parse(&probe[0]) else {
        panic!("it is not asked")
    };
    let mut echo = Vec::new();
    Word::Echo { to: from, from: to, nonce: nonce ^ 1 }.emit(&mut echo);
    hand_in(&mut a, 0, &[echo.clone()]);
    assert_eq!((events(&mut a), a.counters().stale), (vec![Event::Opened], 1));
    Word::Echo { to: from, from: to, nonce }.emit(&mut echo);
    hand_in(&mut a, 0, &[echo]);
    assert_eq!(events(&mut a), [Event::Broken(Reason::PeerRestarted)]);
}

#[test]
fn first_message_comes_behind_one_frame_each_way() {
    let (mut a, mut b) = (end(1), end(2));
    a.send(b"x").unwrap();
    let hello = frames(&mut a, 0);
    hand_in(&mut b, 0, &hello);
    let answer = frames(&mut b, 0);
    hand_in(&mut a, 0, &answer);
    let message = frames(&mut a, 0);
    assert_eq!([hello.len(), answer.len(), message.len()], [1; 3]);
    hand_in(&mut b, 0, &message);
    assert_eq!(messages(&mut b), [b"x"]);
    hand_in(&mut a, 0, &frames(&mut b, 0));
    assert!(a.is_idle());
}
