//! EMP's frames: parsing them, and what they make two NICs do between which the fuzzer is the network. No frame, however
//! made, makes a NIC touch memory that was not posted, lose a descriptor or go on for ever.

#![no_main]

use core::cell::RefCell;
use core::time::Duration;
use libfuzzer_sys::fuzz_target;
use sovia_emp::array::DESCRIPTORS;
use sovia_emp::wire::Frame;
use sovia_emp::{Array, Config, Engine, Handle, Host, Io, Memory, Outcome, Piece, Sink, Status};
use sovia_fuzz::input::Input;
use sovia_link::Time;
use sovia_link::stream::Timing;
use sovia_link::wire::{Checksum, EndId, seal};
use std::sync::Once;

/// Steps of a story.
const MOST: usize = 300;
/// Greatest number of frames under way; the network loses others.
const ON_THE_WAY: usize = 64;
/// Bytes of a frame: few, so that a message has many frames.
const FRAME_MAX: usize = 120;
const KEY: u64 = 7;

/// Checks that a parsed frame is emitted unchanged.
fn parse(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes, Checksum::Crc) else { return };
    let mut room = vec![0; bytes.len()];
    let len = frame.emit(&mut room, Checksum::Crc).expect("it has room");
    assert_eq!(bytes[..len], room[..len]);
}

/// A program's memory. Each byte knows whether the NIC may touch it now.
#[derive(Default)]
struct Arena(RefCell<(Vec<u8>, Vec<bool>)>);

impl Arena {
    fn add(&self, bytes: impl Iterator<Item = u8>) -> (u64, usize) {
        let mut all = self.0.borrow_mut();
        let at = all.0.len();
        all.0.extend(bytes);
        let len = all.0.len() - at;
        all.1.resize(at + len, true);
        (at as u64, len)
    }

    fn take(&self, at: u64, len: usize) -> Vec<u8> {
        let mut all = self.0.borrow_mut();
        let range = at as usize..at as usize + len;
        all.1[range.clone()].fill(false);
        all.0[range].to_vec()
    }
}

impl Memory for Arena {
    fn read(&self, address: u64, into: &mut [u8]) {
        let all = self.0.borrow();
        let range = address as usize..address as usize + into.len();
        assert!(all.1[range.clone()].iter().all(|&is_posted| is_posted));
        into.copy_from_slice(&all.0[range]);
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        let mut all = self.0.borrow_mut();
        let range = address as usize..address as usize + bytes.len();
        assert!(all.1[range.clone()].iter().all(|&is_posted| is_posted));
        all.0[range].copy_from_slice(bytes);
    }
}

#[derive(Default)]
struct Out(Vec<Vec<u8>>);

impl Sink<u8> for Out {
    fn send(&mut self, _: &u8, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut room = [0; FRAME_MAX];
        let len = write(&mut room).expect("a frame fits into its room");
        self.0.push(room[..len].to_vec());
        true
    }
}

/// A transfer: its handle, its memory, and what has come of it.
struct Transfer {
    handle: Handle,
    at: u64,
    len: usize,
    is_receive: bool,
    outcome: Option<(Outcome, Vec<u8>)>,
}

struct Side {
    engine: Engine<u8>,
    array: Array,
    host: Host,
    memory: Arena,
    transfers: Vec<Transfer>,
    /// Frames on their way to it.
    coming: Vec<Vec<u8>>,
}

impl Side {
    fn new(own: u64) -> Side {
        let first = Duration::from_millis(1);
        let longest = Duration::from_millis(8);
        let config = Config {
            timing: Timing { first, longest, tries: Some(40) },
            ..Config::new(EndId(own), KEY)
        };
        let (mut engine, array) = (Engine::new(config, FRAME_MAX), Array::new());
        engine.add_peer(&array, 0, KEY);
        Side {
            engine,
            array,
            host: Host::new(),
            memory: Arena::default(),
            transfers: Vec::new(),
            coming: Vec::new(),
        }
    }

    fn post(&mut self, input: &mut Input<'_>) {
        let len = input.below(600);
        let (tag, is_receive) = (u32::from(input.u8() % 3), input.flag());
        let number = self.transfers.len() as u8;
        let (at, _) = self.memory.add((0..len).map(|byte| (byte as u8) ^ number));
        let cut = input.below(len + 1);
        let piece = |at, length| Piece { address: at, length };
        let pieces = [piece(at, cut), piece(at + cut as u64, len - cut)];
        let posted = if is_receive {
            let tag = (tag > 0).then_some(tag);
            self.host.post_receive(&self.array, Some(0), tag, &pieces)
        } else {
            self.host.post_send(&self.array, 0, tag + 1, &pieces)
        };
        if let Ok(handle) = posted {
            self.transfers.push(Transfer { handle, at, len, is_receive, outcome: None });
        }
    }

    fn test(&mut self) {
        for transfer in self.transfers.iter_mut().filter(|transfer| transfer.outcome.is_none()) {
            if let Some(outcome) = self.host.test(&self.array, transfer.handle).expect("a handle") {
                let bytes = self.memory.take(transfer.at, transfer.len);
                transfer.outcome = Some((outcome, bytes));
            }
        }
    }

    fn cancel(&mut self, input: &mut Input<'_>) {
        let place = input.below(self.transfers.len() + 1);
        if let Some(transfer) = self.transfers.get(place)
            && transfer.is_receive
            && transfer.outcome.is_none()
        {
            let _ = self.host.cancel(&self.array, transfer.handle);
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

    fn drive(&mut self, at: usize, take: impl FnOnce(&mut Engine<u8>, &mut Io<'_, u8>)) {
        let now = Time::from_nanos(self.now);
        let Side { engine, array, memory, .. } = &mut self.sides[at];
        let mut out = Out::default();
        let mut io = Io { array, memory, sink: &mut out, now };
        take(engine, &mut io);
        engine.poll(&mut io);
        engine.acknowledge(&mut io);
        assert!(engine.next_timer().is_none_or(|next| next > now), "time would stand still");
        assert!(out.0.len() < 5000, "a station does not stop sending");
        self.sides[at].test();
        for frame in out.0 {
            parse(&frame);
            if self.sides[1 - at].coming.len() < ON_THE_WAY {
                self.sides[1 - at].coming.push(frame);
            }
        }
    }

    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        self.drive(0, |_, _| ());
        self.drive(1, |_, _| ());
    }

    fn hand_in(&mut self, at: usize, frame: &[u8]) {
        parse(frame);
        self.drive(at, |engine, io| engine.frame(io, &0, frame));
    }

    /// One of the frames on their way to a station: it arrives, twice, corrupt, changed, or not at all.
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
                // No bit error: as a station might do that has gone wrong.
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
        self.hand_in(at, &frame);
    }

    fn make_up(&mut self, at: usize, input: &mut Input<'_>) {
        self.lies = true;
        let length = input.below(120);
        let mut frame = input.bytes(length).to_vec();
        if frame.len() > 24 {
            // The version, a kind that there is, and both names.
            (frame[0], frame[1], frame[2], frame[3]) = (2, 48 + frame[1] % 10, 0, 0);
            frame[8..16].copy_from_slice(&(at as u64 + 1).to_be_bytes());
            frame[16..24].copy_from_slice(&(2 - at as u64).to_be_bytes());
        }
        seal(&mut frame);
        self.hand_in(at, &frame);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let at = input.below(2);
        match input.below(10) {
            0..=2 => {
                self.sides[at].post(input);
                self.drive(at, |_, _| ());
            }
            3 => {
                self.sides[at].cancel(input);
                self.drive(at, |_, _| ());
            }
            4 => self.pass(u64::from(input.u16()) * 1000),
            5 => self.make_up(at, input),
            _ => self.arrive(at, input),
        }
    }

    /// From now on the network is a good one.
    fn finish(&mut self) {
        for _ in 0..200 {
            for at in [0, 1] {
                for frame in core::mem::take(&mut self.sides[at].coming) {
                    self.hand_in(at, &frame);
                }
            }
            if self.sides.iter().all(|side| side.coming.is_empty()) {
                if self.sides.iter().all(|side| side.engine.next_timer().is_none()) {
                    break;
                }
                self.pass(10_000_000);
                if self.now > 60_000_000_000 {
                    break;
                }
            }
        }
        for at in [0, 1] {
            self.drive(at, |engine, io| engine.close(io));
            assert_eq!(self.sides[at].host.free(), DESCRIPTORS, "every descriptor is back");
        }
        if !self.lies {
            [0, 1].into_iter().for_each(|at| self.check(at));
        }
    }

    /// Checks that a side has received only messages that the other side has sent.
    fn check(&self, at: usize) {
        let mut sent: Vec<_> = self.sides[1 - at].transfers.iter().collect();
        sent.retain(|transfer| !transfer.is_receive);
        for receive in self.sides[at].transfers.iter().filter(|transfer| transfer.is_receive) {
            let Some((outcome, bytes)) = &receive.outcome else { panic!("it has not ended") };
            if outcome.status != Status::Done {
                continue;
            }
            let whole = &bytes[..outcome.length as usize];
            let place = sent.iter().position(|send| {
                let Some((end, bytes)) = &send.outcome else { return false };
                end.tag == outcome.tag && bytes == whole
            });
            sent.remove(place.expect("it was sent, and has not come before"));
        }
        for send in sent {
            let Some((outcome, _)) = &send.outcome else { panic!("it has not ended") };
            assert_ne!(outcome.status, Status::Done, "it has not come");
        }
    }
}

fn story(bytes: &[u8]) -> World {
    let mut world = World::new();
    Input::new(bytes).each(MOST, |input| world.step(input));
    world.finish();
    world
}

fuzz_target!(|bytes: &[u8]| {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        // A message of many frames finds its receive.
        let mut world = World::new();
        for (at, is_receive) in [(1, true), (0, false)] {
            let side = &mut world.sides[at];
            let (place, len) = side.memory.add((0..500).map(|byte| byte as u8));
            let piece = [Piece { address: place, length: len }];
            let handle = if is_receive {
                side.host.post_receive(&side.array, None, None, &piece)
            } else {
                side.host.post_send(&side.array, 0, 1, &piece)
            };
            let handle = handle.expect("there is room");
            side.transfers.push(Transfer { handle, at: place, len, is_receive, outcome: None });
            world.drive(at, |_, _| ());
        }
        world.finish();
        let ended = |side: &Side| side.transfers[0].outcome.as_ref().map(|it| it.0.status);
        assert_eq!(world.sides.each_ref().map(ended), [Some(Status::Done); 2]);
    });
    parse(bytes);
    story(bytes);
});
