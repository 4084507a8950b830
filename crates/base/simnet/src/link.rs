//! What a link does to packets.

use core::time::Duration;

/// The behaviour of a link in one direction. Probabilities are for each packet, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// How long a packet takes at least.
    pub latency: Duration,
    /// A random time below this is added. Alone, it does not change the order of packets.
    pub jitter: Duration,
    /// Bytes per second; packets wait for those before them. `None`: no limit.
    pub bandwidth: Option<u64>,
    /// Bytes that wait for the link at most, where it has a bandwidth: a packet for which there is no room is lost.
    /// `None`: no limit.
    pub queue: Option<u64>,
    /// The probability of a packet's loss.
    pub loss: f64,
    /// The probability that a packet arrives twice.
    pub duplicate: f64,
    /// The probability that a packet arrives corrupt ([`crate::Delivery::corrupt`]).
    pub corrupt: f64,
    /// The probability that later packets may overtake a packet.
    pub reorder: f64,
    /// A packet that may be overtaken is late by a random time below this.
    pub reorder_delay: Duration,
}

impl Link {
    /// Ten microseconds, and nothing ever goes wrong.
    pub const fn perfect() -> Link {
        Link {
            latency: Duration::from_micros(10),
            jitter: Duration::ZERO,
            bandwidth: None,
            queue: None,
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            reorder_delay: Duration::ZERO,
        }
    }

    /// Every fault with the same probability, packets up to 200 microseconds late, and 1 GB/s.
    pub const fn faulty(probability: f64) -> Link {
        Link {
            latency: Duration::from_micros(10),
            jitter: Duration::from_micros(5),
            bandwidth: Some(1_000_000_000),
            queue: None,
            loss: probability,
            duplicate: probability,
            corrupt: probability,
            reorder: probability,
            reorder_delay: Duration::from_micros(200),
        }
    }

    /// How long `bytes` occupy the link.
    pub(crate) fn occupied(&self, bytes: u32) -> Duration {
        match self.bandwidth {
            None => Duration::ZERO,
            Some(bandwidth) => {
                Duration::from_nanos(u64::from(bytes) * 1_000_000_000 / bandwidth.max(1))
            }
        }
    }

    /// Whether a packet has room in the queue of a link that is busy for so long still.
    pub(crate) fn has_room(&self, bytes: u32, busy: Duration) -> bool {
        let (Some(bandwidth), Some(queue)) = (self.bandwidth, self.queue) else { return true };
        let waiting = u128::from(bandwidth) * busy.as_nanos() / 1_000_000_000;
        waiting + u128::from(bytes) <= u128::from(queue)
    }
}

impl Default for Link {
    fn default() -> Link {
        Link::perfect()
    }
}
