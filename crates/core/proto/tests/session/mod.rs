//! Two sessions, connected by two wires, under random schedules.
//!
//! No byte is lost, doubled or reordered, and no end waits for ever. Each packet finds a posted receive, and at
//! most a window of packets is unacknowledged (checked in `end.rs`). A failure prints its seed, and `SEED=n`
//! repeats the schedule.

mod end;

use core::time::Duration;
use end::End;
use proptest::prelude::*;
use sovia_proto::configuration::{Combine, Configuration, Handshake, PRESETS, Transfer};
use sovia_proto::flow::Parameters;
use sovia_proto::state::State;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A source of pseudo-random choices (splitmix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns a length: often short, sometimes more than several chunks.
    fn length(&mut self, chunk: u32) -> usize {
        match self.below(4) {
            0 => 1 + self.below(3),
            1 => 1 + self.below(chunk as usize * 3),
            _ => 1 + self.below(chunk as usize / 2),
        }
    }

    fn configuration(&mut self, handshake: Handshake) -> Configuration {
        let (_, preset) = PRESETS[self.below(PRESETS.len())];
        // Small chunks exercise more of the protocol in less time.
        let chunk = 64 + self.below(200) as u32;
        let window = 1 + self.below(8) as u16;
        let threshold = 1 + self.below(window as usize) as u16;
        let delay = Duration::from_millis(1);
        let mut configuration = Configuration {
            transfer: Transfer::Hybrid { threshold: chunk / 3 },
            flow: Parameters { window, threshold },
            chunk,
            combine: preset.combine.map(|_| Combine { below: chunk / 2, delay }),
            handshake,
            ..preset
        };
        if handshake.asks() {
            configuration.flow = Parameters { window: 1, threshold: 1 };
            configuration.combine = None;
        }
        configuration.check().unwrap();
        configuration
    }
}

/// Lets one packet arrive at `ends[to]`, if one is on its way.
fn deliver(ends: &mut [End; 2], to: usize) -> bool {
    let Some(packet) = ends[to ^ 1].wire.pop_front() else { return false };
    ends[to].take(&packet);
    true
}

/// Runs one schedule: random steps of two programs and two wires, then everything to its end.
fn schedule(seed: u64) {
    let choices = &mut Choices(seed);
    let handshake = match choices.below(8) {
        0 => Handshake::ThreeWay,
        1 => Handshake::Rdma,
        _ => Handshake::TwoWay,
    };
    let configurations = [(); 2].map(|()| choices.configuration(handshake));
    let mut ends = [0, 1].map(|i| End::new(i as u8, &configurations[i]));
    ends.iter_mut().for_each(|end| end.stays = choices.once_in(2));
    for _ in 0..choices.below(200) {
        let i = choices.below(2);
        match choices.below(20) {
            0..6 => drop(ends[i].write(choices.length(configurations[i].chunk))),
            6..10 => drop(ends[i].read(choices.length(configurations[i].chunk))),
            10..16 => drop(deliver(&mut ends, i)),
            16 => drop(ends[i].timer()),
            17 if handshake == Handshake::TwoWay => ends[i].switch(choices.once_in(2)),
            18 if choices.once_in(10) => ends[i].shutdown(),
            19 if choices.once_in(20) => ends[i].close(),
            19 if choices.once_in(40) => return lose(&mut ends, i),
            _ => {}
        }
    }
    finish(&mut ends, &configurations);
    // Otherwise an end might lend memory to a program that never writes there.
    assert!((0..2).all(|i| ends[i ^ 1].stays || !ends[i].waited_for));
}

/// Loses the connection after some packets have arrived. Each end must have read a prefix of the other end's bytes.
fn lose(ends: &mut [End; 2], i: usize) {
    for end in ends.iter_mut() {
        end.session.lost();
        while end.read(1000) > 0 {}
        assert!(matches!(end.session.state(), State::Reset | State::Finished));
        assert_eq!(end.write(1), 0);
    }
    assert!(ends[i].deaf || ends[i].read <= ends[i ^ 1].written);
}

/// Lets both programs write more bytes, close their sending halves and read to the end.
fn finish(ends: &mut [End; 2], configurations: &[Configuration; 2]) {
    let mut left = configurations.map(|c| c.chunk as usize + 1);
    for round in 0.. {
        assert!(round < 10_000, "it goes on for ever");
        let mut moved = false;
        for i in 0..2 {
            while left[i] > 0 {
                let written = ends[i].write(left[i]);
                left[i] -= written;
                moved |= written > 0;
                if written == 0 {
                    break;
                }
            }
            let shut = !ends[i].session.state().may_write();
            if left[i] == 0 && !shut {
                ends[i].shutdown();
                moved = true;
            }
            while deliver(ends, i) {
                moved = true;
            }
            while ends[i].read(50) > 0 {
                moved = true;
            }
        }
        if ends.iter().all(End::is_finished) {
            break;
        }
        moved |= ends.iter().any(|end| !end.wire.is_empty());
        assert!(moved, "no end can do anything: {ends:#?}");
    }
    for i in 0..2 {
        assert!(ends[i].deaf || ends[i].at_end());
        assert!(ends[i].deaf || ends[i].read == ends[i ^ 1].written, "bytes are missing");
    }
}

fn seeds(count: u64) {
    let run = |seed: u64| {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| schedule(seed))) {
            eprintln!("SEED={seed} replays it");
            resume_unwind(why);
        }
    };
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => run(seed),
        None => {
            (0..count).for_each(run);
            println!("{count} schedules of two sessions");
        }
    }
}

/// Returns two ends that have received each other's terms.
fn woken(configuration: &str) -> [End; 2] {
    let configuration = configuration.parse().unwrap();
    let mut ends = [0, 1].map(|i| End::new(i, &configuration));
    while deliver(&mut ends, 0) || deliver(&mut ends, 1) {}
    ends
}

#[test]
fn leave_reports_whether_its_caller_stays() {
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut ends = woken("SOVIA_RDMA");
        ends[0].stays = first;
        assert_eq!(ends[0].write(100), 0);
        // A call of another thread, which uses the same permission. The end does not send its request again.
        ends[0].stays = second;
        assert_eq!(ends[0].write(50), 0);
        assert!(deliver(&mut ends, 1));
        assert_eq!(ends[1].read(100), 0);
        assert_eq!(ends[1].waited_for, first, "{first} {second}");
        assert!(deliver(&mut ends, 0));
        assert_eq!(ends[0].write(50), 50);
        assert!(deliver(&mut ends, 1));
        assert_eq!(ends[1].read(100), 50);
        // The first call is complete. The next call sends a request of its own.
        (ends[0].stays, ends[1].waited_for) = (second, false);
        assert_eq!(ends[0].write(50), 0);
        while deliver(&mut ends, 1) {}
        assert_eq!(ends[1].read(100), 0);
        assert_eq!(ends[1].waited_for, second, "{first} {second}");
    }
}

#[test]
fn two_ends_under_many_schedules() {
    seeds(100_000);
}

#[test]
#[ignore = "takes minutes"]
fn two_ends_under_millions_of_schedules() {
    seeds(10_000_000);
}

proptest! {
    /// Checks that any packet of a peer is valid or a violation, and never causes a panic.
    #[test]
    fn a_hostile_peer_breaks_only_the_connection(
        packets in proptest::collection::vec((any::<u32>(), 0u8..9, any::<u16>(), 0usize..40), 0..60),
        preset in 0..PRESETS.len(),
    ) {
        let mut end = End::new(0, &PRESETS[preset].1);
        let honest = End::new(1, &PRESETS[preset].1).wire.pop_front().unwrap();
        end.take(&honest);
        for (noise, kind, acks, len) in packets {
            let bits = if noise % 8 == 0 { noise } else { u32::from(kind) << 24 | u32::from(acks % 4) };
            let body = vec![noise as u8; len.min(16)];
            let arrived = end.session.arrived(Some(bits), len as u32, &body);
            while end.session.outgoing().is_some() {}
            if arrived.is_err() {
                end.session.lost();
                break;
            }
        }
        prop_assert!(end.session.unacknowledged() <= 256);
    }
}
