//! Limits on the bytes in flight that follow from losses (sections 5.5.10 and 5.3.3.6).

use super::curve::{Curve, reduced};
use super::{Acked, Bbr, Phase, Rate, Snapshot};
use crate::Time;

/// Losses above 1/50 (2 %) are too many (`LossThresh`).
const ONE_IN: u64 = 50;
/// The long bound grows by 1/4 each round while it exceeds its value at the last congestion and no queue stands.
const FREE: u64 = 4;
/// Number of frames lost in one round of Startup from which the path counts as full (`StartupFullLossCnt`).
const FULL_LOSSES: u32 = 6;

/// The model's bounds.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Bound on the bytes in flight: CUBIC's window. No limit before the first loss in a queue.
    pub(super) long: u64,
    /// Bounds on the bytes in flight and on the rate, from losses since the last probe.
    pub(super) short: u64,
    pub(super) short_rate: u64,
    /// Highest values in this round of losses.
    pub(super) newest_rate: u64,
    newest_delivered: u64,
    round_ends: u64,
    begins_round: bool,
    /// Number of transmissions lost in this round of losses, and whether they were too many.
    losses: u32,
    is_lossy: bool,
    /// Set while lost transmissions belong to a bandwidth probe.
    pub(super) probes: bool,
    /// `grows`: the curve of the long bound, and when the growth began. `most`: the bytes in flight when the bound was
    /// last lowered. `lowered_at`: the count of delivered bytes at that time. A frame sent before then does not lower
    /// the bound again.
    grows: Option<(Time, Curve)>,
    most: u64,
    lowered_at: Option<u64>,
}

impl Bounds {
    pub(super) fn new() -> Bounds {
        Bounds {
            long: u64::MAX,
            short: u64::MAX,
            short_rate: u64::MAX,
            newest_rate: 0,
            newest_delivered: 0,
            round_ends: 0,
            begins_round: false,
            losses: 0,
            is_lossy: false,
            probes: false,
            grows: None,
            most: 0,
            lowered_at: None,
        }
    }

    pub(super) fn forget_short(&mut self) {
        (self.short, self.short_rate) = (u64::MAX, u64::MAX);
    }

    pub(super) fn forget_round(&mut self) {
        (self.newest_rate, self.newest_delivered, self.is_lossy, self.losses) = (0, 0, false, 0);
    }

    /// Starts the next round's maxima with the newest measurement, if a round has begun.
    pub(super) fn end_round(&mut self, rate: &Rate) {
        if self.begins_round {
            (self.newest_rate, self.newest_delivered) = (rate.rate, rate.delivered);
        }
    }
}

/// Number of frames that any flight may lose without counting as lossy. A short flight loses so many by chance on a
/// path with 1 % loss. A full queue loses more.
const CHANCE: u64 = 4;

impl Bounds {
    /// Returns the number of bytes that may be lost of `in_flight` bytes without counting as lossy.
    fn tolerated(in_flight: u64, frame: u64) -> u64 {
        in_flight / ONE_IN + CHANCE * frame
    }
}

impl Bbr {
    /// Processes a transmission declared lost (section 5.5.10.2).
    pub(in crate::stream) fn lost(&mut self, snapshot: &Snapshot, bytes: u64) {
        self.delivery.lost += bytes;
        self.bounds.losses += 1;
        let lost = self.delivery.lost - snapshot.lost;
        let in_flight = snapshot.in_flight;
        let tolerated = Bounds::tolerated(in_flight, self.frame);
        let is_lossy = lost > tolerated;
        self.bounds.is_lossy |= is_lossy;
        if self.bounds.lowered_at.is_some_and(|at| snapshot.delivered <= at) {
            return;
        }
        let shortest = self.shortest.value().unwrap_or(u64::MAX);
        if self.queue.is_long(shortest) || is_lossy && self.bounds.probes {
            let flight = if snapshot.is_starved { self.window } else { in_flight };
            self.lower_long(flight);
        }
    }

    /// Lowers the long bound, because `flight` bytes in flight were too many.
    fn lower_long(&mut self, flight: u64) {
        let delivered = self.product(self.bounds.newest_rate);
        let bounds = &mut self.bounds;
        bounds.probes = false;
        bounds.lowered_at = Some(self.delivery.delivered);
        let flight = flight.min(bounds.long);
        // Fast convergence (RFC 9438, section 4.7).
        bounds.most = if flight < bounds.most { (flight + reduced(flight)) / 2 } else { flight };
        bounds.long = reduced(flight).max(delivered.min(flight)).max(4 * self.frame);
        bounds.grows = None;
        if self.cycle.phase == Phase::Up {
            self.go_down();
        }
    }

    /// Adapts the short bounds at the end of each round of losses.
    pub(super) fn adapt_short(&mut self, rate: &Rate) {
        let (delivered, is_probing) = (self.delivery.delivered, self.cycle.phase.is_probing());
        let highest = self.highest.value();
        let bounds = &mut self.bounds;
        bounds.newest_rate = bounds.newest_rate.max(rate.rate);
        bounds.newest_delivered = bounds.newest_delivered.max(rate.delivered);
        bounds.begins_round = rate.prior_delivered >= bounds.round_ends;
        let is_starved = rate.is_starved;
        if !bounds.begins_round {
            return;
        }
        bounds.round_ends = delivered;
        let (is_lossy, losses) = (bounds.is_lossy, bounds.losses);
        (bounds.is_lossy, bounds.losses) = (false, 0);
        if self.cycle.phase == Phase::Startup && is_lossy && losses >= FULL_LOSSES {
            // The path is full, though the rate may still rise (section 5.3.1.3).
            let newest = bounds.newest_delivered;
            self.cycle.is_full = true;
            self.bounds.long = newest.max(self.product(highest));
            return;
        }
        if is_lossy && !is_probing {
            let window = self.window;
            let short = if bounds.short == u64::MAX { window } else { bounds.short };
            let rate = if bounds.short_rate == u64::MAX { highest } else { bounds.short_rate };
            bounds.short = bounds.newest_delivered.max(reduced(short));
            // A starved stream's rate shows nothing about the path.
            if !is_starved {
                bounds.short_rate = bounds.newest_rate.max(reduced(rate));
            }
        }
    }

    /// Raises the long bound after bytes have arrived, if the bound limits the stream.
    pub(super) fn raise_long(&mut self, acked: &Acked, is_full: bool) {
        let bounds = &mut self.bounds;
        if bounds.long == u64::MAX || !is_full || self.window < bounds.long {
            return;
        }
        let before = bounds.long;
        let fresh = (acked.now, Curve::new(self.frame, before, bounds.most));
        let (since, curve) = bounds.grows.get_or_insert(fresh);
        let millis = acked.now.since(*since).as_millis() as u64;
        let rtt = acked.rtt.unwrap_or(0) / 1_000_000;
        bounds.long = curve.grown(before, acked.bytes, millis, rtt);
        let shortest = self.shortest.value().unwrap_or(u64::MAX);
        if curve.is_past(millis) && !self.queue.stood(shortest) {
            bounds.long = bounds.long.max(before + acked.bytes.min(before) / FREE);
        }
    }
}
