//! Tests of frames that the network has joined.

use crate::channel::Channel;
use crate::wire::Checksum;
use crate::{Config, Time};
use core::time::Duration;
use proptest::prelude::*;

const CONFIG: Config = Config {
    mtu: 100,
    window: 32,
    control: crate::Control::Fixed,
    send_buffer: 64,
    receive_buffer: 2000,
    message_max: 2000,
    link: Checksum::Link,
    sends: Checksum::Link,
    retransmit_first: Duration::from_millis(1),
    retransmit_longest: Duration::from_millis(8),
};

/// Passes in frames like a network that joins frames of one length. The last of them may be shorter.
fn hand_over(frames: &[Vec<u8>], to: &mut Channel, now: Time) {
    let mut rest = frames;
    while let Some(first) = rest.first() {
        let segment = first.len();
        let alike = rest.iter().take_while(|frame| frame.len() == segment).count();
        let shorter = rest.get(alike).is_some_and(|frame| frame.len() < segment);
        let (joined, later) = rest.split_at(alike + usize::from(shorter));
        to.handle_frames(now, &joined.concat(), segment);
        rest = later;
    }
}

proptest! {
    /// Any of the frames may be lost.
    #[test]
    fn messages_arrive_whole_and_in_order(
        lengths in prop::collection::vec(0usize..1500, 1..20),
        lost in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let mut ends = [Channel::between(CONFIG, 1, 2, 3), Channel::between(CONFIG, 1, 3, 2)];
        let message = |n: usize| (0..lengths[n]).map(|i| (i * 7 + n) as u8).collect::<Vec<u8>>();
        let (mut sent, mut came, mut now, mut frame) = (0, 0, 0, Vec::new());
        let mut lost = lost.into_iter();
        while came < lengths.len() {
            while sent < lengths.len() && ends[0].send(&message(sent)).is_ok() {
                sent += 1;
            }
            for from in [0, 1] {
                let at = Time::from_nanos(now);
                ends[from].handle_timeout(at);
                let mut frames = Vec::new();
                while ends[from].poll_transmit(at, &mut frame) {
                    if lost.next() != Some(true) {
                        frames.push(frame.clone());
                    }
                }
                hand_over(&frames, &mut ends[1 - from], at);
            }
            while ends[1].poll_message(&mut frame) {
                prop_assert_eq!(&frame, &message(came));
                came += 1;
            }
            now += 200_000;
            prop_assert!(now < 60_000_000_000, "nothing arrives any more");
        }
        let counters = ends[1].counters();
        prop_assert_eq!((counters.malformed, counters.refused, counters.stale), (0, 0, 0));
    }
}
