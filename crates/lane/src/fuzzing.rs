//! Entry points for `fuzz/`: packets from a device and counts from a peer. Only builds with `--cfg fuzzing` have
//! them.

use crate::credit::{Allowance, RECEIVES};
use crate::packet::addresses;
use core::net::IpAddr;

/// Parses bytes as a packet. A valid packet has one IP version, and its addresses are those of the header.
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

/// Runs a sender against the counts of a peer. A step is a count, or `None` to send a message.
///
/// The sender must never send a message for which the peer's counts promise no receive.
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
