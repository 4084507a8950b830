//! BBR as draft-ietf-ccwg-bbr (version 3 of the algorithm) describes it; sections are the draft's. All in bytes,
//! nanoseconds and integers.
//!
//! What differs: loss lowers the short-term bounds only in a round that lost more than `LossThresh` of what it
//! delivered and some frames more, or in which a queue stood, so that every round trip was longer by half than the shortest
//! (5.5.10 has any loss do so, by which steady random loss below the threshold would lower them
//! round by round); where a queue stands between probes the window is 1.5 times what the path holds, and not twice; a quantum
//! may be longer than 64 KB; recovery does not limit the window to what arrives, as pacing bounds bursts; and the waits between
//! probes, which are random there, follow from the bytes delivered, so that runs can be repeated.
//!
//! - `cycle`: the phases, and when they change;
//! - `bounds`: what losses say about how much may be on its way.

mod bounds;
mod cycle;

use super::filters::{Aggregate, Highest, Shortest};
use super::proportion;
use super::rate::{Acked, Delivery, Rate, Snapshot};
use crate::Time;
use bounds::Bounds;
use cycle::{Cycle, Phase};

/// Frames of the first window (RFC 6928), and of the smallest.
const FIRST_FRAMES: u64 = 10;
const LEAST_FRAMES: u64 = 4;
/// A round trip where none has been measured (nanoseconds).
const FIRST_RTT: u64 = 1_000_000;
/// A quantum, which goes at once, is what the pace sends in so many nanoseconds, at least two frames: the port hands it to the
/// kernel in few system calls, and a timer goes off for each quantum and not for each frame. (Section 5.6.3 has a
/// millisecond and at most 64 KB; where a path is fast that would be a timer each few microseconds.)
const QUANTUM_NANOS: u64 = 250_000;
/// What a timer that goes off too late has left out is made good, up to what the pace sends in so many nanoseconds.
const LATE_NANOS: u64 = 1_000_000;
/// Bytes of the largest quantum.
const QUANTUM_MAX: u64 = 1 << 20;
/// Quanta that the window holds at least (section 5.6.4.2: `BBRUpdateOffloadBudget`).
const QUANTA: u64 = 3;

/// The state of a stream that BBR controls.
#[derive(Debug)]
pub(in crate::stream) struct Bbr {
    /// Bytes of the longest frame.
    frame: u64,
    delivery: Delivery,
    highest: Highest,
    shortest: Shortest,
    aggregate: Aggregate,
    bounds: Bounds,
    cycle: Cycle,
    /// Rounds so far, and at which count of delivered bytes the next begins.
    round: u64,
    round_ends: u64,
    begins_round: bool,
    /// Bytes that may be on their way.
    window: u64,
    /// What it was before it was made small for a while.
    window_before: u64,
    /// Bytes per second, bytes that go at once, and how long the pace takes for these (nanoseconds).
    pacing: u64,
    quantum: u64,
    quantum_nanos: u64,
    /// When the pace sends the next frame, and when it really goes: together with the rest of a quantum.
    paced_at: Time,
    next_at: Time,
    /// Something is sent again after a pause.
    restarts: bool,
}

impl Bbr {
    pub(in crate::stream) fn new(frame: u32) -> Bbr {
        let frame = u64::from(frame.max(1));
        let window = FIRST_FRAMES * frame;
        let mut bbr = Bbr {
            frame,
            delivery: Delivery::default(),
            highest: Highest::default(),
            shortest: Shortest::new(),
            aggregate: Aggregate::default(),
            bounds: Bounds::new(),
            cycle: Cycle::new(),
            round: 0,
            round_ends: 0,
            begins_round: false,
            window,
            window_before: 0,
            pacing: 0,
            quantum: 0,
            quantum_nanos: 0,
            paced_at: Time::ZERO,
            next_at: Time::ZERO,
            restarts: false,
        };
        bbr.first_pace(FIRST_RTT);
        bbr
    }

    pub(in crate::stream) fn window(&self) -> u64 {
        self.window
    }

    pub(in crate::stream) fn next_at(&self) -> Time {
        self.next_at
    }

    /// Twice the first window per round trip, times the gain of the start.
    fn first_pace(&mut self, rtt: u64) {
        let rate = u128::from(FIRST_FRAMES * self.frame) * 1_000_000_000 / u128::from(rtt.max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.pace(scaled(rate, Phase::Startup.pacing_gain()));
    }

    fn pace(&mut self, rate: u64) {
        // A rate of zero would never send the frame that measures a higher one.
        let rate = rate.max(self.frame);
        if rate == self.pacing {
            return;
        }
        self.pacing = rate;
        let quantum = proportion(self.pacing, QUANTUM_NANOS, 1_000_000_000);
        let least = 2 * self.frame;
        self.quantum = quantum.clamp(least, QUANTUM_MAX.max(least));
        self.quantum_nanos = self.nanos(self.quantum);
    }

    /// How long the pace takes for so many bytes.
    fn nanos(&self, bytes: u64) -> u64 {
        // Bytes of one frame or of a quantum: no overflow.
        bytes * 1_000_000_000 / self.pacing
    }

    pub(in crate::stream) fn sent(&mut self, bytes: u64, in_flight: u64, now: Time) -> Snapshot {
        if in_flight == 0 && self.delivery.is_starved() {
            self.restarts = true;
            if self.cycle.phase.is_probing_bandwidth() {
                self.pace_by(1 << 8);
            }
        }
        let quantum = self.quantum_nanos;
        let earliest = Time::from_nanos(now.nanos().saturating_sub(quantum.max(LATE_NANOS)));
        let from = self.paced_at.max(earliest).nanos();
        let took = self.nanos(bytes);
        self.paced_at = Time::from_nanos(from.saturating_add(took));
        self.next_at = match self.paced_at > now {
            true => {
                Time::from_nanos(self.paced_at.nanos().saturating_add(quantum - took.min(quantum)))
            }
            false => self.paced_at,
        };
        self.delivery.sent(bytes, in_flight, now)
    }

    pub(in crate::stream) fn starved(&mut self, in_flight: u64) {
        self.delivery.starved(in_flight);
    }

    pub(in crate::stream) fn timed_out(&mut self) {
        self.window_before = self.window_before.max(self.window);
        self.window = LEAST_FRAMES * self.frame;
    }

    /// The rate that the path is taken to have, in bytes per second.
    fn rate(&self) -> u64 {
        self.highest.value().min(self.bounds.short_rate)
    }

    /// What a path of that rate holds.
    fn product(&self, rate: u64) -> u64 {
        let Some(rtt) = self.shortest.value() else { return FIRST_FRAMES * self.frame };
        proportion(rate, rtt, 1_000_000_000)
    }

    /// The least that keeps the path busy with delayed acknowledgements and quanta (section 5.6.4.2).
    fn inflight(&self, rate: u64, gain: u64) -> u64 {
        let bytes = scaled(self.product(rate), gain);
        let bytes = bytes.max(QUANTA * self.quantum).max(LEAST_FRAMES * self.frame);
        if self.cycle.phase == Phase::Up { bytes + 2 * self.frame } else { bytes }
    }

    pub(in crate::stream) fn acknowledged(&mut self, acked: &Acked) {
        let (had_rtt, pacing) = (self.shortest.value().is_some(), self.pacing);
        let rate = acked.sample.map(|sample| {
            let shortest = acked.rtt.unwrap_or(u64::MAX).min(self.shortest.value().unwrap_or(0));
            self.delivery.arrived(acked, &sample, shortest)
        });
        if let Some(rate) = &rate {
            self.learn(rate, acked);
        }
        let seeks = self.shortest.add(acked.rtt, acked.now);
        if !had_rtt && let Some(rtt) = self.shortest.value() {
            self.first_pace(rtt);
        }
        self.seek_shortest(seeks, acked);
        if rate.is_some() {
            self.restarts = false;
        }
        self.pace_by(self.cycle.phase.pacing_gain());
        self.hurry(pacing, acked.now);
        self.resize(acked);
        // What a slower pace has put off.
        let latest = acked.now.nanos().saturating_add(self.quantum_nanos);
        let latest = Time::from_nanos(latest);
        (self.paced_at, self.next_at) = (self.paced_at.min(latest), self.next_at.min(latest));
    }

    /// Where the pace has become faster than it was: what is left of the wait for the next frame passes by the new one. A pace
    /// that was slow for one frame (after losses, when nearly nothing arrived) would otherwise hold that frame's successor
    /// back for as long as it was slow, however fast the path has turned out to be since.
    fn hurry(&mut self, before: u64, now: Time) {
        let left = self.next_at.since(now).as_nanos();
        if self.pacing > before && left > 0 {
            let left = left * u128::from(before) / u128::from(self.pacing);
            self.next_at = Time::from_nanos(now.nanos().saturating_add(left as u64));
        }
    }

    /// What a measurement says about the path, and what follows from that.
    fn learn(&mut self, rate: &Rate, acked: &Acked) {
        self.begins_round = rate.prior_delivered >= self.round_ends;
        if self.begins_round {
            self.round += 1;
            self.begin_round();
            self.cycle.round_passed();
        }
        if rate.rate > 0 && (rate.rate >= self.highest.value() || !rate.is_starved) {
            self.highest.add(rate.rate);
        }
        self.adapt_short(rate, acked.rtt);
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

    /// Paces at the path's rate times a gain, in 256ths, less one percent, by which queues become empty.
    fn pace_by(&mut self, gain: u64) {
        let rate = self.rate();
        if rate == 0 {
            return;
        }
        let pacing = scaled(rate, gain) / 100 * 99;
        if self.cycle.is_full || pacing > self.pacing {
            self.pace(pacing);
        }
    }

    /// Section 5.6.4.
    fn resize(&mut self, acked: &Acked) {
        let gain = self.cycle.phase.window_gain(self.bounds.queue_stands);
        let wanted = self.inflight(self.rate(), gain);
        let wanted = wanted.saturating_add(self.aggregate.most());
        if self.window_before > self.window && self.cycle.phase != Phase::SeekShortest {
            // After a time-out, something has arrived.
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

    /// What the bounds allow in this phase (section 5.6.4.7).
    fn limit(&self) -> u64 {
        let long = match self.cycle.phase {
            Phase::Startup | Phase::Drain => u64::MAX,
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.long,
            Phase::Cruise => self.bounds.with_headroom(self.frame),
            Phase::SeekShortest => self.bounds.with_headroom(self.frame).min(self.seeking_window()),
        };
        long.min(self.bounds.short)
    }
}

/// A number times a gain in 256ths.
fn scaled(value: u64, gain: u64) -> u64 {
    u64::try_from((u128::from(value) * u128::from(gain)) >> 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
