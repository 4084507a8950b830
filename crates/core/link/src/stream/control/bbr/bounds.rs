//! What losses say about how much may be on its way (sections 5.5.10 and 5.3.3.6).

use super::{Bbr, Phase, Rate, Snapshot, scaled};

/// Loss above one in so many is too much: 2 % (`LossThresh`).
const ONE_IN: u64 = 50;
/// What is left of a bound that was too high, in 256ths: 0.7 (`Beta`).
const BETA: u64 = 179;
/// Room that is left to others, in 256ths: 0.15 (`Headroom`).
const HEADROOM: u64 = 38;
/// What is lost while a queue makes each round trip longer by one in so many is lost by that queue.
const QUEUE_PART: u64 = 2;
/// Frames lost in one round of the start from which the path counts as full (`StartupFullLossCnt`).
const FULL_LOSSES: u32 = 6;

/// Bounds of the model.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Bytes on their way, as probing for more has found; until the next probe finds something else.
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
    /// The shortest round trip of this round of losses, and whether a queue stood in the one before.
    round_trip: u64,
    pub(super) queue_stands: bool,
    /// What is lost now has been sent to probe.
    pub(super) probes: bool,
    /// Bytes that have arrived since the long bound was raised last, and how many raise it by a frame.
    arrived: u64,
    raise_at: u64,
    raises: u32,
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
            round_trip: u64::MAX,
            queue_stands: false,
            probes: false,
            arrived: 0,
            raise_at: u64::MAX,
            raises: 0,
        }
    }

    pub(super) fn forget_short(&mut self) {
        (self.short, self.short_rate) = (u64::MAX, u64::MAX);
    }

    pub(super) fn forget_round(&mut self) {
        (self.newest_rate, self.newest_delivered, self.is_lossy, self.losses) = (0, 0, false, 0);
    }

    pub(super) fn with_headroom(&self, frame: u64) -> u64 {
        match self.long {
            u64::MAX => u64::MAX,
            long => (long - scaled(long, HEADROOM).max(frame).min(long)).max(4 * frame),
        }
    }

    /// What is newest is that of the next round.
    pub(super) fn end_round(&mut self, rate: &Rate) {
        if self.begins_round {
            (self.newest_rate, self.newest_delivered) = (rate.rate, rate.delivered);
        }
    }

    /// A probe begins, by which the long bound may rise.
    pub(super) fn begin_probe(&mut self) {
        (self.arrived, self.raises) = (0, 0);
    }

    /// The bound rises twice as fast each round (`BBRRaiseInflightLongtermSlope`).
    pub(super) fn raise_faster(&mut self, window: u64, frame: u64) {
        self.raise_at = (window >> self.raises.min(30)).max(frame);
        self.raises += 1;
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
        if lost <= tolerated {
            return;
        }
        self.bounds.is_lossy = true;
        if self.bounds.probes {
            // As much as was on its way when the loss became too much: before, it was not.
            let (flight, before) = (in_flight.saturating_sub(bytes), lost.saturating_sub(bytes));
            let tolerated = Bounds::tolerated(flight, self.frame);
            let prefix = tolerated.saturating_sub(before) * ONE_IN / (ONE_IN - 1);
            self.lower_long(flight + prefix, snapshot.is_starved);
        }
    }

    /// Probing has found that so much is too much.
    fn lower_long(&mut self, in_flight: u64, is_starved: bool) {
        self.bounds.probes = false;
        if !is_starved {
            let target = self.product(self.rate()).min(self.window);
            self.bounds.long = in_flight.max(scaled(target, BETA));
        }
        if self.cycle.phase == Phase::Up {
            self.go_down();
        }
    }

    /// What losses say at the end of each round of them.
    pub(super) fn adapt_short(&mut self, rate: &Rate, rtt: Option<u64>) {
        let (delivered, is_probing) = (self.delivery.delivered, self.cycle.phase.is_probing());
        let highest = self.highest.value();
        let bounds = &mut self.bounds;
        bounds.newest_rate = bounds.newest_rate.max(rate.rate);
        bounds.newest_delivered = bounds.newest_delivered.max(rate.delivered);
        bounds.round_trip = bounds.round_trip.min(rtt.unwrap_or(u64::MAX));
        bounds.begins_round = rate.prior_delivered >= bounds.round_ends;
        let is_starved = rate.is_starved;
        if !bounds.begins_round {
            return;
        }
        bounds.round_ends = delivered;
        let (is_lossy, losses) = (bounds.is_lossy, bounds.losses);
        let round_trip = core::mem::replace(&mut bounds.round_trip, u64::MAX);
        let shortest = self.shortest.value().unwrap_or(u64::MAX);
        let queue_stands =
            round_trip < u64::MAX && round_trip > shortest.saturating_add(shortest / QUEUE_PART);
        bounds.queue_stands = queue_stands;
        (bounds.is_lossy, bounds.losses) = (false, 0);
        if self.cycle.phase == Phase::Startup && is_lossy && losses >= FULL_LOSSES {
            // The path is full, though the rate may rise still (section 5.3.1.3).
            let newest = bounds.newest_delivered;
            self.cycle.is_full = true;
            self.bounds.long = newest.max(self.product(highest));
            return;
        }
        if (is_lossy || losses > 0 && queue_stands) && !is_probing {
            let window = self.window;
            let short = if bounds.short == u64::MAX { window } else { bounds.short };
            let rate = if bounds.short_rate == u64::MAX { highest } else { bounds.short_rate };
            bounds.short = bounds.newest_delivered.max(scaled(short, BETA));
            // What little there was to send says nothing about the rate.
            if !is_starved {
                bounds.short_rate = bounds.newest_rate.max(scaled(rate, BETA));
            }
        }
    }

    /// A measurement during probing: what was on its way was not too much.
    pub(super) fn raise_long(&mut self, rate: &Rate, acked: u64, is_full: bool) {
        if self.bounds.long == u64::MAX || rate.lost > Bounds::tolerated(rate.in_flight, self.frame)
        {
            return;
        }
        self.bounds.long = self.bounds.long.max(rate.in_flight);
        if self.cycle.phase != Phase::Up || !is_full || self.window < self.bounds.long {
            return;
        }
        self.bounds.arrived += acked;
        if self.bounds.arrived >= self.bounds.raise_at {
            let frames = self.bounds.arrived / self.bounds.raise_at;
            self.bounds.arrived -= frames * self.bounds.raise_at;
            self.bounds.long = self.bounds.long.saturating_add(frames * self.frame);
        }
        if self.begins_round {
            self.bounds.raise_faster(self.window, self.frame);
        }
    }
}
