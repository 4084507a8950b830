//! Random choices from a seed.

use core::time::Duration;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The only source of randomness in a network.
#[derive(Debug)]
pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns true with the given probability. Draws no number if the result is certain.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        // 53 bits: the number of bits that a float between 0 and 1 can distinguish.
        let drawn = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        drawn < probability
    }

    /// Returns a random duration below `limit`; zero if `limit` is zero.
    pub(crate) fn below(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return Duration::ZERO;
        }
        // The modulo's bias is below one in a billion for any realistic delay.
        Duration::from_nanos(self.0.next_u64() % nanos)
    }
}
