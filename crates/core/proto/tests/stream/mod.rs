//! A stream on a VI, with any interleaving of both ends.
//!
//! The ends send packets while the window allows them, and then coalesce bytes. They count, delay and piggyback
//! acknowledgements, and may half-close.

mod end;

use end::{Careless, End, Packet, Wire};
use proptest::prelude::*;
use sovia_proto::Violation;
use sovia_proto::flow::{DACKS, Parameters};
use sovia_proto::packet::Kind;

/// The papers' parameters of the window, and two unusual ones.
const PARAMETERS: [Parameters; 5] = [
    Parameters { window: 1, threshold: 1 },
    Parameters { window: 32, threshold: 1 },
    DACKS,
    Parameters { window: 2, threshold: 2 },
    Parameters { window: 5, threshold: 3 },
];

/// Two ends, and the wires between them.
struct Stream {
    parameters: Parameters,
    ends: [End; 2],
    /// Wire `i` carries the packets of end `i`.
    wires: [Wire; 2],
}

impl Stream {
    fn new(parameters: Parameters, bytes: [&[u8]; 2], careless: Careless) -> Stream {
        let ends = bytes.map(|bytes| End::new(parameters, bytes, careless));
        Stream { parameters, ends, wires: Default::default() }
    }

    /// Runs one step. The lowest bit of `choice` selects the end, and the other bits its action.
    fn step(&mut self, choice: u8) -> Result<(), Violation> {
        let [a, b] = &mut self.wires;
        let who = usize::from(choice & 1);
        let (tx, rx) = if who == 0 { (a, b) } else { (b, a) };
        self.ends[who].step(choice >> 1, tx, rx)
    }

    /// Returns true if no end needs more receives than it has posted.
    fn fits(&self) -> bool {
        self.wires.iter().all(|wire| {
            let is_data = |p: &&Packet| p.immediate >> 24 == Kind::Data as u32;
            wire.ring.iter().filter(is_data).count() <= usize::from(self.parameters.window)
                && wire.ring.len() <= usize::from(self.parameters.receives())
        })
    }

    /// Runs a schedule, then pseudo-random steps of both ends until both have finished.
    fn run(&mut self, schedule: &[u8]) -> Result<(), String> {
        let afterwards = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
        for choice in schedule.iter().copied().chain(afterwards) {
            self.step(choice).map_err(|violation| violation.to_string())?;
            if !self.fits() {
                return Err("more packets on their way than receives".into());
            }
            if self.ends.iter().all(End::is_finished) {
                return Ok(());
            }
        }
        Err("the ends wait for each other".into())
    }
}

fn schedules() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // Single random steps, or runs in which one end works while the other computes.
        prop::collection::vec(any::<u8>(), 0..600),
        prop::collection::vec((any::<bool>(), 0usize..80, any::<u8>()), 0..12).prop_map(|runs| {
            let mut schedule = Vec::new();
            for (who, len, seed) in runs {
                let step = |n: usize| seed.wrapping_mul(31).wrapping_add((n * 97) as u8);
                schedule.extend((0..len).map(|n| step(n) & !1 | u8::from(who)));
            }
            schedule
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_received_in_order_and_both_ends_finish(
        parameters in prop::sample::select(&PARAMETERS[..]),
        there in prop::collection::vec(any::<u8>(), 0..300),
        back in prop::collection::vec(any::<u8>(), 0..300),
        schedule in schedules(),
    ) {
        let mut stream = Stream::new(parameters, [&there, &back], Careless::No);
        prop_assert_eq!(stream.run(&schedule), Ok(()));
        prop_assert_eq!(&stream.ends[1].received, &there);
        prop_assert_eq!(&stream.ends[0].received, &back);
    }

    /// Lets a hostile peer write arbitrary packets, and arbitrary counts of coalesced bytes.
    #[test]
    fn nonsense_is_a_violation_or_harmless(
        parameters in prop::sample::select(&PARAMETERS[..]),
        mine in prop::collection::vec(any::<u8>(), 0..100),
        schedule in prop::collection::vec(
            (any::<u8>(), prop::option::of((any::<u32>(), 0u8..7, 0usize..6, any::<u64>()))),
            0..300,
        ),
    ) {
        let mut end = End::new(parameters, &mine, Careless::No);
        let (mut tx, mut rx) = (Wire::default(), Wire::default());
        for (choice, hostile) in schedule {
            if let Some((bits, kind, len, word)) = hostile {
                // Mostly kinds that exist, with few acknowledgements.
                let immediate = if kind == 0 { bits } else { u32::from(kind) << 24 | bits & 3 };
                rx.ring.push_back(Packet { immediate, bytes: vec![0; len] });
                match word % 8 {
                    0 => rx.tail = word >> 3,
                    1 => rx.tail = (word >> 3) % 20,
                    2 => rx.after = (word >> 3) as u32 % 8,
                    3 => tx.head = word >> 3,
                    4 => rx.overflow_buffer.extend([0; 8]),
                    _ => {}
                }
            }
            if end.step(choice, &mut tx, &mut rx).is_err() {
                // A violation ends the connection, and has no other effect.
                return Ok(());
            }
            prop_assert!(end.flow.unacked() <= parameters.window);
            prop_assert!(end.flow.held() <= parameters.window);
        }
    }
}

/// Returns true if one of many random schedules makes a careless receiver read wrong bytes or fail.
fn goes_wrong(careless: Careless) -> bool {
    let bytes: Vec<u8> = (0..40).collect();
    let mut random = 1u64;
    (0..20_000).any(|_| {
        let schedule: Vec<u8> = (0..120)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 32) as u8
            })
            .collect();
        let mut stream = Stream::new(PARAMETERS[0], [&bytes, &[]], careless);
        stream.run(&schedule).is_err() || stream.ends[1].received != bytes
    })
}

#[test]
fn both_looks_of_a_receiver_are_needed() {
    assert!(goes_wrong(Careless::SecondLook), "FIN never overtook coalesced bytes");
    assert!(goes_wrong(Careless::After), "coalesced bytes never overtook packets");
    assert!(!goes_wrong(Careless::No));
}
