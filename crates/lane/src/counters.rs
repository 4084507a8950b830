//! What has become of packets.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $text:literal),+ $(,)?) => {
        /// How many packets, since the lane was started.
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

        /// `12 packets sent, 3 received`, and for each reason to drop some how many.
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
    /// Received from peers, and given to the device.
    received: "received",
    /// To more than one station.
    for_many: "multicasts and broadcasts dropped",
    /// To an address that no peer has.
    no_peer: "dropped because no peer has their address",
    /// To a peer for which too many waited.
    no_room: "dropped because too many packets waited for the peer",
    /// To a peer that could not be reached, or was gone.
    unreachable: "dropped because the peer had no connection",
    /// Of the device's, that are none, or longer than the lane takes.
    odd: "dropped because the device sent them invalid or too long",
    /// Of a peer's, that are none.
    malformed: "dropped because a peer sent them invalid",
    /// Of a peer's, from an address that is not the peer's.
    foreign: "dropped because the peer does not have their source address",
    /// Of a peer's, that the device has not taken.
    refused: "refused by the device",
    /// Requests for connections of stations that are no peers, or that broke the rules.
    strangers: "requests from stations that are not peers",
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    count_all(counter, 1);
}

/// Counts so many more.
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
