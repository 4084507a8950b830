//! Properties that hold on any path.

use super::*;
use crate::stream::control::{Acked, Sample};
use core::time::Duration;
use proptest::prelude::*;
use std::collections::VecDeque;

const FRAME: u32 = 1500;

/// The next event; the tests pair each with a delay in nanoseconds.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Sends a frame, if one may be sent.
    Send,
    /// The oldest frame in flight has arrived.
    Arrive,
    /// The oldest frame in flight is lost.
    Lose,
    /// The sender has waited too long for an answer.
    TimeOut,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        6 => Just(Step::Send),
        3 => Just(Step::Arrive),
        2 => Just(Step::Lose),
        1 => Just(Step::TimeOut),
    ];
    let nanos = prop_oneof![0u64..1_000, 10_000u64..100_000, 1_000_000u64..1_000_000_000];
    proptest::collection::vec((step, nanos), 1..400)
}

proptest! {
    /// After any arrival, a frame waits at most for the quantum before it at the current pace, and not at an earlier
    /// pace.
    #[test]
    fn next_frame_never_waits_longer_than_the_pace_requires(steps in steps()) {
        let mut bbr = Bbr::new(FRAME);
        let (mut now, mut in_flight, mut transmission) = (Time::ZERO, 0u64, 0);
        let mut flying = VecDeque::new();
        for (step, nanos) in steps {
            now = now.after(Duration::from_nanos(nanos));
            match step {
                Step::Send if bbr.next_at() <= now && in_flight < bbr.window() => {
                    let snapshot = bbr.sent(FRAME.into(), in_flight, now);
                    flying.push_back(Sample { transmission, sent_at: now, snapshot });
                    transmission += 1;
                    in_flight += u64::from(FRAME);
                }
                Step::Send => {}
                Step::TimeOut => bbr.timed_out(),
                Step::Arrive | Step::Lose => {
                    let Some(sample) = flying.pop_front() else { continue };
                    let in_flight_before = in_flight;
                    in_flight -= u64::from(FRAME);
                    if matches!(step, Step::Lose) {
                        bbr.lost(&sample.snapshot, FRAME.into());
                        continue;
                    }
                    let rtt = Some(now.since(sample.sent_at).as_nanos() as u64);
                    let (bytes, sample) = (FRAME.into(), Some(sample));
                    bbr.acknowledged(&Acked { now, bytes, in_flight_before, in_flight, sample, rtt });
                    let wait = bbr.next_at().since(now);
                    let pace = bbr.pacer.longest_wait();
                    prop_assert!(wait <= Duration::from_nanos(pace + 1), "{wait:?} for {pace} ns");
                }
            }
        }
    }
}
