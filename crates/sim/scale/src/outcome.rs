//! What came of a scenario. Shares are in thousandths, so that no figure depends on how a machine rounds.

use core::time::Duration;

/// What came of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// From the beginning to the last message that arrived.
    pub took: Duration,
    /// The least that the network could have taken for the bytes that have arrived, in thousandths of what it took: the
    /// share of its rate that the busiest cable had of them.
    pub goodput: u32,
    /// The same until nine tenths of the bytes had arrived: without what waited longest.
    pub bulk: u32,
    /// Jain's index of how much of each flow had arrived when half of all bytes had, in thousandths: 1000 if of each the
    /// same.
    pub fairness: u32,
    /// How long messages took.
    pub latency: Latency,
    /// Messages that arrived, and how many there were to be.
    pub arrived: u64,
    /// How many there were to be.
    pub messages: u64,
    /// What has become of frames.
    pub frames: Frames,
    /// Ends that gave their peer up.
    pub given_up: u32,
    /// Flows that were neither done nor given up, though nothing was on its way any more.
    pub stuck: u32,
    /// What ends and nodes kept.
    pub state: State,
}

/// What came of a scenario over NICs and their VIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViOutcome {
    /// As [`Outcome::goodput`].
    pub goodput: u32,
    /// How long messages took, from the post of the send until the receiver has seen its completion.
    pub latency: Latency,
    /// Messages that arrived.
    pub arrived: u64,
    /// How many there were to be.
    pub messages: u64,
    /// Frames that were sent.
    pub frames: u64,
    /// Those that a switch had no room for.
    pub overflowed: u64,
    /// Those that were lost because something had failed.
    pub cut: u64,
    /// VIs that are in error because their peer does not answer.
    pub peer_died: u32,
    /// VIs that are in error for any other reason.
    pub broken_otherwise: u32,
    /// Flows all of whose messages were sent and acknowledged.
    pub done: u32,
    /// All VIs.
    pub vis: u32,
    /// All NICs.
    pub nics: u32,
}

/// How long messages took, from the call that sends one until all of it is there; in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Of a hundred messages, 50 took no longer.
    pub p50: u64,
    /// 99 of a hundred.
    pub p99: u64,
    /// 999 of a thousand.
    pub p999: u64,
    /// The longest.
    pub longest: u64,
}

/// What has become of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frames {
    /// All that were sent, acknowledgements included.
    pub sent: u64,
    /// Those that carried what had been sent before.
    pub again: u64,
    /// Of these, how many were sent again though nothing had been lost, as far as senders know.
    pub mistaken: u64,
    /// Those that a switch had no room for.
    pub overflowed: u64,
    /// Those that were lost because something had failed.
    pub cut: u64,
    /// Those that a switch marked.
    pub marked: u64,
    /// How often an end heard nothing for so long that it sent the oldest frame again.
    pub timeouts: u64,
    /// The most bytes in one queue of a switch.
    pub queued: u64,
}

/// The most bytes of memory that an end and a node had at a time, bytes of messages not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// One end of a stream.
    pub end: u64,
    /// All ends of the node that had the most.
    pub node: u64,
    /// The same when all is over, and every end idle.
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

/// Jain's index of numbers, in thousandths.
pub(crate) fn fairness(rates: &[u64]) -> u32 {
    let sum: u128 = rates.iter().map(|&rate| u128::from(rate)).sum();
    let squares: u128 = rates.iter().map(|&rate| u128::from(rate).pow(2)).sum();
    let index = (sum * sum * 1000).checked_div(squares * rates.len() as u128);
    index.map_or(0, |index| index as u32)
}

/// A part of a whole, in thousandths.
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
        // One of ten has everything.
        assert_eq!(fairness(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 100);
        assert_eq!((fairness(&[1, 3]), fairness(&[])), (800, 0));
    }
}
