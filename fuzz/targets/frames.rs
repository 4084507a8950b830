//! Frames of `crates/core/link`: parsing them, and what they make two channels do between which the fuzzer is the
//! network.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::input::Input;
use sovia_link::datagram::Datagrams;
use sovia_link::wire::{Checksum, Item, Packet, Train, seal};
use sovia_link::{Channel, Config, Control, Time};
use std::sync::Once;

/// Steps of a story.
const MOST: usize = 300;
/// Frames that are on their way at most; the network loses others.
const ON_THE_WAY: usize = 64;

const CONFIG: Config = Config {
    mtu: 100,
    window: 8,
    control: Control::Fixed,
    send_buffer: 16,
    receive_buffer: 1000,
    message_max: 2000,
    link: Checksum::Crc,
    sends: Checksum::Crc,
    retransmit_first: core::time::Duration::from_millis(1),
    retransmit_longest: core::time::Duration::from_millis(8),
};

/// Checks that a parsed packet is emitted unchanged.
fn parse(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    let mut again = Vec::new();
    packet.emit(&mut again);
    assert_eq!(bytes.get(..again.len()), Some(&again[..]));
}

/// Checks that the next frame of a train has the meaning that parsing it alone would give.
fn follow(bytes: &[u8]) {
    let (first, next) = bytes.split_at(bytes.len() / 2);
    let Ok(packet) = Packet::parse_for(first, Checksum::Link) else { return };
    let Some((sending, part)) = Train::begin(first, &packet).and_then(|mut it| it.next(next))
    else {
        return;
    };
    let Packet::Stream { to, from, ack, .. } = packet else { panic!("a train of {packet:?}") };
    let says = Packet::Stream { to, from, sending, ack, item: Item::Part(part) };
    assert_eq!(Packet::parse_for(next, Checksum::Link), Ok(says));
}

/// An end, what has been sent from it and received at it, and the frames that are on their way to it.
struct Side {
    channel: Channel,
    sent: Vec<Vec<u8>>,
    got: Vec<Vec<u8>>,
    coming: Vec<Vec<u8>>,
}

impl Side {
    fn new(seed: u64) -> Side {
        let channel = Channel::new(CONFIG, 5, seed);
        Side { channel, sent: Vec::new(), got: Vec::new(), coming: Vec::new() }
    }

    fn send(&mut self, length: usize) {
        let message: Vec<u8> = (0..length).map(|n| (n + self.sent.len()) as u8).collect();
        let room = self.channel.can_send();
        assert_eq!(self.channel.send(&message).is_ok(), room);
        if room {
            self.sent.push(message);
        }
    }

    fn take(&mut self) {
        let mut message = vec![1];
        if self.channel.poll_message(&mut message) {
            assert!(message.len() <= CONFIG.message_max);
            self.got.push(message);
        }
    }
}

struct World {
    now: u64,
    sides: [Side; 2],
    /// The network has made up frames that no end has sent.
    lies: bool,
}

impl World {
    fn new() -> World {
        World { now: 0, sides: [Side::new(1), Side::new(2)], lies: false }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Puts what an end has to send on its way.
    fn transmit(&mut self, at: usize) {
        let now = self.time();
        let mut frame = vec![7; 3];
        let mut count = 0;
        while self.sides[at].channel.poll_transmit(now, &mut frame) {
            assert!(frame.len() <= CONFIG.mtu);
            parse(&frame);
            if self.sides[1 - at].coming.len() < ON_THE_WAY {
                self.sides[1 - at].coming.push(frame.clone());
            }
            count += 1;
            assert!(count <= 100, "an end does not stop sending");
        }
        if let Some(deadline) = self.sides[at].channel.poll_timeout() {
            assert!(deadline > now, "time would stand still");
        }
    }

    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        let now = self.time();
        for at in [0, 1] {
            self.sides[at].channel.handle_timeout(now);
            self.transmit(at);
        }
    }

    fn hand_in(&mut self, at: usize, frame: &[u8]) {
        let now = self.time();
        let refused = self.sides[at].channel.handle_frame(now, frame).is_err();
        assert_eq!(refused, Packet::parse(frame).is_err());
        self.transmit(at);
    }

    /// One of the frames on their way to an end: it arrives, twice, corrupt, changed, or not at all.
    fn arrive(&mut self, at: usize, input: &mut Input<'_>) {
        let side = &mut self.sides[at];
        if side.coming.is_empty() {
            return;
        }
        let place = input.below(side.coming.len());
        let mut frame = side.coming.remove(place);
        match input.below(8) {
            0 => return,
            1 => side.coming.push(frame.clone()),
            2 => frame.truncate(input.below(frame.len())),
            3 => {
                let place = input.below(frame.len());
                frame[place] ^= input.u8().max(1);
            }
            4 => {
                // No bit error: as an end might do that has gone wrong.
                self.lies = true;
                for _ in 0..=input.below(3) {
                    let place = input.below(frame.len());
                    frame[place] = input.u8();
                }
                if input.flag() {
                    frame.truncate(input.below(frame.len()));
                }
                seal(&mut frame);
            }
            _ => {}
        }
        parse(&frame);
        self.hand_in(at, &frame);
    }

    fn make_up(&mut self, at: usize, input: &mut Input<'_>) {
        self.lies = true;
        let length = input.below(120);
        let mut frame = input.bytes(length).to_vec();
        if frame.len() > 1 {
            // The version.
            frame[0] = 2;
        }
        seal(&mut frame);
        parse(&frame);
        self.hand_in(at, &frame);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let at = input.below(2);
        match input.below(8) {
            0 => {
                let length = input.below(400);
                self.sides[at].send(length);
                self.transmit(at);
            }
            1 => {
                self.sides[at].take();
                self.transmit(at);
            }
            2 => self.pass(u64::from(input.u16()) * 1000),
            3 => self.make_up(at, input),
            _ => self.arrive(at, input),
        }
    }

    /// From now on the network is a good one: everything arrives that has been sent.
    fn finish(&mut self) {
        for _ in 0..2000 {
            for at in [0, 1] {
                for frame in core::mem::take(&mut self.sides[at].coming) {
                    self.hand_in(at, &frame);
                }
                (0..50).for_each(|_| self.sides[at].take());
                self.transmit(at);
            }
            if self.sides.iter().all(|side| side.channel.is_idle()) {
                break;
            }
            if self.sides.iter().all(|side| side.coming.is_empty()) {
                self.pass(10_000_000);
            }
        }
        if !self.lies {
            assert_eq!(self.sides[0].sent, self.sides[1].got);
            assert_eq!(self.sides[1].sent, self.sides[0].got);
        }
    }
}

/// Parts of unreliable messages, in any order and of any size.
fn datagrams(bytes: &[u8]) {
    let mut datagrams = Datagrams::new(500);
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let (number, length) = (u64::from(input.u8() % 8), input.below(40));
        let (total, start) = (input.u16().into(), input.u16().into());
        let bytes = input.bytes(length);
        let operation = sovia_link::wire::Operation::Send;
        let part = sovia_link::wire::Part { operation, immediate: None, total, start, bytes };
        let mut frame = Vec::new();
        let (to, from) = (Default::default(), Default::default());
        Packet::Datagram { to, from, message: number, part }.emit(&mut frame);
        if let Ok(Packet::Datagram { message, part, .. }) = Packet::parse(&frame)
            && let Some(whole) = datagrams.add(message, &part)
        {
            assert_eq!(whole.bytes.len(), part.total as usize);
            assert!(whole.bytes.len() <= 500);
        }
    }
}

fn story(bytes: &[u8]) -> World {
    let mut world = World::new();
    Input::new(bytes).each(MOST, |input| world.step(input));
    world.finish();
    world
}

/// A message each way. One of the frames arrives corrupt.
const TRUTH: [u8; 18] = [0, 0, 200, 0, 1, 0, 50, 0, 1, 4, 0, 5, 0, 4, 0, 3, 9, 1];

fuzz_target!(|bytes: &[u8]| {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let world = story(&TRUTH);
        assert!(!world.lies && world.sides.iter().all(|side| side.got.len() == 1));
        let corrupt: u64 = world.sides.iter().map(|side| side.channel.counters().malformed).sum();
        assert_eq!(corrupt, 1, "nothing is tested");
    });
    parse(bytes);
    follow(bytes);
    datagrams(bytes);
    story(bytes);
});
