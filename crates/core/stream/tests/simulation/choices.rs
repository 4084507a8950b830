//! Random choices that depend on a seed.

use core::time::Duration;
use sovia_stream::Configuration;
use sovia_stream::configuration::{Combine, Handling, Handshake, PRESETS, Transfer};

/// A splitmix64 generator.
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Choices {
        Choices(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn micros(&mut self, below: usize) -> Duration {
        Duration::from_micros(self.below(below) as u64)
    }

    /// Returns a length: mostly small, sometimes several packets.
    pub(crate) fn length(&mut self) -> usize {
        match self.below(4) {
            0 => 1 + self.below(3),
            1 => 1 + self.below(5_000),
            _ => 1 + self.below(400),
        }
    }

    /// Returns a configuration. Both ends of a stream must have the same handshake.
    pub(crate) fn configuration(&mut self, handshake: Handshake) -> Configuration {
        let (_, preset) = PRESETS[self.below(PRESETS.len())];
        let mut configuration = Configuration {
            // Not the handler: it is a thread, so a seed does not determine its steps.
            handling: if self.once_in(3) { Handling::Notify } else { Handling::Single },
            handshake,
            chunk: 64 + self.below(1500) as u32,
            ..preset
        };
        let chunk = configuration.chunk;
        if let Transfer::Hybrid { threshold } = &mut configuration.transfer {
            *threshold = chunk / 3;
        }
        configuration.flow.window = 1 + self.below(9) as u16;
        configuration.flow.threshold =
            1 + self.below(usize::from(configuration.flow.window)) as u16;
        configuration.combine =
            preset.combine.map(|combine| Combine { below: chunk / 2, ..combine });
        if handshake.asks() {
            (configuration.flow.window, configuration.flow.threshold) = (1, 1);
            configuration.combine = None;
        }
        configuration
    }
}
