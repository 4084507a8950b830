//! CUBIC (RFC 9438) as the kernel's TCP runs it, simplified: a competitor of a stream in tests.

use super::rate::{Acked, Snapshot};
use crate::Time;

const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// CUBIC's state. Windows are in frames.
#[derive(Debug)]
pub(in crate::stream) struct KernelCubic {
    frame: f64,
    window: f64,
    threshold: f64,
    most: f64,
    since: Option<Time>,
    /// Window of Reno at this time.
    reno: f64,
    /// The latest known time, and the time of the last reduction.
    now: Time,
    reduced_at: Time,
    shortest: u64,
}

impl KernelCubic {
    pub(in crate::stream) fn new(frame: u32) -> KernelCubic {
        KernelCubic {
            frame: frame.into(),
            window: 10.0,
            threshold: f64::INFINITY,
            most: 0.0,
            since: None,
            reno: 0.0,
            now: Time::ZERO,
            reduced_at: Time::ZERO,
            shortest: u64::MAX,
        }
    }

    pub(super) fn window(&self) -> u64 {
        (self.window * self.frame) as u64
    }

    pub(super) fn sent(&mut self, now: Time) -> Snapshot {
        self.now = now;
        Snapshot { delivered_at: now, ..Snapshot::default() }
    }

    /// Reduces the window, once for all losses of a round trip.
    pub(super) fn lost(&mut self, snapshot: &Snapshot) {
        if snapshot.delivered_at < self.reduced_at {
            return;
        }
        self.reduced_at = self.now;
        // Fast convergence (RFC 9438, section 4.7).
        self.most =
            if self.window < self.most { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(2.0);
        (self.threshold, self.since, self.reno) = (self.window, None, self.window);
    }

    pub(super) fn acknowledged(&mut self, acked: &Acked) {
        self.now = acked.now;
        let frames = acked.bytes as f64 / self.frame;
        if let Some(rtt) = acked.rtt {
            self.shortest = self.shortest.min(rtt);
            // HyStart: leave slow start when the round trip shows a growing queue.
            if self.window < self.threshold && rtt > self.shortest + self.shortest / 8 {
                self.threshold = self.window;
            }
        }
        if acked.in_flight_before as f64 + self.frame * 2.0 < self.window * self.frame {
            return;
        }
        if self.window < self.threshold {
            self.window += frames;
            return;
        }
        let since = *self.since.get_or_insert(acked.now);
        let begin = (self.most.max(self.window) * (1.0 - BETA) / C).cbrt();
        let t = acked.now.since(since).as_secs_f64() + acked.rtt.unwrap_or(0) as f64 / 1e9;
        let target = C * (t - begin).powi(3) + self.most.max(self.threshold);
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) * frames / self.window;
        if self.reno > target {
            self.window = self.window.max(self.reno);
        } else if target > self.window {
            self.window += ((target - self.window) / self.window).min(0.5) * frames;
        } else {
            self.window += 0.01 * frames / self.window;
        }
    }
}
