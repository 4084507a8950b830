//! Behaviour of a link.

use core::time::Duration;

/// Behaviour of a link in one direction. Probabilities are per packet, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Shortest time that a packet takes.
    pub latency: Duration,
    /// Upper bound of a random time that is added. By itself it does not change the order of packets.
    pub jitter: Duration,
    /// Bytes per second. Packets wait for those before them. `None`: no limit.
    pub bandwidth: Option<u64>,
    /// Largest number of bytes that wait for a link with a bandwidth. A packet without room is lost. `None`: no limit.
    pub queue: Option<u64>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet arrives corrupt ([`crate::Delivery::corrupt`]).
    pub corrupt: f64,
    /// Probability that later packets may overtake a packet.
    pub reorder: f64,
    /// Upper bound of the random delay of a packet that may be overtaken.
    pub reorder_delay: Duration,
}

impl Link {
    /// Makes a link with a latency of 10 µs and without faults.
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

    /// Makes a link of 1 GB/s on which every fault has the same probability, and packets are up to 200 µs late.
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

    /// Returns the time for which `bytes` occupy the link.
    pub(crate) fn occupied(&self, bytes: u32) -> Duration {
        match self.bandwidth {
            None => Duration::ZERO,
            Some(bandwidth) => {
                Duration::from_nanos(u64::from(bytes) * 1_000_000_000 / bandwidth.max(1))
            }
        }
    }

    /// Returns true if the link's queue has room for a packet. `busy` is the time that the waiting packets take.
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
