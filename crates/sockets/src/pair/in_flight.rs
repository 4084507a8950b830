//! The numbers of messages in flight that a NIC in software reports to this process.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of reports that [`InFlight`] remembers.
const REPORTS: usize = 3;

/// The latest reports of a NIC. This process takes one about once a second, if it has sent messages meanwhile.
#[derive(Debug)]
pub(crate) struct InFlight {
    seen: AtomicU64,
    next: AtomicU32,
    reports: [AtomicU32; REPORTS],
}

impl Default for InFlight {
    fn default() -> InFlight {
        let reports = [const { AtomicU32::new(u32::MAX) }; REPORTS];
        InFlight { seen: AtomicU64::new(0), next: AtomicU32::new(0), reports }
    }
}

impl InFlight {
    /// Takes in the NIC's present report ([`sovia_ring::layout::Side::in_flight`]), if it is new.
    pub(crate) fn take(&self, report: u64) {
        if self.seen.swap(report, Ordering::Relaxed) != report {
            let next = self.next.fetch_add(1, Ordering::Relaxed) as usize % REPORTS;
            self.reports[next].store(report as u32, Ordering::Relaxed);
        }
    }

    /// Forgets all reports, because they do not tell of a connection that the NIC carries from now on.
    pub(crate) fn forget(&self) {
        self.reports.iter().for_each(|report| report.store(u32::MAX, Ordering::Relaxed));
    }

    /// Returns the greatest number of the latest reports. Returns [`u32::MAX`] before there are enough reports.
    pub(crate) fn greatest(&self) -> u32 {
        self.reports.iter().map(|report| report.load(Ordering::Relaxed)).max().unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(second: u64, messages: u32) -> u64 {
        second << 32 | u64::from(messages)
    }

    #[test]
    fn three_reports_are_enough_and_the_latest_count() {
        let in_flight = InFlight::default();
        for second in 1..=2 {
            in_flight.take(report(second, 5));
            assert_eq!(in_flight.greatest(), u32::MAX);
        }
        in_flight.take(report(3, 7));
        assert_eq!(in_flight.greatest(), 7);
        for second in 4..=6 {
            in_flight.take(report(second, 2));
        }
        assert_eq!(in_flight.greatest(), 2);
        in_flight.forget();
        in_flight.take(report(7, 2));
        assert_eq!(in_flight.greatest(), u32::MAX);
    }

    #[test]
    fn seconds_without_messages_are_no_reports() {
        let in_flight = InFlight::default();
        // The word of a NIC that has reported nothing is 0.
        in_flight.take(0);
        for _ in 0..9 {
            in_flight.take(report(1, 5));
        }
        assert_eq!(in_flight.greatest(), u32::MAX);
    }
}
