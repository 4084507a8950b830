//! Tests of two ends over a bad network, and scripts of single frames.

#![allow(clippy::single_range_in_vec_init, reason = "reports of a single range")]

mod bottleneck;

use super::control::Controller;
use super::{Load, Place, Stream, Timing, Tx, Verdict};
use crate::Time;
use crate::wire::{Held, Report, Seen, Sending};
use core::time::Duration;
use proptest::prelude::*;
use sovia_simnet::{Change, Event, Link, Net, NodeId};

const TIMING: Timing =
    Timing { first: Duration::from_millis(1), longest: Duration::from_millis(16), tries: Some(20) };

/// Every item counts as 1000 bytes on the network.
impl Load for u32 {
    fn bytes(&self) -> u32 {
        1000
    }
}

#[derive(Debug, Clone)]
enum Packet {
    Item(Sending, u32),
    Ack(Report),
}

type Sim = Net<Packet, ()>;
type Ends = Stream<u32, u32>;

fn now(net: &Sim) -> Time {
    Time::from_nanos(net.now().nanos())
}

/// Sends all frames that may be sent, and sets the timer.
fn pump(net: &mut Sim, tx: &mut Ends, (from, to): (NodeId, NodeId)) {
    while let Some((sending, item)) = tx.next_out(now(net)) {
        net.send(from, to, 1000, Packet::Item(sending, *item));
    }
    if let Some(deadline) = tx.deadline() {
        net.set_timer(sovia_simnet::Time::from_nanos(deadline.nanos()), ());
    }
}

/// Sends `count` items from number `first` on. Returns the items that arrive, and true if the sender gave up.
///
/// A sender whose link is never cut does not give up, because many tries in a row may be lost by chance.
fn run(
    (seed, link): (u64, Link),
    window: usize,
    (first, count): (u64, u32),
    cut: Option<u64>,
) -> (Vec<u32>, bool) {
    let timing = Timing { tries: TIMING.tries.filter(|_| cut.is_some()), ..TIMING };
    let mut net: Sim = Net::new(seed, link);
    let (from, to) = (net.add_node(), net.add_node());
    if let Some(at) = cut {
        net.change(sovia_simnet::Time::from_nanos(at), Change::Sever(from, to));
    }
    let mut tx = Ends::new(timing, window, (first, 0));
    let mut rx = Ends::new(timing, window, (0, first));
    (0..count).for_each(|n| assert_eq!(tx.push(n), first + u64::from(n)));
    let mut got = Vec::new();
    pump(&mut net, &mut tx, (from, to));
    while let Some(event) = net.step() {
        match event {
            Event::Packet(packet) if packet.corrupt => {}
            Event::Packet(packet) => match packet.payload {
                Packet::Item(sending, item) => {
                    assert_eq!(packet.to, to);
                    rx.came(sending, item, now(&net));
                    got.extend(core::iter::from_fn(|| rx.take().map(|(_, item)| item)));
                    net.send(to, from, 48, Packet::Ack(rx.report(now(&net))));
                }
                Packet::Ack(report) => {
                    assert!(tx.acknowledged(&report, now(&net)).is_some());
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

    /// The lower half of the numbers wraps to 0 during the test.
    #[test]
    fn lossy_link_delivers_across_the_wrap_of_numbers(
        seed: u64, fault in 0.0..0.25, window in 1usize..40, before in 0u64..150,
    ) {
        let first = (1 << 32) - before;
        let (got, gave_up) = run((seed, Link::faulty(fault)), window, (first, 150), None);
        prop_assert!(!gave_up);
        prop_assert_eq!(got, (0..150).collect::<Vec<_>>());
    }

    /// The receiver gets the first items, and the sender detects the cut.
    #[test]
    fn sender_gives_up_a_cut_link(seed: u64, fault in 0.0..0.25, at in 0u64..2_000_000) {
        let (got, gave_up) = run((seed, Link::faulty(fault)), 8, (0, 5_000), Some(at));
        prop_assert!(gave_up);
        prop_assert_eq!(&got, &(0..got.len() as u32).collect::<Vec<_>>());
    }
}

fn out(tx: &mut Ends, nanos: u64) -> Vec<(u32, u32)> {
    let next =
        || tx.next_out(Time::from_nanos(nanos)).map(|(sending, &item)| (sending.number, item));
    core::iter::from_fn(next).collect()
}

/// Returns the numbers of the sent items.
fn numbers(tx: &mut Ends, nanos: u64) -> Vec<u32> {
    out(tx, nanos).into_iter().map(|(number, _)| number).collect()
}

fn sender(window: usize, count: u32) -> Ends {
    let mut tx = Ends::new(TIMING, window, (0, 0));
    (0..count).for_each(|n| assert_eq!(tx.push(n), u64::from(n)));
    tx
}

/// Returns a report: all items before `next` have arrived, and the ranges `held`. `seen` is the last transmission.
fn report(next: u32, held: &[core::ops::Range<u32>], seen: Option<(u32, u32)>) -> Report {
    let mut report = Report::plain(next);
    let mut end = next;
    for range in held {
        assert!(report.push(Held { skip: range.start - end, length: range.len() as u32 }));
        end = range.end;
    }
    report.seen = seen
        .map(|(number, transmission)| Seen { sending: Sending { number, transmission }, delay: 0 });
    report
}

fn hear(tx: &mut Ends, report: &Report, nanos: u64) -> Option<u64> {
    tx.acknowledged(report, Time::from_nanos(nanos))
}

fn came(rx: &mut Ends, number: u32) -> Place {
    rx.came(Sending { number, transmission: number }, number, Time::ZERO)
}

#[test]
fn lossless_link_needs_nothing_twice() {
    let mut tx = sender(4, 6);
    assert_eq!(out(&mut tx, 0), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(hear(&mut tx, &Report::plain(3), 1000), Some(3));
    assert_eq!(out(&mut tx, 1000), [(4, 4), (5, 5)]);
    assert_eq!(hear(&mut tx, &Report::plain(6), 2000), Some(6));
    assert_eq!((tx.deadline(), tx.backlog(), tx.in_flight()), (None, 0, 0));
}

/// Returns the waits in microseconds for an answer that never comes. The first item has the number `first`.
fn waits(first: u64) -> Vec<u64> {
    let mut tx = Tx::new(Timing { tries: Some(6), ..TIMING }, 4, Controller::Fixed, first);
    tx.push(0u32);
    let mut waits = Vec::new();
    loop {
        let now = tx.deadline().unwrap_or(Time::ZERO);
        if tx.tick(now) == Verdict::Hopeless {
            return waits;
        }
        assert!(tx.next(now).is_some() && tx.next(now).is_none());
        waits.push(tx.deadline().unwrap().since(now).as_micros() as u64);
    }
}

#[test]
fn waits_double_up_to_the_longest_and_end_with_the_tries() {
    let waits = waits(0);
    let least = [1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000];
    assert_eq!((waits.len(), waits[0]), (7, 1_000));
    for (wait, least) in waits.into_iter().zip(least) {
        assert!((least..=least / 2 * 3).contains(&wait), "{wait} µs for {least}");
    }
}

/// Streams that lost frames in the same full queue must not fill it again together.
#[test]
fn streams_that_wait_since_the_same_moment_do_not_end_their_waits_together() {
    let all: Vec<_> = (0..1_000).map(waits).collect();
    assert_eq!(all[7], waits(7));
    for turn in 1..7 {
        let mut waits: Vec<u64> = all.iter().map(|waits| waits[turn]).collect();
        waits.sort_unstable();
        let least = waits[0];
        // Expect an even distribution: about an eighth of the waits in each eighth of the range.
        for eighth in 0..8 {
            let from = least + least / 16 * eighth;
            let within = waits.iter().filter(|&&wait| wait >= from && wait < from + least / 16);
            let count = within.count();
            assert!((80..180).contains(&count), "{count} in eighth {eighth} of turn {turn}");
        }
    }
}

#[test]
fn waits_never_end_without_a_limit_of_tries() {
    let mut tx = Tx::new(Timing { tries: None, ..TIMING }, 4, Controller::Fixed, 0);
    tx.push(0u32);
    assert!(tx.next(Time::ZERO).is_some());
    for n in 1..10_000 {
        let now = tx.deadline().unwrap();
        assert_eq!(tx.tick(now), Verdict::Again);
        let sending = Sending { number: 0, transmission: n };
        assert_eq!(tx.next(now), Some((sending, &0)));
    }
}

#[test]
fn lost_item_is_sent_again_after_three_later_ones_arrive() {
    let mut tx = sender(8, 5);
    assert_eq!(out(&mut tx, 0).len(), 5);
    hear(&mut tx, &report(0, &[1..3], Some((2, 2))), 400);
    assert_eq!(numbers(&mut tx, 400), [0u32; 0], "it may have been overtaken");
    hear(&mut tx, &report(0, &[1..4], Some((3, 3))), 500);
    assert_eq!(numbers(&mut tx, 500), [0], "long before the deadline");
    hear(&mut tx, &report(0, &[1..5], Some((4, 4))), 600);
    assert_eq!(numbers(&mut tx, 600), [0u32; 0], "once is enough");
    assert_eq!(hear(&mut tx, &report(5, &[], Some((0, 5))), 900), Some(5));
    assert_eq!((tx.counts().sent, tx.counts().again, tx.counts().lost), (6, 1, 1));
}

#[test]
fn lost_item_is_sent_again_when_time_for_reordering_has_passed() {
    let mut tx = sender(8, 2);
    assert_eq!(out(&mut tx, 0).len(), 2);
    hear(&mut tx, &report(0, &[1..2], Some((1, 1))), 400);
    assert_eq!(numbers(&mut tx, 400), [0u32; 0]);
    let due = tx.deadline().unwrap();
    assert_eq!(due.nanos(), 500, "a quarter of a round trip more");
    assert_eq!(tx.tick(Time::from_nanos(499)), Verdict::Patience);
    assert_eq!(tx.tick(due), Verdict::Again);
    assert_eq!(numbers(&mut tx, 500), [0]);
}

/// The first, third and sixth of nine items are lost. The sender sends only these again.
#[test]
fn only_what_is_lost_is_sent_again() {
    let mut tx = sender(16, 9);
    assert_eq!(out(&mut tx, 0).len(), 9);
    hear(&mut tx, &report(0, &[1..2, 3..5, 6..9], Some((8, 8))), 500);
    assert_eq!(numbers(&mut tx, 500), [0, 2, 5]);
    assert_eq!(tx.in_flight(), 3 * 1000);
}

#[test]
fn lost_retransmission_is_detected_by_later_items() {
    let mut tx = sender(16, 12);
    (0..4).for_each(|_| assert!(tx.next_out(Time::ZERO).is_some()));
    hear(&mut tx, &report(0, &[1..4], Some((3, 3))), 1000);
    assert_eq!(numbers(&mut tx, 1000), [0, 4, 5, 6, 7, 8, 9, 10, 11]);
    hear(&mut tx, &report(0, &[1..7], Some((6, 7))), 2000);
    assert_eq!(
        numbers(&mut tx, 2000),
        [0],
        "its retransmission was sent before what has come since"
    );
    assert_eq!(tx.counts().timeouts, 0);
}

#[test]
fn reordering_widens_the_time_that_is_given() {
    let mut tx = sender(64, 40);
    let mut now = 0;
    let mut waits = Vec::new();
    for first in (0..24).step_by(6) {
        now += 10_000;
        (0..6).for_each(|_| assert!(tx.next_out(Time::from_nanos(now)).is_some()));
        now += 1000;
        hear(&mut tx, &report(first, &[first + 1..first + 2], None), now);
        let due = tx.deadline().unwrap();
        waits.push(due.nanos() - now);
        now = due.nanos();
        tx.tick(due);
        assert!(tx.next_out(due).is_some_and(|(sending, _)| sending.number == first));
        // The item's first transmission was late and not lost.
        let transmission = first / 6 * 7;
        now += 10;
        hear(&mut tx, &report(first + 6, &[], Some((first, transmission))), now);
    }
    assert_eq!(waits[0], 250);
    assert!(waits.windows(2).all(|two| two[0] < two[1]), "{waits:?}");
    assert!(waits[3] <= 2000, "{waits:?}");
    assert_eq!(tx.counts().mistaken, 4);
}

#[test]
fn end_of_a_flight_is_probed_once_and_then_waited_for() {
    let mut tx = sender(8, 6);
    (0..3).for_each(|_| assert!(tx.next_out(Time::ZERO).is_some()));
    hear(&mut tx, &report(1, &[], Some((0, 0))), 400_000);
    assert_eq!(numbers(&mut tx, 400_000), [3, 4, 5]);
    let due = tx.deadline().unwrap();
    assert_eq!(due.nanos(), 1_600_000, "the mean and its variation");
    assert_eq!(tx.tick(due), Verdict::Again);
    assert_eq!(numbers(&mut tx, due.nanos()), [5], "the last one");
    let resort = tx.deadline().unwrap();
    assert_eq!(tx.tick(resort), Verdict::Again);
    assert_eq!(numbers(&mut tx, resort.nanos()), [1], "the oldest, and no other");
    assert_eq!(tx.counts().timeouts, 1);
    // The probe's arrival shows that all the others are lost.
    let now = resort.nanos() + 400_000;
    hear(&mut tx, &report(1, &[5..6], Some((5, 6))), now);
    assert_eq!(numbers(&mut tx, now), [2, 3, 4]);
}

#[test]
fn after_a_timeout_its_acknowledgement_tells_what_else_is_lost() {
    let mut tx = sender(8, 5);
    assert_eq!(out(&mut tx, 0).len(), 5);
    let deadline = tx.deadline().unwrap();
    assert_eq!(tx.tick(deadline), Verdict::Again);
    assert_eq!(numbers(&mut tx, deadline.nanos()), [0]);
    let now = deadline.nanos() + 50_000;
    assert_eq!(hear(&mut tx, &report(1, &[], Some((0, 5))), now), Some(1));
    assert_eq!(numbers(&mut tx, now), [1, 2, 3, 4], "all of them were sent long before it");
}

#[test]
fn round_trip_is_measured_of_what_was_sent_again() {
    let mut tx = sender(8, 1);
    out(&mut tx, 0);
    let deadline = tx.deadline().unwrap();
    tx.tick(deadline);
    out(&mut tx, deadline.nanos());
    let seen = Seen { sending: Sending { number: 0, transmission: 1 }, delay: 4_000_000 };
    let mut report = Report::plain(1);
    report.seen = Some(seen);
    hear(&mut tx, &report, deadline.nanos() + 12_000_000);
    tx.push(1);
    let now = deadline.nanos() + 20_000_000;
    assert_eq!(numbers(&mut tx, now), [1]);
    assert_eq!(tx.deadline().unwrap().nanos() - now, 16_000_000, "not more than the longest");
}

#[test]
fn acks_that_tell_nothing_new_tell_of_no_loss() {
    let mut tx = sender(8, 5);
    out(&mut tx, 0);
    for _ in 0..10 {
        assert_eq!(hear(&mut tx, &Report::plain(0), 500), Some(0));
    }
    assert_eq!(out(&mut tx, 500), []);
}

#[test]
fn ack_of_what_was_not_sent_is_ignored() {
    let mut tx = sender(4, 6);
    out(&mut tx, 0);
    assert_eq!(hear(&mut tx, &Report::plain(5), 0), None);
    assert_eq!(tx.backlog(), 6);
    assert_eq!(hear(&mut tx, &Report::plain(u32::MAX), 0), None, "before the first number");
    let lies = [
        report(0, &[1..1_000_000], None),
        report(0, &[4..6], Some((5, 9))),
        report(0, &[], Some((0, 77))),
    ];
    lies.iter().for_each(|lie| assert_eq!(hear(&mut tx, lie, 0), Some(0)));
    assert_eq!(hear(&mut tx, &Report::plain(4), 0), Some(4));
    assert_eq!(hear(&mut tx, &Report::plain(2), 0), Some(2), "late, and true");
    assert_eq!(tx.backlog(), 2);
}

#[test]
fn no_more_is_sent_than_the_receiver_keeps() {
    let mut tx = sender(8, 20);
    assert_eq!(out(&mut tx, 0).len(), 8);
    let mut few = Report::plain(8);
    few.room = 3;
    hear(&mut tx, &few, 100);
    assert_eq!(numbers(&mut tx, 100), [8, 9, 10]);
}

#[test]
fn receiver_puts_items_in_order_and_drops_repeated_ones() {
    let mut rx = Ends::new(TIMING, 4, (0, 0));
    assert_eq!(came(&mut rx, 2), Place::Early);
    assert_eq!((rx.take(), rx.ack()), (None, 0));
    assert_eq!(came(&mut rx, 5), Place::Outside, "more than the window ahead");
    assert_eq!(came(&mut rx, 0), Place::Next);
    assert_eq!(came(&mut rx, 1), Place::Early, "before 0 is taken");
    let got: Vec<_> = core::iter::from_fn(|| rx.take()).collect();
    assert_eq!(got, [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(came(&mut rx, 1), Place::Outside);
    assert_eq!((rx.take(), rx.ack()), (None, 3));
}

#[test]
fn item_that_is_taken_at_once_counts_as_one_that_was_kept() {
    let mut rx = Ends::new(TIMING, 8, (0, 0));
    let sending = |number: u32| Sending { number, transmission: number };
    assert_eq!(rx.came_next(sending(1), Time::ZERO), None, "not the next one");
    assert_eq!(rx.report(Time::ZERO), {
        let mut plain = Report::plain(0);
        plain.room = 8;
        plain
    });
    assert_eq!(rx.came_next(sending(0), Time::ZERO), Some(0));
    assert_eq!(came(&mut rx, 2), Place::Early);
    assert_eq!(came(&mut rx, 4), Place::Early);
    assert_eq!(rx.came_next(sending(1), Time::ZERO), Some(1));
    let told = rx.report(Time::ZERO);
    assert_eq!((told.next, told.ranges().len()), (2, 2));
    assert_eq!(rx.came_next(sending(2), Time::ZERO), None, "it is here already");
    assert_eq!(rx.take(), Some((2, 2)));
    assert_eq!(rx.came_next(sending(2), Time::ZERO), None, "it has been taken");
    assert_eq!(rx.came_next(sending(3), Time::ZERO), Some(3));
    assert_eq!(rx.take(), Some((4, 4)));
    assert_eq!((rx.ack(), rx.report(Time::ZERO).ranges().len()), (5, 0));
}

#[test]
fn receiver_reports_what_has_come_out_of_its_turn() {
    let mut rx = Ends::new(TIMING, 100, (0, 0));
    for number in [3, 5, 4, 9, 0] {
        came(&mut rx, number);
    }
    rx.take();
    let told = rx.report(Time::from_nanos(70));
    let mut expected = report(1, &[3..6, 9..10], Some((0, 0)));
    expected.room = 100;
    expected.seen = expected.seen.map(|seen| Seen { delay: 70, ..seen });
    assert_eq!(told, expected);
    assert!(rx.has_gap());
    came(&mut rx, 2);
    came(&mut rx, 1);
    let told = rx.report(Time::ZERO);
    assert_eq!((told.next, told.ranges()[0]), (1, Held { skip: 0, length: 5 }), "not taken yet");
}

#[test]
fn receiver_with_more_ranges_than_fit_reports_the_newest() {
    let mut rx = Ends::new(TIMING, 100, (0, 0));
    (1..=20).for_each(|n| assert_eq!(came(&mut rx, 2 * n), Place::Early));
    let told = rx.report_within(2, Time::ZERO);
    assert_eq!(told.ranges(), [Held { skip: 38, length: 1 }, Held { skip: 1, length: 1 }]);
    came(&mut rx, 4);
    came(&mut rx, 11);
    let told = rx.report_within(2, Time::ZERO);
    assert_eq!(told.ranges(), [Held { skip: 8, length: 1 }, Held { skip: 1, length: 3 }]);
}

#[test]
fn refused_and_later_items_are_not_acknowledged() {
    let mut rx = Ends::new(TIMING, 4, (0, 0));
    assert_eq!([0, 1, 2].map(|n| came(&mut rx, n)), [Place::Next, Place::Early, Place::Early]);
    rx.take();
    let (number, _) = rx.take().unwrap();
    rx.refuse(number);
    rx.take();
    assert_eq!(rx.ack(), 1);
    came(&mut rx, 4);
    assert_eq!(rx.report(Time::ZERO).ranges(), []);
}

#[test]
fn discarded_item_is_taken_on_its_next_arrival() {
    let mut rx = Ends::new(TIMING, 4, (0, 0));
    rx.came(Sending { number: 0, transmission: 0 }, 77, Time::ZERO);
    assert_eq!(rx.peek(), Some(&77));
    rx.discard();
    assert_eq!((rx.take(), rx.ack()), (None, 0));
    assert_eq!(rx.report(Time::ZERO).ranges(), []);
    assert_eq!(came(&mut rx, 0), Place::Next);
    assert_eq!(rx.take(), Some((0, 0)));
}

#[test]
fn last_item_goes_out_beyond_a_full_window() {
    let mut tx = sender(2, 5);
    assert_eq!(out(&mut tx, 0), [(0, 0), (1, 1)]);
    tx.finish(99);
    assert_eq!(out(&mut tx, 0), [(2, 99)], "in place of what was never sent");
    let mut rx = Ends::new(TIMING, 2, (0, 0));
    assert_eq!(came(&mut rx, 2), Place::Early, "just behind the window");
}

/// Upper limit on the memory of an idle peer.
#[test]
fn stream_at_rest_is_small_and_keeps_no_queue() {
    let mut tx = sender(4000, 4000);
    assert_eq!(out(&mut tx, 0).len(), 4000);
    hear(&mut tx, &Report::plain(4000), 1000);
    let (size, kept) = (size_of::<Ends>(), tx.tx.entries_kept());
    println!("a stream: {size} bytes, {kept} entries kept");
    assert!(size <= 800 && kept <= 128, "{size} bytes, {kept} entries");
    // An entry of `items` has about a hundred bytes, and an entry of `order` has 16.
    assert!((kept * 16..kept * 200).contains(&tx.heap_bytes()), "{} bytes", tx.heap_bytes());
    assert_eq!(Ends::new(TIMING, 4000, (0, 0)).heap_bytes(), 0);
}
