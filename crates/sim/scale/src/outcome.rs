//! Outcome of a scenario. Shares are in thousandths, so that no figure depends on a machine's rounding.

use core::time::Duration;

/// Outcome of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Time from the beginning to the arrival of the last message.
    pub took: Duration,
    /// Shortest possible time for the bytes that have arrived, in thousandths of the time taken. This is the busiest
    /// cable's share of useful bytes.
    pub goodput: u32,
    /// Goodput until nine tenths of the bytes had arrived, so without the messages that waited longest.
    pub bulk: u32,
    /// Jain's index of the flows' progress when half of all bytes had arrived, in thousandths. 1000 means equal
    /// progress.
    pub fairness: u32,
    /// Latency of messages.
    pub latency: Latency,
    /// Number of messages that arrived.
    pub arrived: u64,
    /// Number of messages sent in total.
    pub messages: u64,
    /// Counters of frames.
    pub frames: Frames,
    /// Number of ends that gave up their peer.
    pub given_up: u32,
    /// Number of flows that were neither complete nor given up when no event was left.
    pub stuck: u32,
    /// Memory of ends and nodes.
    pub state: State,
}

/// Outcome of a scenario over NICs and VIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViOutcome {
    /// Like [`Outcome::goodput`].
    pub goodput: u32,
    /// Latency of messages, from the post of the send until the receiver has seen its completion.
    pub latency: Latency,
    /// Number of messages that arrived.
    pub arrived: u64,
    /// Number of messages sent in total.
    pub messages: u64,
    /// Number of frames sent.
    pub frames: u64,
    /// Number of frames without room in a switch.
    pub overflowed: u64,
    /// Number of frames lost because a part had failed.
    pub cut: u64,
    /// Number of VIs in error because their peer does not answer.
    pub peer_died: u32,
    /// Number of VIs in error for any other reason.
    pub broken_otherwise: u32,
    /// Number of flows whose messages were all sent and acknowledged.
    pub done: u32,
    /// Number of VIs.
    pub vis: u32,
    /// Number of NICs.
    pub nics: u32,
}

/// Latency of messages in nanoseconds, from the sending call until the whole message has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// 50th percentile.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest latency.
    pub longest: u64,
}

/// Counters of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frames {
    /// Frames sent, including acknowledgements.
    pub sent: u64,
    /// Frames that repeat items sent before.
    pub again: u64,
    /// Repeated frames that were unnecessary, because nothing had been lost as far as senders know.
    pub mistaken: u64,
    /// Frames without room in a switch.
    pub overflowed: u64,
    /// Frames lost because a part had failed.
    pub cut: u64,
    /// Frames that a switch marked.
    pub marked: u64,
    /// Number of time-outs: an end got no answer and sent its oldest frame again.
    pub timeouts: u64,
    /// Largest number of bytes in one queue of a switch.
    pub queued: u64,
}

/// Largest memory of an end and of a node at a time in bytes, without the bytes of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// One end of a stream.
    pub end: u64,
    /// All ends of the node with the most memory.
    pub node: u64,
    /// All ends of the node with the most memory, when the run is over and every end is idle.
    pub idle_node: u64,
}

impl Latency {
    pub(crate) fn of(mut all: Vec<u64>) -> Latency {
        all.sort_unstable();
        let at = |thousandths: usize| {
            let place = (all.len() * thousandths).div_ceil(1000).max(1) - 1;
            all.get(place).copied().unwrap_or(0)
        };
        Latency { p50: at(500), p99: at(990), p999: at(999), longest: at(1000) }
    }
}

/// Returns Jain's index of some numbers, in thousandths.
pub(crate) fn fairness(rates: &[u64]) -> u32 {
    let sum: u128 = rates.iter().map(|&rate| u128::from(rate)).sum();
    let squares: u128 = rates.iter().map(|&rate| u128::from(rate).pow(2)).sum();
    let index = (sum * sum * 1000).checked_div(squares * rates.len() as u128);
    index.map_or(0, |index| index as u32)
}

/// Returns `part` of `whole` in thousandths.
pub(crate) fn thousandths(part: Duration, whole: Duration) -> u32 {
    let share = (part.as_nanos() * 1000).checked_div(whole.as_nanos());
    share.map_or(0, |share| u32::try_from(share).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_messages_that_there_were() {
        let latency = Latency::of((1..=1000).rev().collect());
        let expected = Latency { p50: 500, p99: 990, p999: 999, longest: 1000 };
        assert_eq!(latency, expected);
        let one = Latency { p50: 7, p99: 7, p999: 7, longest: 7 };
        assert_eq!((Latency::of(vec![7]), Latency::of(vec![])), (one, Latency::default()));
    }

    #[test]
    fn fairness_is_one_for_equal_rates_and_less_for_others() {
        assert_eq!(fairness(&[5; 9]), 1000);
        // One flow of ten has all bytes.
        assert_eq!(fairness(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 100);
        assert_eq!((fairness(&[1, 3]), fairness(&[])), (800, 0));
    }
}
