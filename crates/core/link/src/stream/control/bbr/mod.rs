//! BBR after draft-ietf-ccwg-bbr (version 3 of the algorithm). Section numbers refer to the draft. All values are in
//! bytes, nanoseconds and integers.
//!
//! Differences from the draft:
//!
//! - **The long-term bound is CUBIC's window** (RFC 9438). The draft (5.3.3.6) raises the bound exponentially about
//!   every second. A competing TCP would get only a tenth, where a queue holds no more than the path does. Here a loss
//!   lowers the bound to 0.7 of the bytes in flight, but not below what the path delivers. The loss counts in every
//!   phase, if the queue was nearly as long as the longest recent queue. After that the bound grows like CUBIC's
//!   window. Beyond the window of the last congestion, without a standing queue, the bound grows by a quarter each
//!   round. There the path has become wider, or other streams have ended. So there is no headroom (5.6.4.7) either.
//! - Any other loss counts as random, as in TCP Veno (IEEE JSAC 2003). Exception: a round that lost more than
//!   `LossThresh` of its bytes, and some frames more, lowers the short-term bounds. (In 5.5.10 any loss lowers them.
//!   Steady random loss below the threshold would lower them every round.)
//! - Where a queue stands between probes, the window is 1.5 times what the path holds instead of twice.
//! - A quantum may be longer than 64 KB. Recovery does not limit the window to the arriving bytes, because pacing
//!   bounds bursts. The random waits between probes derive from the number of delivered bytes, so that runs can be
//!   repeated.
//!
//! Modules:
//!
//! - `cycle`: the phases and their transitions;
//! - `bounds`: limits on the bytes in flight that follow from losses;
//! - `curve`: CUBIC's window as a function of time;
//! - `queue`: detects a standing queue.

mod bounds;
mod curve;
mod cycle;
mod queue;

use super::filters::{Aggregate, Highest, Shortest};
use super::pacer::Pacer;
use super::proportion;
use super::rate::{Acked, Delivery, Rate, Snapshot};
use crate::Time;
use bounds::Bounds;
use cycle::{Cycle, Phase};
use queue::Queue;

/// Frames of the first window (RFC 6928), and of the smallest window.
const FIRST_FRAMES: u64 = 10;
const LEAST_FRAMES: u64 = 4;
/// Nanoseconds of a round trip before the first measurement.
const FIRST_RTT: u64 = 1_000_000;
/// Number of quanta that the window holds at least (section 5.6.4.2: `BBRUpdateOffloadBudget`).
const QUANTA: u64 = 3;

/// State of a stream that BBR controls.
#[derive(Debug)]
pub(in crate::stream) struct Bbr {
    /// Bytes of the longest frame.
    frame: u64,
    delivery: Delivery,
    highest: Highest,
    shortest: Shortest,
    aggregate: Aggregate,
    bounds: Bounds,
    queue: Queue,
    cycle: Cycle,
    /// Number of rounds so far, and the count of delivered bytes at which the next round begins.
    round: u64,
    round_ends: u64,
    begins_round: bool,
    /// Largest number of bytes in flight.
    window: u64,
    /// Window before it was reduced temporarily; zero if it was not.
    window_before: u64,
    pacer: Pacer,
    /// Set when sending resumes after a pause.
    restarts: bool,
}

impl Bbr {
    pub(in crate::stream) fn new(frame: u32) -> Bbr {
        let frame = u64::from(frame.max(1));
        let window = FIRST_FRAMES * frame;
        Bbr {
            frame,
            delivery: Delivery::default(),
            highest: Highest::default(),
            shortest: Shortest::new(),
            aggregate: Aggregate::default(),
            bounds: Bounds::new(),
            queue: Queue::new(),
            cycle: Cycle::new(),
            round: 0,
            round_ends: 0,
            begins_round: false,
            window,
            window_before: 0,
            pacer: Pacer::new(frame, first_pace(frame, FIRST_RTT)),
            restarts: false,
        }
    }

    pub(in crate::stream) fn window(&self) -> u64 {
        self.window
    }

    pub(in crate::stream) fn next_at(&self) -> Time {
        self.pacer.next_at()
    }

    pub(in crate::stream) fn sent(&mut self, bytes: u64, in_flight: u64, now: Time) -> Snapshot {
        if in_flight == 0 && self.delivery.is_starved() {
            self.restarts = true;
            if self.cycle.phase.is_probing_bandwidth() {
                self.pace_by(1 << 8);
            }
        }
        self.pacer.sent(bytes, now);
        self.delivery.sent(bytes, in_flight, now)
    }

    pub(in crate::stream) fn starved(&mut self, in_flight: u64) {
        self.delivery.starved(in_flight);
    }

    pub(in crate::stream) fn timed_out(&mut self) {
        self.window_before = self.window_before.max(self.window);
        self.window = LEAST_FRAMES * self.frame;
    }

    /// Returns the estimated rate of the path, in bytes per second.
    fn rate(&self) -> u64 {
        self.highest.value().min(self.bounds.short_rate)
    }

    /// Returns the number of bytes that the path holds at `rate`.
    fn product(&self, rate: u64) -> u64 {
        let Some(rtt) = self.shortest.value() else { return FIRST_FRAMES * self.frame };
        proportion(rate, rtt, 1_000_000_000)
    }

    /// Returns the least number of bytes in flight that keeps the path busy despite delayed acknowledgements and quanta
    /// (section 5.6.4.2).
    fn inflight(&self, rate: u64, gain: u64) -> u64 {
        let bytes = scaled(self.product(rate), gain);
        let bytes = bytes.max(QUANTA * self.pacer.quantum()).max(LEAST_FRAMES * self.frame);
        if self.cycle.phase == Phase::Up { bytes + 2 * self.frame } else { bytes }
    }

    pub(in crate::stream) fn acknowledged(&mut self, acked: &Acked) {
        let had_rtt = self.shortest.value().is_some();
        let rate = acked.sample.map(|sample| {
            let shortest = acked.rtt.unwrap_or(u64::MAX).min(self.shortest.value().unwrap_or(0));
            self.delivery.arrived(acked, &sample, shortest)
        });
        if let Some(rtt) = acked.rtt {
            self.queue.measured(rtt, acked.now);
        }
        if let Some(rate) = &rate {
            self.learn(rate, acked);
        }
        let seeks = self.shortest.add(acked.rtt, acked.now);
        if !had_rtt && let Some(rtt) = self.shortest.value() {
            self.pacer.pace(first_pace(self.frame, rtt));
        }
        self.seek_shortest(seeks, acked);
        if rate.is_some() {
            self.restarts = false;
        }
        self.pace_by(self.cycle.phase.pacing_gain());
        self.resize(acked);
        self.pacer.arrived(acked.now);
    }

    /// Updates the model of the path with a measurement.
    fn learn(&mut self, rate: &Rate, acked: &Acked) {
        self.begins_round = rate.prior_delivered >= self.round_ends;
        if self.begins_round {
            self.round += 1;
            self.queue.round_passed();
            self.begin_round();
            self.cycle.round_passed();
        }
        if rate.rate > 0 && (rate.rate >= self.highest.value() || !rate.is_starved) {
            self.highest.add(rate.rate);
        }
        self.adapt_short(rate);
        let (round, limit) = ((self.round, acked.now), self.window);
        self.aggregate.add(acked.bytes, self.rate(), round, limit);
        self.look_for_full_rate(rate);
        self.leave_startup(acked);
        self.advance_cycle(rate, acked);
        self.bounds.end_round(rate);
    }

    fn begin_round(&mut self) {
        self.round_ends = self.delivery.delivered;
    }

    /// Paces at the path's rate times `gain` (in 256ths), less one percent. The one percent lets queues become empty.
    fn pace_by(&mut self, gain: u64) {
        let rate = self.rate();
        if rate == 0 {
            return;
        }
        let pacing = scaled(rate, gain) / 100 * 99;
        if self.cycle.is_full || pacing > self.pacer.rate() {
            self.pacer.pace(pacing);
        }
    }

    /// Computes the window after an acknowledgement (section 5.6.4).
    fn resize(&mut self, acked: &Acked) {
        let shortest = self.shortest.value().unwrap_or(u64::MAX);
        let gain = self.cycle.phase.window_gain(self.queue.stands(shortest));
        let wanted = self.inflight(self.rate(), gain);
        let wanted = wanted.saturating_add(self.aggregate.most());
        if self.window_before > self.window && self.cycle.phase != Phase::SeekShortest {
            // An arrival after a time-out restores the window.
            if acked.bytes > 0 {
                self.window = core::mem::take(&mut self.window_before);
            }
        }
        let first = FIRST_FRAMES * self.frame;
        if self.cycle.is_full {
            self.window = (self.window + acked.bytes).min(wanted);
        } else if self.window < wanted || self.delivery.delivered < first {
            self.window += acked.bytes;
        }
        let least = LEAST_FRAMES * self.frame;
        self.window = self.window.min(self.limit()).max(least);
    }

    /// Returns the window that the bounds allow in this phase (section 5.6.4.7).
    fn limit(&self) -> u64 {
        let long = match self.cycle.phase {
            Phase::Startup | Phase::Drain => u64::MAX,
            Phase::SeekShortest => self.bounds.long.min(self.seeking_window()),
            _ => self.bounds.long,
        };
        long.min(self.bounds.short)
    }
}

/// Returns the first window per round trip, times the gain of Startup.
fn first_pace(frame: u64, rtt: u64) -> u64 {
    let rate = u128::from(FIRST_FRAMES * frame) * 1_000_000_000 / u128::from(rtt.max(1));
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    scaled(rate, Phase::Startup.pacing_gain())
}

/// Multiplies a number by a gain in 256ths.
fn scaled(value: u64, gain: u64) -> u64 {
    u64::try_from((u128::from(value) * u128::from(gain)) >> 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
