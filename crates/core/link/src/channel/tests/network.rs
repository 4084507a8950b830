//! Tests of two channels over a network that loses, duplicates, corrupts and reorders frames.

use crate::Time;
use crate::channel::greeting::{Greeting, Random, name};
use crate::channel::{Channel, Config, Event};
use crate::stream::Control;
use crate::wire::Checksum;
use core::time::Duration;
use proptest::prelude::*;
use sovia_simnet::{Link, Net, NodeId};
use std::collections::VecDeque;

const CONFIG: Config = Config {
    mtu: 200,
    window: 16,
    control: Control::Fixed,
    send_buffer: 24,
    receive_buffer: 4096,
    message_max: 1 << 20,
    retransmit_first: Duration::from_millis(1),
    retransmit_longest: Duration::from_millis(16),
    link: Checksum::Crc,
    sends: Checksum::Crc,
};

/// An end, its outgoing messages, and its received messages.
struct Side {
    channel: Channel,
    node: NodeId,
    to_send: VecDeque<Vec<u8>>,
    got: Vec<Vec<u8>>,
    events: Vec<Event>,
    /// Number of messages that the end takes at a time.
    appetite: usize,
    /// When the timer fires.
    timer: Option<Time>,
}

type Sim = Net<Vec<u8>, usize>;

/// Both ends of channel 7 in one network.
struct Pair {
    net: Sim,
    sides: [Side; 2],
}

impl Pair {
    fn new(seed: u64, link: Link, channels: [Channel; 2], messages: [Vec<Vec<u8>>; 2]) -> Pair {
        let mut net = Net::new(seed, link);
        let sides = channels.into_iter().zip(messages).map(|(channel, messages)| Side {
            channel,
            node: net.add_node(),
            to_send: messages.into(),
            got: Vec::new(),
            events: Vec::new(),
            appetite: usize::MAX,
            timer: None,
        });
        let sides: Vec<Side> = sides.collect();
        Pair { net, sides: sides.try_into().ok().unwrap() }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.net.now().nanos())
    }

    /// Does what a port does after an event at a side.
    fn pump(&mut self, at: usize) {
        let now = self.now();
        let to = self.sides[1 - at].node;
        let side = &mut self.sides[at];
        while let Some(message) = side.to_send.front() {
            let had_room = side.channel.can_send();
            let sent = side.channel.send(message).is_ok();
            assert_eq!(sent, had_room);
            if !sent {
                break;
            }
            side.to_send.pop_front();
        }
        let mut message = Vec::new();
        let mut taken = 0;
        while taken < side.appetite && side.channel.poll_message(&mut message) {
            side.got.push(core::mem::take(&mut message));
            taken += 1;
        }
        side.events.extend(core::iter::from_fn(|| side.channel.poll_event()));
        let mut frame = vec![0xAA; 9];
        while side.channel.poll_transmit(now, &mut frame) {
            assert!(frame.len() <= CONFIG.mtu, "{} bytes", frame.len());
            self.net.send(side.node, to, frame.len() as u32, frame.clone());
        }
        if let Some(deadline) = side.channel.poll_timeout()
            && side.timer.is_none_or(|timer| timer > deadline)
        {
            assert!(deadline > now, "time would stand still");
            side.timer = Some(deadline);
            self.net.set_timer(sovia_simnet::Time::from_nanos(deadline.nanos()), at);
        }
    }

    /// Processes the next event. Returns false if there is none.
    fn step(&mut self) -> bool {
        let Some(event) = self.net.step() else { return false };
        let now = self.now();
        match event {
            sovia_simnet::Event::Packet(mut packet) => {
                let at = usize::from(packet.to == self.sides[1].node);
                if packet.corrupt {
                    let place = now.nanos() as usize % packet.payload.len();
                    packet.payload[place] ^= 1 << (now.nanos() % 8);
                }
                let handled = self.sides[at].channel.handle_frame(now, &packet.payload);
                assert_eq!(handled.is_err(), packet.corrupt);
                self.pump(at);
            }
            sovia_simnet::Event::Timer(at) => {
                let side = &mut self.sides[at];
                side.timer = side.timer.filter(|&timer| timer > now);
                side.channel.handle_timeout(now);
                self.pump(at);
            }
            sovia_simnet::Event::Changed => {}
        }
        true
    }

    /// Runs until there are no more events. Fails if that takes too long.
    fn run(&mut self) {
        self.pump(0);
        self.pump(1);
        for _ in 0..2_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the channels do not come to rest");
    }
}

fn channel(seed: u64) -> Channel {
    Channel::new(CONFIG, 7, seed)
}

/// Creates an end whose first item has the number `epoch`.
fn channel_from(epoch: u32) -> Channel {
    Channel::with_greeting(CONFIG, Greeting::of(name(7, epoch), Random(epoch.into())))
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let lengths = prop_oneof![4 => 0usize..20, 3 => 0usize..1000, 1 => 0usize..20_000];
    prop::collection::vec(lengths.prop_flat_map(|n| prop::collection::vec(any::<u8>(), n)), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_message_arrives_once_whole_and_in_order_each_way(
        seed: u64, fault in 0.0..0.3, a in messages(), b in messages(),
    ) {
        let channels = [channel(seed), channel(!seed)];
        let mut pair = Pair::new(seed, Link::faulty(fault), channels, [a.clone(), b.clone()]);
        pair.run();
        prop_assert_eq!(&pair.sides[1].got, &a);
        prop_assert_eq!(&pair.sides[0].got, &b);
        for side in &pair.sides {
            prop_assert!(side.channel.is_idle() && side.channel.poll_timeout().is_none());
            let opened = side.events.iter().filter(|&&event| event == Event::Opened).count();
            prop_assert_eq!(opened, usize::from(!a.is_empty() || !b.is_empty()));
        }
    }

    #[test]
    fn channels_survive_the_wrap_of_numbers(
        seed: u64, before in 0u32..40, fault in 0.0..0.2, a in messages(),
    ) {
        let channels = [channel_from(u32::MAX - before), channel_from(1)];
        let mut pair = Pair::new(seed, Link::faulty(fault), channels, [a.clone(), a.clone()]);
        pair.run();
        prop_assert_eq!(&pair.sides[1].got, &a);
        prop_assert_eq!(&pair.sides[0].got, &a);
    }
}

/// Nothing gets through for an hour. The channel survives and continues.
#[test]
fn channel_outlives_an_hour_without_a_network() {
    use sovia_simnet::Change;
    let hour = sovia_simnet::Time::from_nanos(3_600_000_000_000);
    for cut_at in [0, 300_000, 1_000_000] {
        let sent: Vec<Vec<u8>> = (0..50).map(|n| vec![n; 500]).collect();
        let link = Link { latency: Duration::from_micros(100), ..Link::faulty(0.1) };
        let channels = [channel(1), channel(2)];
        let mut pair = Pair::new(9, link, channels, [sent.clone(), Vec::new()]);
        let nodes = (pair.sides[0].node, pair.sides[1].node);
        pair.net.change(sovia_simnet::Time::from_nanos(cut_at), Change::Sever(nodes.0, nodes.1));
        pair.net.change(hour, Change::Mend(nodes.0, nodes.1));
        pair.run();
        assert!(pair.now() > Time::from_nanos(hour.nanos()), "it was cut in time");
        assert_eq!(pair.sides[1].got, sent);
    }
}

/// A slow reader stops the sender, and no message is lost.
#[test]
fn slow_reader_loses_nothing() {
    let sent: Vec<Vec<u8>> = (0..100).map(|n| vec![n; 700]).collect();
    let channels = [channel(1), channel(2)];
    let mut pair = Pair::new(5, Link::faulty(0.1), channels, [sent.clone(), Vec::new()]);
    pair.sides[1].appetite = 0;
    pair.pump(0);
    for _ in 0..5_000 {
        assert!(pair.step());
    }
    assert!(!pair.sides[0].to_send.is_empty(), "not all of it fits into the two ends");
    pair.sides[1].appetite = 1;
    pair.run();
    // Takes the messages that are left when no more frames arrive.
    pair.sides[1].appetite = usize::MAX;
    pair.run();
    assert_eq!(pair.sides[1].got, sent);
}
