//! Memory of idle connected VIs, from the pages of both processes before and after.

use std::fs;

use anyhow::Context;
use via::Nic;

use super::Player;
use crate::measure::bench::papers::station::Room;
use crate::measure::bench::papers::work::Metric;

/// Pages of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pages {
    private: f64,
    shared: f64,
    proportional: f64,
}

impl Pages {
    fn now() -> anyhow::Result<Self> {
        let file = "/proc/self/smaps_rollup";
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        Ok(Self::of(&text))
    }

    fn of(text: &str) -> Self {
        let mut pages = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(kilobytes)) = (words.next(), words.next()) else { continue };
            let bytes = kilobytes.parse::<f64>().unwrap_or(0.0) * 1024.0;
            match name {
                "Private_Clean:" | "Private_Dirty:" => pages.private += bytes,
                "Shared_Clean:" | "Shared_Dirty:" => pages.shared += bytes,
                "Pss:" => pages.proportional += bytes,
                _ => {}
            }
        }
        pages
    }
}

impl Player<'_> {
    pub(super) fn memory<N: Nic>(&mut self, nic: N, count: usize) -> anyhow::Result<()> {
        let station = self.station(nic, Room { short: 1, long: 0, data: 4096 })?;
        // Memory that the first connection adds belongs to the pair of processes, so it does not count.
        let first = station.vi(None, 0)?;
        station.connect(&first)?;
        self.control.meet()?;
        let before = Pages::now()?;
        self.control.meet()?;
        let mut vis = Vec::with_capacity(count);
        for i in 0..count {
            let vi = station.vi(None, i as u64)?;
            station.connect(&vi)?;
            vis.push(vi);
        }
        self.control.meet()?;
        let after = Pages::now()?;
        self.control.meet()?;
        let each = |before: f64, after: f64| (after - before) / count as f64;
        self.reading(Metric::Private, count, each(before.private, after.private));
        self.reading(Metric::Shared, count, each(before.shared, after.shared));
        self.reading(Metric::Proportional, count, each(before.proportional, after.proportional));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let text = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss: 100 kB\nPss:  10 kB\n\
                    Pss_Dirty: 5 kB\nShared_Clean: 1 kB\nShared_Dirty: 2 kB\n\
                    Private_Clean: 3 kB\nPrivate_Dirty: 4 kB\n";
        let expected = Pages { private: 7168.0, shared: 3072.0, proportional: 10240.0 };
        assert_eq!(Pages::of(text), expected);
        assert!(Pages::now().unwrap().private > 0.0);
    }
}
