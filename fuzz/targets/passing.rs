//! Words that a program can write to the memory shared with its agent (`crates/eth/port`, module `agent`), and
//! frames that the agent finds there.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::input::Input;
use sovia_link::wire::{Checksum, Packet, Passing, seal};
use sovia_port::Address;
use sovia_port::agent::ring::{self, Consumer, Geometry, Producer};
use sovia_port::agent::said::{FromAgent, FromProgram};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Once;

/// Steps of a story.
const MOST: usize = 200;
const FRAME_MAX: usize = 300;
/// Offset of the first slot of the ring to the agent, and bytes of each slot.
const SLOTS: u64 = 4096;
const SLOT: u64 = 384;
const HERE: Address = Address::Mac([2, 0, 0, 0, 0, 1]);

struct World {
    hears: Consumer,
    tells: Producer,
    memory: File,
    /// Frames that the agent has taken.
    taken: u64,
    frame: Vec<u8>,
    /// Frames that were what a program may send.
    passed: u32,
}

impl World {
    fn new() -> World {
        let geometry = Geometry::of(FRAME_MAX).expect("such frames are legal");
        let (hears, tells, memory) = ring::make(geometry).expect("the system has memory");
        let memory = File::from(OwnedFd::from(memory));
        World { hears, tells, memory, taken: 0, frame: Vec::new(), passed: 0 }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        // Beyond the end the seals keep it from growing.
        let _ = self.memory.write_at(bytes, at);
    }

    /// Returns the offset of the next frame.
    fn slot(&self) -> u64 {
        let count = u64::from(Geometry::of(FRAME_MAX).expect("as before").count());
        SLOTS + self.taken % count * SLOT
    }

    /// A frame as an honest program puts it, but for its bytes.
    fn put(&self, frame: &[u8]) {
        let at = self.slot();
        // The address of an Ethernet card.
        self.write(at + 8, &1u64.to_le_bytes());
        self.write(at + 32, frame);
        let head = (self.taken as u32).wrapping_add(1);
        self.write(at, &(u64::from(head) | (frame.len() as u64) << 32).to_le_bytes());
    }

    fn take(&mut self) {
        if let Ok(Some(_)) = self.hears.peek(&mut self.frame) {
            assert!(self.frame.len() <= FRAME_MAX && !self.hears.is_empty());
            self.passed += u32::from(pass(&self.frame));
            self.hears.advance();
            self.taken += 1;
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(8) {
            0 => {
                let (at, len) = (input.below(4096), input.below(16));
                self.write(at as u64, input.bytes(len));
            }
            1 => {
                let (at, len) = (input.below(SLOT as usize), input.below(40));
                self.write(self.slot() + at as u64, input.bytes(len));
            }
            2 => {
                let len = input.below(FRAME_MAX + 20);
                self.put(input.bytes(len));
            }
            3 | 4 => {
                let len = input.below(100);
                let mut frame = input.bytes(len).to_vec();
                if let Some(version) = frame.first_mut() {
                    *version = 2;
                }
                seal(&mut frame);
                self.put(&frame);
            }
            5 => {
                let len = input.below(FRAME_MAX);
                let _ = self.tells.put(&HERE, &vec![7; len]);
                let _ = self.tells.has_room(1 + input.u16() as u32 % 2000);
            }
            6 => {
                self.hears.announce_sleep();
                self.tells.is_to_ring();
            }
            _ => self.take(),
        }
    }
}

/// Checks that a switch and the frame's receiver read the same. Returns true if it is a frame for
/// VIs.
fn pass(frame: &[u8]) -> bool {
    for link in [Checksum::Crc, Checksum::Link] {
        let Ok((passing, whole)) = Passing::of(frame, link) else {
            match Packet::parse_for(frame, link) {
                Err(_) | Ok(Packet::Hello { .. } | Packet::Probe { .. } | Packet::Echo { .. }) => {}
                Ok(packet) => panic!("a receiver would take {packet:?}"),
            }
            continue;
        };
        assert!(frame.starts_with(whole));
        let seen = Packet::parse_for(frame, link);
        assert_eq!(seen.is_ok(), Passing::is_whole(whole, link));
        match (passing, seen) {
            (Passing::Ends { to, from, is_answered }, Ok(packet)) => match packet {
                Packet::Stream { to: t, from: f, .. } | Packet::Ack { to: t, from: f, .. } => {
                    assert_eq!((to, from, is_answered), (t, f, true));
                }
                Packet::Datagram { to: t, from: f, .. } => {
                    assert_eq!((to, from, is_answered), (t, f, false));
                }
                other => panic!("{other:?}"),
            },
            (Passing::Gone { to }, Ok(packet)) => assert_eq!(packet, Packet::Gone { to }),
            (Passing::Meeting(meeting), packet) => {
                assert_eq!(packet, Ok(Packet::Meeting(meeting)));
            }
            // A corrupt one goes to its receiver, which drops it.
            (_, Err(_)) => {}
        }
        return true;
    }
    false
}

fn said(bytes: &[u8]) {
    if let Some(said) = FromProgram::decode(bytes) {
        assert_eq!(said.encode(), bytes);
    }
    if let Some(said) = FromAgent::decode(bytes) {
        assert_eq!(FromAgent::decode(&said.encode()), Some(said));
    }
}

fn story(bytes: &[u8]) -> World {
    let mut world = World::new();
    Input::new(bytes).each(MOST, |input| world.step(input));
    world.take();
    world
}

fuzz_target!(|bytes: &[u8]| {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        // Checks that the memory lies where this program writes.
        let mut world = World::new();
        let mut frame = vec![0; 28];
        (frame[0], frame[1]) = (2, 4);
        seal(&mut frame);
        for _ in 0..3 {
            world.put(&frame);
            world.take();
        }
        assert_eq!((world.passed, world.taken), (3, 3), "nothing is tested");
    });
    said(bytes);
    pass(bytes);
    story(bytes);
});
