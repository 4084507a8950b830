//! Counters of packets, by result.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $text:literal),+ $(,)?) => {
        /// Numbers of packets since the start of the lane.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: AtomicU64,)+
        }

        impl Counts {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }

        /// Writes `12 packets sent, 3 received`, then each other counter that is not 0.
        impl fmt::Display for Counters {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut between = "";
                $(if self.$name > 0 || ["sent", "received"].contains(&stringify!($name)) {
                    write!(f, "{between}{} {}", self.$name, $text)?;
                    between = ", ";
                })+
                let _ = between;
                Ok(())
            }
        }
    };
}

counters! {
    /// Sent to peers.
    sent: "packets sent",
    /// Received from peers and given to the device.
    received: "received",
    /// Dropped: addressed to more than one station.
    for_many: "multicasts and broadcasts dropped",
    /// Dropped: no peer has the destination address.
    no_peer: "dropped because no peer has their address",
    /// Dropped: too many packets waited for the peer.
    no_room: "dropped because too many packets waited for the peer",
    /// Dropped: the peer could not be reached, or its connection ended.
    unreachable: "dropped because the peer had no connection",
    /// Dropped: the device supplied an invalid packet or one longer than the MTU.
    odd: "dropped because the device sent them invalid or too long",
    /// Dropped: a peer sent an invalid packet.
    malformed: "dropped because a peer sent them invalid",
    /// Dropped: a peer sent a packet with a source address that the peer does not have.
    foreign: "dropped because the peer does not have their source address",
    /// Dropped: the device refused a packet from a peer.
    refused: "refused by the device",
    /// Connection requests refused: from stations that are not peers, or with parameters that do not fit.
    strangers: "requests from stations that are not peers",
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    count_all(counter, 1);
}

/// Adds `many` to a counter.
pub(crate) fn count_all(counter: &AtomicU64, many: usize) {
    counter.fetch_add(many as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_without_a_packet_are_not_shown() {
        let counts = Counts::default();
        count_all(&counts.sent, 12);
        assert_eq!(counts.read().to_string(), "12 packets sent, 0 received");
        count(&counts.no_peer);
        let text = counts.read().to_string();
        assert_eq!(
            text,
            "12 packets sent, 0 received, 1 dropped because no peer has their address"
        );
    }
}
