//! Tables that the papers print completely, with the measured series for each column.

use super::{Paper, SOVIA};
use crate::measure::bench::papers::work::{Metric, Scenario};

/// A table by message size.
pub(in crate::measure::bench::papers) struct Grid {
    pub(in crate::measure::bench::papers) paper: &'static Paper,
    pub(in crate::measure::bench::papers) place: &'static str,
    pub(in crate::measure::bench::papers) what: &'static str,
    pub(in crate::measure::bench::papers) scenario: Scenario,
    pub(in crate::measure::bench::papers) metric: Metric,
    pub(in crate::measure::bench::papers) columns: [Column; 4],
    /// Message sizes in bytes, and the columns' values.
    pub(in crate::measure::bench::papers) rows: &'static [(u64, [f64; 4])],
    /// Name of the picture's file.
    pub(in crate::measure::bench::papers) file: &'static str,
}

/// A column: its name, and the measured series.
#[derive(Clone, Copy)]
pub(in crate::measure::bench::papers) struct Column {
    pub(in crate::measure::bench::papers) name: &'static str,
    pub(in crate::measure::bench::papers) series: &'static str,
}

const fn column(name: &'static str, series: &'static str) -> Column {
    Column { name, series }
}

/// All tables.
pub(in crate::measure::bench::papers) const GRIDS: [Grid; 2] = [
    Grid {
        paper: &SOVIA,
        place: "Table 3",
        what: "latency on cLAN; ours in shared memory",
        scenario: Scenario::Sovia,
        metric: Metric::HalfTrip,
        columns: [
            column("native VIA", "latency, native VIA, blocking"),
            column("SOVIA_REG", "latency, SOVIA_REG, blocking"),
            column("SOVIA_COPY", "latency, SOVIA_COPY, blocking"),
            column("SOVIA_HYBRID", "latency, SOVIA_HYBRID, blocking"),
        ],
        rows: &[
            (4, [8.3, 12.3, 10.5, 10.5]),
            (8, [8.3, 12.6, 10.6, 10.7]),
            (16, [8.4, 12.6, 10.8, 10.8]),
            (32, [10.1, 14.3, 12.5, 12.5]),
            (64, [10.1, 14.5, 12.8, 12.8]),
            (128, [10.5, 15.5, 14.0, 14.0]),
            (256, [11.9, 17.3, 16.0, 16.0]),
            (512, [14.9, 20.5, 19.7, 19.7]),
            (1024, [20.2, 26.4, 26.5, 26.5]),
            (2048, [30.4, 39.5, 40.7, 40.8]),
            (4096, [50.5, 65.3, 74.2, 65.0]),
            (8192, [90.6, 123.4, 160.1, 123.0]),
            (16384, [169.9, 240.7, 307.7, 240.3]),
            (32768, [329.0, 461.1, 603.2, 460.6]),
        ],
        file: "ics-table-3",
    },
    Grid {
        paper: &SOVIA,
        place: "Table 2",
        what: "latency on M-VIA; ours between hosts, by packet sockets",
        scenario: Scenario::Hosts,
        metric: Metric::HalfTrip,
        columns: [
            column("native VIA", "latency, native VIA, eth"),
            column("SOVIA_REG", "latency, SOVIA_SINGLE, eth"),
            column("SOVIA_COPY", "latency, SOVIA_COPY, eth"),
            column("SOVIA_HYBRID", "latency, SOVIA_HYBRID, eth"),
        ],
        rows: &[
            (4, [43.3, 57.6, 45.1, 45.0]),
            (8, [43.4, 57.9, 45.4, 45.4]),
            (16, [43.4, 58.0, 45.4, 45.4]),
            (32, [44.2, 58.8, 46.0, 45.9]),
            (64, [49.1, 63.9, 51.2, 51.2]),
            (128, [60.3, 75.5, 62.9, 62.9]),
            (256, [81.5, 97.5, 84.7, 84.7]),
            (512, [123.1, 140.7, 127.7, 127.8]),
            (1024, [206.3, 227.9, 213.5, 213.9]),
            (2048, [330.3, 354.5, 339.3, 339.6]),
            (4096, [506.8, 539.3, 526.3, 539.4]),
            (8192, [859.0, 912.7, 915.0, 912.4]),
            (16384, [1545.3, 1632.5, 1660.7, 1632.2]),
            (32768, [2910.2, 3053.7, 3135.6, 3053.4]),
        ],
        file: "ics-table-2",
    },
];
