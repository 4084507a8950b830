//! The door for `fuzz/`: what a device hands over and what a peer tells. Only builds with `--cfg fuzzing` have it.

use crate::credit::{Allowance, RECEIVES};
use crate::packet::addresses;
use core::net::IpAddr;

/// Takes bytes apart as a packet. What is one is as long as it says, and of one version.
pub fn packet(bytes: &[u8]) {
    let version = bytes.first().map(|byte| byte >> 4);
    if let Ok(found) = addresses(bytes) {
        let at = |range: core::ops::Range<usize>| &bytes[range];
        let (of, source, destination) = match (found.source, found.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                (4, source.octets().to_vec(), destination.octets().to_vec())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                (6, source.octets().to_vec(), destination.octets().to_vec())
            }
            _ => panic!("two versions"),
        };
        assert_eq!(version, Some(of));
        let [from, to] = if of == 4 { [at(12..16), at(16..20)] } else { [at(8..24), at(24..40)] };
        assert_eq!((&*source, &*destination), (from, to));
    }
}

/// A peer tells counts, and messages are sent for as long as they allow it. None is sent for which the peer cannot have a receive, by what
/// it has told. A step is a count, or nothing: a message.
pub fn credit(steps: impl Iterator<Item = Option<u32>>) {
    let (mut allowance, mut sent, mut most) = (Allowance::default(), 0u64, 0u64);
    for step in steps {
        match step {
            Some(count) => {
                if allowance.told(count).is_ok() {
                    most += u64::from(count.wrapping_sub(most as u32));
                    assert!(most - sent <= RECEIVES as u64, "more than are posted at a time");
                }
            }
            None if allowance.is_there() => {
                allowance.use_one();
                sent += 1;
                assert!(sent <= most, "a message without a receive");
            }
            None => assert_eq!(sent, most),
        }
    }
}
