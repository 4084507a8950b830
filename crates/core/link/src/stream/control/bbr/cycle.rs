//! BBR's phases and the transitions between them (sections 5.3 and 5.3.3).

use super::{Acked, Bbr, LEAST_FRAMES, Rate, scaled};
use crate::Time;
use core::time::Duration;

/// A phase of BBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Doubles the rate each round trip, until the path delivers no more.
    Startup,
    /// Empties the queue that Startup has built.
    Drain,
    /// Empties the queue that a bandwidth probe has built.
    Down,
    /// Sends at the path's rate and leaves some room for other streams.
    Cruise,
    /// Fills the path for a round trip, before `Up`.
    Refill,
    /// Probes for more bandwidth.
    Up,
    /// Keeps almost nothing in flight, to measure the round trip of an empty path.
    SeekShortest,
}

impl Phase {
    /// Returns the pacing gain in 256ths: 2.77, 0.5, 0.9, 1, 1, 1.25, 1.
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Phase::Startup => 709,
            Phase::Drain => 128,
            Phase::Down => 230,
            Phase::Cruise | Phase::Refill | Phase::SeekShortest => 256,
            Phase::Up => 320,
        }
    }

    /// Returns the window gain in 256ths: normally 2, in `Up` 2.25, in `SeekShortest` 0.5. Between probes the gain is
    /// 1.5 where a queue stands: other streams fill the queue too, and the path stays busy without a larger window.
    pub(super) fn window_gain(self, queue_stands: bool) -> u64 {
        match self {
            Phase::Down | Phase::Cruise if queue_stands => 384,
            Phase::Up => 576,
            Phase::SeekShortest => 128,
            _ => 512,
        }
    }

    pub(super) fn is_probing_bandwidth(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    /// Returns true in phases that provoke losses on purpose.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }
}

/// Which part of a bandwidth probe the current acknowledgements belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feedback {
    Other,
    Refilling,
    Starting,
    Probing,
    Stopping,
}

/// Number of rounds without growth of the rate by a quarter, after which the path counts as full.
const FULL_ROUNDS: u32 = 3;
/// Number of rounds after which another flow with Reno's rules would have filled the path
/// (`BBRIsRenoCoexistenceProbeTime`).
const RENO_ROUNDS: u64 = 63;
/// Time for which the sender seeks the shortest round trip (`ProbeRTTDuration`).
const SEEKING: Duration = Duration::from_millis(200);
/// Nanoseconds between probes, and the largest random addition.
const WAIT: u64 = 2_000_000_000;
const WAIT_MORE: u64 = 1_000_000_000;

/// Position of a stream in BBR's cycle.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) phase: Phase,
    /// Set once the path has been full.
    pub(super) is_full: bool,
    /// Set while the measured rate shows that the path is full.
    is_full_now: bool,
    full_rate: u64,
    full_rounds: u32,
    feedback: Feedback,
    /// Beginning of this cycle, nanoseconds until the next probe, and rounds since the last probe.
    since: Time,
    wait: u64,
    rounds: u64,
    /// End of the search for the shortest round trip, set once few enough bytes are in flight. `has_sought_a_round` is
    /// set once a round has passed since.
    seeks_until: Option<Time>,
    has_sought_a_round: bool,
}

impl Cycle {
    pub(super) fn new() -> Cycle {
        Cycle {
            phase: Phase::Startup,
            is_full: false,
            is_full_now: false,
            full_rate: 0,
            full_rounds: 0,
            feedback: Feedback::Other,
            since: Time::ZERO,
            wait: WAIT,
            rounds: 0,
            seeks_until: None,
            has_sought_a_round: false,
        }
    }

    pub(super) fn round_passed(&mut self) {
        self.rounds += 1;
    }

    /// Restarts the search for the rate at which the path is full.
    fn look_anew(&mut self, rate: u64) {
        (self.full_rate, self.full_rounds, self.is_full_now) = (rate, 0, false);
    }
}

impl Bbr {
    /// Detects that the path is full, because the rate stops growing (section 5.3.1.2).
    pub(super) fn look_for_full_rate(&mut self, rate: &Rate) {
        let begins_round = self.begins_round;
        let cycle = &mut self.cycle;
        if cycle.is_full_now || rate.is_starved {
            return;
        }
        if rate.rate >= cycle.full_rate + cycle.full_rate / 4 {
            cycle.look_anew(rate.rate);
        } else if begins_round {
            cycle.full_rounds += 1;
            cycle.is_full_now = cycle.full_rounds >= FULL_ROUNDS;
            cycle.is_full |= cycle.is_full_now;
        }
    }

    pub(super) fn leave_startup(&mut self, acked: &Acked) {
        if self.cycle.phase == Phase::Startup && self.cycle.is_full {
            self.cycle.phase = Phase::Drain;
        }
        if self.cycle.phase == Phase::Drain && acked.in_flight <= self.inflight(self.rate(), 256) {
            self.cycle.since = acked.now;
            self.go_down();
        }
    }

    pub(super) fn go_down(&mut self) {
        self.bounds.forget_round();
        self.begin_round();
        // A pseudo-random number, which is the same in each run.
        let drawn =
            (self.delivery.delivered / self.frame).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let cycle = &mut self.cycle;
        cycle.rounds = drawn & 1;
        cycle.wait = WAIT + (drawn >> 1) % WAIT_MORE;
        cycle.feedback = Feedback::Stopping;
        cycle.phase = Phase::Down;
    }

    fn refill(&mut self) {
        self.bounds.forget_short();
        self.begin_round();
        self.cycle.feedback = Feedback::Refilling;
        self.cycle.phase = Phase::Refill;
        self.begins_round = false;
    }

    fn go_up(&mut self, now: Time) {
        self.begin_round();
        self.cycle.look_anew(self.bounds.newest_rate);
        self.cycle.feedback = Feedback::Starting;
        self.cycle.since = now;
        self.cycle.phase = Phase::Up;
        self.bounds.probes = true;
        self.begins_round = false;
    }

    /// Moves to the next phase if it is time (section 5.3.3.6).
    pub(super) fn advance_cycle(&mut self, rate: &Rate, acked: &Acked) {
        if !self.cycle.is_full {
            return;
        }
        let is_limited = acked.in_flight_before + self.frame >= self.window;
        self.judge(rate, acked, is_limited);
        match self.cycle.phase {
            Phase::Down if self.is_time_to_probe(acked.now) => self.refill(),
            Phase::Down if self.is_time_to_cruise(acked) => self.cycle.phase = Phase::Cruise,
            Phase::Cruise if self.is_time_to_probe(acked.now) => self.refill(),
            Phase::Refill if self.begins_round => self.go_up(acked.now),
            Phase::Up if is_limited && self.window >= self.bounds.long => {
                self.cycle.look_anew(rate.rate);
            }
            Phase::Up if self.cycle.is_full_now => {
                self.cycle.since = acked.now;
                self.go_down();
            }
            _ => {}
        }
    }

    /// Adapts the model to acknowledgements of a bandwidth probe.
    fn judge(&mut self, rate: &Rate, acked: &Acked, is_limited: bool) {
        if self.begins_round {
            match self.cycle.feedback {
                Feedback::Starting => self.cycle.feedback = Feedback::Probing,
                Feedback::Stopping => {
                    self.cycle.feedback = Feedback::Other;
                    self.bounds.probes = false;
                    if self.cycle.phase.is_probing_bandwidth() && !rate.is_starved {
                        self.highest.advance_if_measured();
                    }
                }
                _ => {}
            }
        }
        self.raise_long(acked, is_limited);
    }

    fn is_time_to_cruise(&self, acked: &Acked) -> bool {
        acked.in_flight <= self.bounds.long
            && acked.in_flight <= self.inflight(self.highest.value(), 256)
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno = (self.product(self.rate()) / self.frame).min(RENO_ROUNDS);
        now.since(self.cycle.since).as_nanos() as u64 > self.cycle.wait
            || self.cycle.rounds >= reno.max(1)
    }

    /// Returns the window while the sender seeks the shortest round trip. A whole quantum is allowed, because its first
    /// frame finds no queue of this stream.
    pub(super) fn seeking_window(&self) -> u64 {
        scaled(self.product(self.rate()), 128)
            .max(LEAST_FRAMES * self.frame)
            .max(self.pacer.quantum())
    }

    /// Begins or ends the search for the shortest round trip (section 5.3.4).
    pub(super) fn seek_shortest(&mut self, is_due: bool, acked: &Acked) {
        let is_seeking = self.cycle.phase == Phase::SeekShortest;
        if is_due && !is_seeking && !self.restarts {
            self.window_before = self.window;
            self.cycle.phase = Phase::SeekShortest;
            self.cycle.seeks_until = None;
            self.cycle.feedback = Feedback::Stopping;
            self.begin_round();
            return;
        }
        if !is_seeking {
            return;
        }
        // With so few bytes in flight, measurements show nothing about the rate.
        self.delivery.starved(acked.in_flight);
        match self.cycle.seeks_until {
            None if acked.in_flight <= self.seeking_window() => {
                self.cycle.seeks_until = Some(acked.now.after(SEEKING));
                self.cycle.has_sought_a_round = false;
                self.begin_round();
            }
            None => {}
            Some(until) => {
                self.cycle.has_sought_a_round |= self.begins_round;
                if self.cycle.has_sought_a_round && acked.now > until {
                    self.end_seeking(acked.now);
                }
            }
        }
    }

    fn end_seeking(&mut self, now: Time) {
        self.shortest.was_sought(now);
        self.window = self.window.max(core::mem::take(&mut self.window_before));
        self.bounds.forget_short();
        if self.cycle.is_full {
            self.cycle.since = now;
            self.go_down();
            self.cycle.phase = Phase::Cruise;
        } else {
            self.cycle.phase = Phase::Startup;
        }
    }
}
