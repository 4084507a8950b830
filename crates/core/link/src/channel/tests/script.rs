//! Tests with single frames, passed by hand.

use crate::channel::greeting::name;
use crate::channel::{Channel, Config, Event, Full};
use crate::stream::Control;
use crate::wire::{Checksum, Closing, EndId, Item, Operation, Packet, Part, Sending};
use crate::{Malformed, Time};

pub(super) const CONFIG: Config = Config {
    mtu: 104,
    window: 4,
    control: Control::Fixed,
    send_buffer: 6,
    receive_buffer: 300,
    message_max: 1000,
    retransmit_first: core::time::Duration::from_millis(1),
    retransmit_longest: core::time::Duration::from_millis(16),
    link: Checksum::Crc,
    sends: Checksum::Crc,
};

/// Returns all frames that an end has to send now.
pub(super) fn frames(channel: &mut Channel, now: u64) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let next = || channel.poll_transmit(Time::from_nanos(now), &mut out).then(|| out.clone());
    core::iter::from_fn(next).collect()
}

pub(super) fn hand_in(channel: &mut Channel, now: u64, frames: &[Vec<u8>]) {
    for frame in frames {
        channel.handle_frame(Time::from_nanos(now), frame).unwrap();
    }
}

/// Exchanges the frames of both ends until neither has any.
#[track_caller]
pub(super) fn converse(a: &mut Channel, b: &mut Channel, now: u64) {
    for _ in 0..1000 {
        let (from_a, from_b) = (frames(a, now), frames(b, now));
        if from_a.is_empty() && from_b.is_empty() {
            return;
        }
        hand_in(b, now, &from_a);
        hand_in(a, now, &from_b);
    }
    panic!("the ends talk for ever");
}

pub(super) fn messages(channel: &mut Channel) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    core::iter::from_fn(|| channel.poll_message(&mut out).then(|| out.clone())).collect()
}

pub(super) fn events(channel: &mut Channel) -> Vec<Event> {
    core::iter::from_fn(|| channel.poll_event()).collect()
}

/// Returns two ends that know each other.
fn open() -> (Channel, Channel) {
    let (mut a, mut b) = (Channel::new(CONFIG, 5, 1), Channel::new(CONFIG, 5, 2));
    a.send(b"first").unwrap();
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut a), [Event::Opened]);
    assert_eq!(events(&mut b), [Event::Opened, Event::Readable]);
    assert_eq!(messages(&mut b), [b"first"]);
    (a, b)
}

#[test]
fn silent_end_sends_nothing_and_waits_for_nothing() {
    let mut a = Channel::new(CONFIG, 5, 1);
    assert_eq!(frames(&mut a, 0), Vec::<Vec<u8>>::new());
    assert!(a.poll_timeout().is_none() && a.is_idle() && a.can_send());
}

#[test]
fn hello_is_repeated_until_answered() {
    let mut a = Channel::new(CONFIG, 5, 1);
    a.send(b"x").unwrap();
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..7 {
        let hello = frames(&mut a, now);
        assert_eq!(hello.len(), 1);
        assert!(matches!(Packet::parse(&hello[0]), Ok(Packet::Hello { .. })));
        let at = a.poll_timeout().unwrap().nanos();
        a.handle_timeout(Time::from_nanos(at - 1));
        assert!(frames(&mut a, at - 1).is_empty());
        waits.push((at - now) / 1_000_000);
        now = at;
        a.handle_timeout(Time::from_nanos(now));
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16]);
    let mut b = Channel::new(CONFIG, 5, 2);
    converse(&mut a, &mut b, now);
    assert_eq!(messages(&mut b), [b"x"]);
    assert!(a.is_idle() && a.poll_timeout().is_none());
}

#[test]
fn frames_are_no_longer_than_the_mtu_and_messages_are_whole() {
    let (mut a, mut b) = open();
    let message: Vec<u8> = (0..=255).chain(0..=255).collect();
    a.send(b"").unwrap();
    a.send(&message).unwrap();
    let first = frames(&mut a, 0);
    assert_eq!(first.len(), CONFIG.window);
    assert!(first[1..].iter().all(|frame| frame.len() == CONFIG.mtu));
    hand_in(&mut b, 0, &first);
    assert_eq!(messages(&mut b), [b""]);
    assert!(!b.poll_message(&mut Vec::new()), "half of it has come");
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut b), [Event::Readable, Event::Readable]);
    assert_eq!(messages(&mut b), [message]);
}

#[test]
fn full_buffer_refuses_messages_until_there_is_room() {
    let (mut a, mut b) = open();
    for _ in 0..CONFIG.send_buffer {
        assert!(a.can_send());
        a.send(b"m").unwrap();
    }
    assert!(!a.can_send());
    assert_eq!(a.send(b"m"), Err(Full));
    assert_eq!(events(&mut a), []);
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut a), [Event::Writable]);
    assert!(a.can_send());
    assert_eq!(messages(&mut b).len(), CONFIG.send_buffer);
}

#[test]
fn message_that_is_too_long_never_fits() {
    let (mut a, _) = open();
    assert!(a.send(&vec![0; CONFIG.message_max]).is_ok());
    let (mut a, _) = open();
    assert!(a.can_send());
    assert_eq!(a.send(&vec![0; CONFIG.message_max + 1]), Err(Full));
    assert!(a.is_idle());
}

#[test]
fn messages_that_are_not_taken_hold_the_sender_back() {
    let (mut a, mut b) = open();
    for n in 0..6 {
        a.send(&[n; 150]).unwrap();
        converse(&mut a, &mut b, 0);
        if !a.is_idle() {
            break;
        }
    }
    assert!(!a.is_idle(), "300 bytes are there, and not taken");
    assert_eq!(frames(&mut b, 0), Vec::<Vec<u8>>::new(), "and no more is acknowledged");
    assert!(b.poll_message(&mut Vec::new()), "that makes room for the next");
    converse(&mut a, &mut b, 0);
    assert!(a.is_idle());
    assert_eq!(messages(&mut b).len(), 2);
}

#[test]
fn close_is_reported_after_the_last_message() {
    let (mut a, mut b) = open();
    a.send(b"last").unwrap();
    a.close();
    a.close();
    assert_eq!(a.send(b"later"), Err(Full));
    converse(&mut a, &mut b, 0);
    assert_eq!(events(&mut b), [Event::Readable, Event::Closed]);
    assert_eq!(messages(&mut b), [b"last"]);
    assert!(a.is_idle());
    b.send(b"one way is open still").unwrap();
    converse(&mut a, &mut b, 0);
    assert_eq!(messages(&mut a), [b"one way is open still"]);
}

#[test]
fn reordered_and_repeated_frames_make_the_messages_once() {
    let (mut a, mut b) = open();
    (0..4u8).for_each(|n| a.send(&[n]).unwrap());
    let mut sent = frames(&mut a, 0);
    sent.reverse();
    hand_in(&mut b, 0, &sent);
    hand_in(&mut b, 0, &sent);
    assert_eq!(events(&mut b), [Event::Readable], "once for all four");
    assert_eq!(messages(&mut b), [[0], [1], [2], [3]]);
    assert_eq!(b.counters().repeated, 4);
    let acks = frames(&mut b, 0);
    assert_eq!(acks.len(), 1);
    hand_in(&mut a, 0, &acks);
    assert!(a.is_idle());
}

#[test]
fn lost_frame_is_sent_again_before_its_time() {
    let (mut a, mut b) = open();
    (0..4u8).for_each(|n| a.send(&[n]).unwrap());
    let sent = frames(&mut a, 0);
    hand_in(&mut b, 0, &sent[1..]);
    let acks = frames(&mut b, 10);
    assert_eq!(acks.len(), 1, "one tells of all that came out of their turn");
    hand_in(&mut a, 10, &acks);
    let again = frames(&mut a, 10);
    assert_eq!(again.len(), 1);
    hand_in(&mut b, 20, &again);
    assert_eq!(messages(&mut b), [[0], [1], [2], [3]]);
}

#[test]
fn corrupt_frame_is_counted_and_loses_nothing_else() {
    let (mut a, mut b) = open();
    a.send(b"one").unwrap();
    a.send(b"two").unwrap();
    let mut sent = frames(&mut a, 0);
    sent[0][40] ^= 1;
    assert_eq!(b.handle_frame(Time::ZERO, &sent[0]), Err(Malformed::Checksum));
    hand_in(&mut b, 0, &sent[1..]);
    assert_eq!((b.counters().malformed, b.counters().refused), (1, 0));
    a.handle_timeout(Time::from_nanos(2_000_000));
    converse(&mut a, &mut b, 2_000_000);
    assert_eq!(messages(&mut b), [b"one", b"two"]);
}

/// Passes in a frame of the peer's stream that a correct peer would not send.
fn forge(from: &Channel, at: &mut Channel, skip: u32, item: Item<&[u8]>) {
    let (to, from) = (at.greeting.own(), from.greeting.own());
    // `open` has sent one item from here, and no item has come back.
    let sending = Sending { number: from.0 as u32 + 1 + skip, transmission: 1 };
    let ack = to.0 as u32;
    let mut frame = Vec::new();
    Packet::Stream { to, from, sending, ack, item }.emit(&mut frame);
    hand_in(at, 0, &[frame]);
}

#[test]
fn items_that_cannot_follow_are_refused_and_may_come_again() {
    let good = Part {
        operation: Operation::Send,
        immediate: None,
        total: 8,
        start: 0,
        bytes: &b"abcd"[..],
    };
    let bad = [
        Item::Part(Part { start: 1, ..good }),
        Item::Part(Part { total: 1001, ..good }),
        Item::Part(Part { immediate: Some(1), ..good }),
        Item::Part(Part { operation: Operation::Write { address: 0, handle: 0 }, ..good }),
        Item::Read { address: 0, handle: 0, length: 1 },
        Item::Close(Closing::Broke),
    ];
    let (a, mut b) = open();
    for (n, item) in bad.into_iter().enumerate() {
        forge(&a, &mut b, 0, item);
        assert_eq!(b.counters().refused, n as u64 + 1, "{item:?}");
    }
    forge(&a, &mut b, 0, Item::Part(good));
    for second in [Part { start: 3, ..good }, Part { start: 4, total: 9, ..good }] {
        forge(&a, &mut b, 1, Item::Part(second));
    }
    forge(&a, &mut b, 1, Item::Close(Closing::Disconnected));
    assert_eq!(b.counters().refused, 9, "a message has begun");
    forge(&a, &mut b, 1, Item::Part(Part { start: 4, ..good }));
    assert_eq!(messages(&mut b), [b"abcdabcd"]);
}

#[test]
fn ack_of_what_was_not_sent_is_refused_with_its_item() {
    let (a, mut b) = open();
    let (to, from) = (b.greeting.own(), a.greeting.own());
    let part =
        Part { operation: Operation::Send, immediate: None, total: 1, start: 0, bytes: b"x" };
    let sending = Sending { number: from.0 as u32 + 1, transmission: 1 };
    let ack = to.0 as u32 + 1;
    let mut frame = Vec::new();
    Packet::Stream { to, from, sending, ack, item: Item::Part(part) }.emit(&mut frame);
    hand_in(&mut b, 0, &[frame]);
    assert_eq!((b.counters().refused, messages(&mut b).len()), (1, 0));
}

#[test]
fn frames_for_others_are_not_taken() {
    let (a, mut b) = open();
    let part =
        Part { operation: Operation::Send, immediate: None, total: 1, start: 0, bytes: b"x" };
    let (own, peer) = (b.greeting.own(), a.greeting.own());
    let elsewhere = [(EndId(own.0 ^ 1), peer), (own, EndId(peer.0 ^ 1)), (name(6, 9), name(6, 8))];
    for (to, from) in elsewhere {
        let mut frame = Vec::new();
        let sending = Sending { number: peer.0 as u32 + 1, transmission: 1 };
        let ack = own.0 as u32;
        Packet::Stream { to, from, sending, ack, item: Item::Part(part) }.emit(&mut frame);
        hand_in(&mut b, 0, &[frame]);
    }
    assert_eq!((b.counters().stale, messages(&mut b).len()), (3, 0));
    let mut frame = Vec::new();
    crate::wire::Word::Gone { to: own }.emit(&mut frame);
    hand_in(&mut b, 0, &[frame]);
    assert_eq!((b.counters().refused, events(&mut b)), (1, vec![]));
}

#[test]
fn whole_probe_is_answered_once() {
    let (mut a, mut b) = open();
    let mut probe = vec![0xFF; 300];
    assert!(a.probe_into(77, &mut probe));
    let mut cut = b.handle_frame(Time::ZERO, &probe[..299]);
    assert_eq!(cut, Err(Malformed::Short));
    hand_in(&mut b, 0, &[probe.clone(), probe]);
    let echoes = frames(&mut b, 0);
    hand_in(&mut a, 0, &echoes);
    hand_in(&mut a, 0, &echoes);
    assert_eq!(events(&mut a), [Event::Passed(77)]);
    assert!(!a.probe_into(78, &mut [0; 20]), "too short for one");
    cut = a.handle_frame(Time::ZERO, &echoes[0]);
    assert_eq!((cut, events(&mut a)), (Ok(()), vec![]), "an older one's answer");
}
