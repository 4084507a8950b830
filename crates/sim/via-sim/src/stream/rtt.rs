//! How long to wait for an acknowledgement.

use core::time::Duration;

/// The limits of retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    /// The first wait, and the shortest.
    pub(crate) first: Duration,
    /// The longest.
    pub(crate) longest: Duration,
    /// Retransmissions in a row, without any progress, before the far side is given up.
    pub(crate) tries: u32,
}

/// The round trip as measured: its mean, and how much it varies.
#[derive(Debug)]
pub(crate) struct Rtt {
    mean: Option<Duration>,
    variation: Duration,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt { mean: None, variation: Duration::ZERO }
    }

    /// Another round trip. Of frames that were sent once only: with others one cannot know which
    /// sending was answered.
    pub(crate) fn measured(&mut self, sample: Duration) {
        match self.mean {
            None => {
                self.mean = Some(sample);
                self.variation = sample / 2;
            }
            Some(mean) => {
                self.variation = (self.variation * 3 + mean.abs_diff(sample)) / 4;
                self.mean = Some((mean * 7 + sample) / 8);
            }
        }
    }

    /// How long to wait after `tries` retransmissions without an answer.
    pub(crate) fn wait(&self, timing: &Timing, tries: u32) -> Duration {
        let measured = self.mean.map_or(Duration::ZERO, |mean| mean + self.variation * 4);
        let first = measured.max(timing.first);
        first.saturating_mul(1 << tries.min(16)).min(timing.longest.max(timing.first))
    }
}
