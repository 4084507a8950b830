//! What losses say about how much may be on its way (sections 5.5.10 and 5.3.3.6).

use super::curve::{Curve, reduced};
use super::{Acked, Bbr, Phase, Rate, Snapshot};
use crate::Time;

/// Loss above one in so many is too much: 2 % (`LossThresh`).
const ONE_IN: u64 = 50;
/// The part by which the long bound grows each round where it is past the last congestion, and no queue stands.
const FREE: u64 = 4;
/// Frames lost in one round of the start from which the path counts as full (`StartupFullLossCnt`).
const FULL_LOSSES: u32 = 6;

/// Bounds of the model.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Bytes on their way: CUBIC's window, once something got lost in a queue.
    pub(super) long: u64,
    /// Bytes on their way, and the rate, as losses since the last probe say.
    pub(super) short: u64,
    pub(super) short_rate: u64,
    /// The best of this round of losses.
    pub(super) newest_rate: u64,
    newest_delivered: u64,
    round_ends: u64,
    begins_round: bool,
    /// Sendings lost in this round of losses, and whether they were too many.
    losses: u32,
    is_lossy: bool,
    /// What is lost now has been sent to probe.
    pub(super) probes: bool,
    /// How the long bound grows, since when; what it was when it was last lowered, and how much had been delivered then: what
    /// was sent before says nothing more.
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

    /// What is newest is that of the next round.
    pub(super) fn end_round(&mut self, rate: &Rate) {
        if self.begins_round {
            (self.newest_rate, self.newest_delivered) = (rate.rate, rate.delivered);
        }
    }
}

/// Frames that may get lost of any flight: so many do by chance where a flight is short and the path loses one in a hundred,
/// and a queue that is full loses more.
const CHANCE: u64 = 4;

impl Bounds {
    /// Bytes whose loss is not too much of what was on its way.
    fn tolerated(in_flight: u64, frame: u64) -> u64 {
        in_flight / ONE_IN + CHANCE * frame
    }
}

impl Bbr {
    /// A sending is taken for lost (section 5.5.10.2).
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

    /// So much is too much.
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

    /// What losses say at the end of each round of them.
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
            // The path is full, though the rate may rise still (section 5.3.1.3).
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
            // What little there was to send says nothing about the rate.
            if !is_starved {
                bounds.short_rate = bounds.newest_rate.max(reduced(rate));
            }
        }
    }

    /// Bytes have arrived: the long bound grows, if it is what limits the stream.
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
