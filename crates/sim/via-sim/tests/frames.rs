//! Tests of frames that become corrupt on their way.

use crate::common::{RELIABLE, open, pair, seeds};
use core::time::Duration;
use via_sim::{Config, Link, Network};

/// The receiving node detects each corrupt frame, and only this frame is lost.
#[test]
fn corrupt_frames_are_counted_and_sent_again() {
    seeds(20, |seed| {
        let latency = Duration::from_micros(10);
        let link = Link { corrupt: 0.2, latency, ..Link::perfect() };
        let network = Network::new(seed, Config { mtu: 500, ..Config::default().over(link) });
        let level = RELIABLE[(seed % 2) as usize];
        let [(_a, a), (_b, b)] = pair(&network, 1 << 16, open(level));
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n * n / 8) as u8).collect();
        a.write(0, &bytes);
        b.post_recv(0, 0, bytes.len());
        a.post_send(0, 0, bytes.len(), None);
        network.run();
        let received = b.received();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].result(), Ok(20_000));
        assert!(b.bytes(0, bytes.len()) == bytes);
        let corrupt = network.counters().corrupt;
        assert!(corrupt > 5, "{corrupt} of some 100");
        assert_eq!(network.malformed(), corrupt);
    });
}
