//! Both ends against each other over a bad network, and scripts of single frames.

use super::{Place, Stream, Timing, Tx, Verdict};
use crate::Time;
use core::time::Duration;
use proptest::prelude::*;
use sovia_simnet::{Change, Event, Link, Net, NodeId};

const TIMING: Timing =
    Timing { first: Duration::from_millis(1), longest: Duration::from_millis(16), tries: Some(20) };

#[derive(Debug, Clone)]
enum Packet {
    Item(u32, u32),
    Ack(u32),
}

type Sim = Net<Packet, ()>;
type Ends = Stream<u32, u32>;

fn now(net: &Sim) -> Time {
    Time::from_nanos(net.now().nanos())
}

/// Sends what may be sent, and sets the timer.
fn pump(net: &mut Sim, tx: &mut Ends, (from, to): (NodeId, NodeId)) {
    while let Some((number, item)) = tx.next_out(now(net)) {
        net.send(from, to, 1000, Packet::Item(number, item));
    }
    if let Some(deadline) = tx.deadline() {
        net.set_timer(sovia_simnet::Time::from_nanos(deadline.nanos()), ());
    }
}

/// What arrives of `count` items whose first has the number `first`, and whether the sender gave up.
fn run(
    (seed, link): (u64, Link),
    window: usize,
    (first, count): (u64, u32),
    cut: Option<u64>,
) -> (Vec<u32>, bool) {
    let mut net: Sim = Net::new(seed, link);
    let (from, to) = (net.add_node(), net.add_node());
    if let Some(at) = cut {
        net.change(sovia_simnet::Time::from_nanos(at), Change::Sever(from, to));
    }
    let mut tx = Ends::new(TIMING, window, (first, 0));
    let mut rx = Ends::new(TIMING, window, (0, first));
    (0..count).for_each(|n| assert_eq!(tx.push(n), first + u64::from(n)));
    let mut got = Vec::new();
    pump(&mut net, &mut tx, (from, to));
    while let Some(event) = net.step() {
        match event {
            Event::Packet(packet) if packet.damaged => {}
            Event::Packet(packet) => match packet.payload {
                Packet::Item(number, item) => {
                    assert_eq!(packet.to, to);
                    rx.came(number, item);
                    got.extend(core::iter::from_fn(|| rx.take().map(|(_, item)| item)));
                    net.send(to, from, 48, Packet::Ack(rx.ack()));
                }
                Packet::Ack(ack) => {
                    assert!(tx.acknowledged(ack, true, now(&net)).is_some());
                    pump(&mut net, &mut tx, (from, to));
                }
            },
            Event::Timer(()) => match tx.tick(now(&net)) {
                Verdict::Patience => {}
                Verdict::Again => pump(&mut net, &mut tx, (from, to)),
                Verdict::Hopeless => return (got, true),
            },
            Event::Changed => {}
        }
    }
    assert_eq!(tx.backlog(), 0, "the sender has stopped without reason");
    (got, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn lossy_link_delivers_every_item_once_and_in_order(
        seed: u64, fault in 0.0..0.25, window in 1usize..40, count in 0u32..150,
    ) {
        let (got, gave_up) = run((seed, Link::faulty(fault)), window, (0, count), None);
        prop_assert!(!gave_up);
        prop_assert_eq!(got, (0..count).collect::<Vec<_>>());
    }

    /// The lower half of the numbers, which travels, begins again at 0 on the way.
    #[test]
    fn lossy_link_delivers_across_the_wrap_of_numbers(
        seed: u64, fault in 0.0..0.25, window in 1usize..40, before in 0u64..150,
    ) {
        let first = (1 << 32) - before;
        let (got, gave_up) = run((seed, Link::faulty(fault)), window, (first, 150), None);
        prop_assert!(!gave_up);
        prop_assert_eq!(got, (0..150).collect::<Vec<_>>());
    }

    /// The receiver has a beginning, and the sender notices.
    #[test]
    fn sender_gives_up_a_cut_link(seed: u64, fault in 0.0..0.25, at in 0u64..2_000_000) {
        let (got, gave_up) = run((seed, Link::faulty(fault)), 8, (0, 5_000), Some(at));
        prop_assert!(gave_up);
        prop_assert_eq!(&got, &(0..got.len() as u32).collect::<Vec<_>>());
    }
}

fn out(tx: &mut Ends, nanos: u64) -> Vec<(u32, u32)> {
    core::iter::from_fn(|| tx.next_out(Time::from_nanos(nanos))).collect()
}

fn sender(window: usize, count: u32) -> Ends {
    let mut tx = Ends::new(TIMING, window, (0, 0));
    (0..count).for_each(|n| assert_eq!(tx.push(n), u64::from(n)));
    tx
}

#[test]
fn lossless_link_needs_nothing_twice() {
    let mut tx = sender(4, 6);
    assert_eq!(out(&mut tx, 0), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(tx.acknowledged(3, true, Time::from_nanos(1000)), Some(3));
    assert_eq!(out(&mut tx, 1000), [(4, 4), (5, 5)]);
    assert_eq!(tx.acknowledged(6, true, Time::from_nanos(2000)), Some(6));
    assert_eq!((tx.deadline(), tx.backlog()), (None, 0));
}

#[test]
fn waits_double_up_to_the_longest_and_end_with_the_tries() {
    let mut tx = Tx::new(Timing { tries: Some(6), ..TIMING }, 4, 0);
    tx.push(0);
    let mut waits = Vec::new();
    loop {
        let now = tx.deadline().unwrap_or(Time::ZERO);
        if tx.tick(now) == Verdict::Hopeless {
            break;
        }
        assert!(tx.next(now).is_some() && tx.next(now).is_none());
        waits.push(tx.deadline().unwrap().since(now).as_millis());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16]);
}

#[test]
fn waits_never_end_without_a_limit_of_tries() {
    let mut tx = Tx::new(Timing { tries: None, ..TIMING }, 4, 0);
    tx.push(0);
    assert_eq!(tx.next(Time::ZERO), Some((0, 0)));
    for _ in 0..10_000 {
        let now = tx.deadline().unwrap();
        assert_eq!(tx.tick(now), Verdict::Again);
        assert_eq!(tx.next(now), Some((0, 0)));
    }
}

#[test]
fn lost_item_is_sent_again_after_three_repeated_acks() {
    let mut tx = sender(8, 5);
    assert_eq!(out(&mut tx, 0).len(), 5);
    for _ in 0..2 {
        assert_eq!(tx.acknowledged(0, true, Time::from_nanos(500)), Some(0));
        assert_eq!(out(&mut tx, 500), []);
    }
    assert_eq!(tx.acknowledged(0, true, Time::from_nanos(500)), Some(0));
    assert_eq!(out(&mut tx, 500), [(0, 0)], "long before the deadline");
    for _ in 0..10 {
        tx.acknowledged(0, true, Time::from_nanos(600));
    }
    assert_eq!(out(&mut tx, 600), [], "once is enough");
}

#[test]
fn after_a_timeout_each_item_is_sent_once_though_time_passes() {
    let mut tx = sender(8, 5);
    assert_eq!(out(&mut tx, 0).len(), 5);
    let deadline = tx.deadline().unwrap();
    assert_eq!(tx.tick(deadline), Verdict::Again);
    let sent: Vec<_> =
        (1..20).map_while(|i| tx.next_out(Time::from_nanos(deadline.nanos() + i))).collect();
    assert_eq!(sent.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn acks_that_come_with_items_tell_of_no_loss() {
    let mut tx = sender(8, 5);
    out(&mut tx, 0);
    for _ in 0..10 {
        assert_eq!(tx.acknowledged(0, false, Time::from_nanos(500)), Some(0));
    }
    assert_eq!(out(&mut tx, 500), []);
}

#[test]
fn ack_of_what_was_not_sent_is_ignored() {
    let mut tx = sender(4, 6);
    out(&mut tx, 0);
    assert_eq!(tx.acknowledged(5, true, Time::ZERO), None);
    assert_eq!(tx.backlog(), 6);
    assert_eq!(tx.acknowledged(u32::MAX, true, Time::ZERO), None, "before the first number");
    assert_eq!(tx.acknowledged(4, true, Time::ZERO), Some(4));
    assert_eq!(tx.acknowledged(2, true, Time::ZERO), Some(2), "late, and true");
    assert_eq!(tx.backlog(), 2);
}

#[test]
fn receiver_puts_items_in_order_and_drops_repeated_ones() {
    let mut rx = Ends::new(TIMING, 4, (0, 0));
    assert_eq!(rx.came(2, 2), Place::Early);
    assert_eq!((rx.take(), rx.ack()), (None, 0));
    assert_eq!(rx.came(5, 5), Place::Outside, "more than the window ahead");
    assert_eq!(rx.came(0, 0), Place::Next);
    assert_eq!(rx.came(1, 1), Place::Early, "before 0 is taken");
    let got: Vec<_> = core::iter::from_fn(|| rx.take()).collect();
    assert_eq!(got, [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(rx.came(1, 1), Place::Outside);
    assert_eq!((rx.take(), rx.ack()), (None, 3));
}

#[test]
fn refused_item_is_not_acknowledged_nor_any_after_it() {
    let mut rx = Ends::new(TIMING, 4, (0, 0));
    assert_eq!([0, 1, 2].map(|n| rx.came(n, n)), [Place::Next, Place::Early, Place::Early]);
    rx.take();
    let (number, _) = rx.take().unwrap();
    rx.refuse(number);
    rx.take();
    assert_eq!(rx.ack(), 1);
}

#[test]
fn discarded_item_is_taken_when_it_comes_again() {
    let mut rx = Ends::new(TIMING, 4, (0, 0));
    rx.came(0, 77);
    assert_eq!(rx.peek(), Some(&77));
    rx.discard();
    assert_eq!((rx.take(), rx.ack()), (None, 0));
    assert_eq!(rx.came(0, 0), Place::Next);
    assert_eq!(rx.take(), Some((0, 0)));
}

#[test]
fn last_item_goes_out_beyond_a_full_window() {
    let mut tx = sender(2, 5);
    assert_eq!(out(&mut tx, 0), [(0, 0), (1, 1)]);
    tx.finish(99);
    assert_eq!(out(&mut tx, 0), [(2, 99)], "in place of what was never sent");
    let mut rx = Ends::new(TIMING, 2, (0, 0));
    assert_eq!(rx.came(2, 99), Place::Early, "just behind the window");
}
