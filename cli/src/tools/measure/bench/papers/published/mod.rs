//! Published figures, each with its place in the paper and the measured figure to compare.
//!
//! The papers used two PCs of 2000 with an adapter each. This benchmark uses one machine. So figures show how far apart
//! the two are. Quotients (one configuration divided by another) show whether a paper's findings hold here.

mod cluster;
mod emp;
mod features;
mod grid;
mod ics;
mod netpipe;
#[cfg(test)]
mod tests;

use super::work::{End, Metric, Scenario};

pub(super) use self::grid::{GRIDS, Grid};

/// A paper.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paper {
    /// Short name for headings and pictures.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) reference: &'static str,
    /// Hardware and software of the paper.
    pub(super) platform: &'static str,
}

/// Latency, throughput, strided copy, scattering and completion queues on cLAN.
pub(super) const FEATURES: Paper = Paper {
    name: "FGCS 2002",
    title: "VI architecture communication features and performance on the Giganet cluster LAN",
    reference: "H. Hellwagner, M. Ohlenroth; Future Generation Computer Systems 18 (2002), 421–433",
    platform: "Two PCs with one Pentium III of 450 MHz each (440BX), Giganet GNN1000 adapters connected directly (1.25 Gbit/s); Linux \
               2.2.16 and Windows NT 4.0",
};

/// NetPIPE over cLAN and M-VIA, with one and two processors.
pub(super) const NETPIPE: Paper = Paper {
    name: "Euro-Par 2001",
    title: "VIA Communication Performance on a Gigabit Ethernet Cluster",
    reference: "M. Baker, P. A. Farrell, H. Ong, S. L. Scott; Euro-Par 2001, 132–141",
    platform: "PCs with two Pentium III of 450 MHz each (440BX, PCI of 33 MHz and 32 bits), Linux 2.2.16 for one processor and for two; \
               Giganet cLAN1000 with a switch, SysKonnect SK-9821 and Packet Engines GNIC-II with M-VIA 1.0",
};

/// SOVIA: latency and bandwidth of its configurations.
pub(super) const SOVIA: Paper = Paper {
    name: "ICS 2001",
    title: "Building a High Performance Communication Layer over Virtual Interface Architecture on \
            Linux Clusters",
    reference: "J.-S. Kim, K. Kim, S.-I. Jung; ICS 2001",
    platform: "Two servers with two Pentium III of 500 MHz each, of which one is used unless it says SMP; Linux 2.2.16; M-VIA 1.0 on Fast \
               Ethernet, and Giganet cLAN1000 back to back (PCI of 33 MHz and 32 bits)",
};

/// SOVIA with the sockets of FTP and RPC.
pub(super) const CLUSTER: Paper = Paper {
    name: "CLUSTER 2001",
    title: "SOVIA: A User-level Sockets Layer over Virtual Interface Architecture",
    reference: "J.-S. Kim, K. Kim, S.-I. Jung; CLUSTER 2001",
    platform: "Two servers with a Pentium III of 500 MHz each, Linux 2.2.16; Giganet cLAN1000 without a switch; files on RAM disks",
};

/// EMP.
pub(super) const EMP: Paper = Paper {
    name: "SC 2001",
    title: "EMP: Zero-copy OS-bypass NIC-driven Gigabit Ethernet Message Passing",
    reference: "P. Shivam, P. Wyckoff, D. Panda; SC 2001",
    platform: "Two PCs with two Pentium III of 933 MHz each, Linux 2.4.2; Netgear 620 cards for Gigabit Ethernet (Alteon Tigon2, two \
               processors of 88 MHz) back to back, MTU 1500; Myrinet LANai 7.2 with GM",
};

/// The papers, in the order of the report.
pub(super) const PAPERS: [&Paper; 5] = [&FEATURES, &NETPIPE, &SOVIA, &CLUSTER, &EMP];

/// A measured figure, found by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    pub(super) scenario: Scenario,
    pub(super) series: &'static str,
    /// Another configuration, whose figure is used if it is better.
    pub(super) or: Option<&'static str>,
    pub(super) end: End,
    pub(super) metric: Metric,
    pub(super) pick: Pick,
}

impl Ours {
    /// Allows another configuration, whose figure is used if it is better.
    const fn or(self, series: &'static str) -> Self {
        Self { or: Some(series), ..self }
    }
}

/// Selects a point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pick {
    At(u64),
    /// The largest value
    Peak,
    /// The last value
    Last,
}

/// Measured figure to compare with a published one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beside {
    Figure(Ours),
    /// The first figure divided by the second.
    Quotient(Ours, Ours),
    /// The smallest x from which on the first series is never larger than the second.
    Crossing(Ours, Ours),
    /// No figure, because the paper's ends had two processors each.
    TwoEach,
    /// No figure, for this reason.
    Nothing(&'static str),
}

/// A paper's finding about two of its figures, to check with two measured ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding {
    pub(super) paper: &'static Paper,
    pub(super) place: &'static str,
    pub(super) what: &'static str,
    /// Quotient of the published figures, if the paper has both.
    pub(super) value: Option<f64>,
    /// Range in which the finding holds, for the first measured figure divided by the second.
    pub(super) bounds: (f64, f64),
    pub(super) a: Ours,
    pub(super) b: Ours,
}

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) paper: &'static Paper,
    /// Table, figure or section.
    pub(super) place: &'static str,
    pub(super) what: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) beside: Beside,
}

/// Returns every published figure, by paper.
pub(super) fn facts() -> impl Iterator<Item = &'static Fact> {
    [features::FACTS, netpipe::FACTS, ics::FACTS, cluster::FACTS, emp::FACTS].into_iter().flatten()
}

/// Returns every finding, by paper.
pub(super) fn findings() -> impl Iterator<Item = &'static Finding> {
    [features::FINDINGS, netpipe::FINDINGS, ics::FINDINGS, cluster::FINDINGS, emp::FINDINGS]
        .into_iter()
        .flatten()
}

const fn ours(scenario: Scenario, series: &'static str, metric: Metric, pick: Pick) -> Ours {
    Ours { scenario, series, or: None, end: End::Requester, metric, pick }
}

/// Returns the peak of a series.
const fn peak(scenario: Scenario, series: &'static str) -> Ours {
    ours(scenario, series, Metric::Throughput, Pick::Peak)
}

/// Returns NetPIPE's figure for one byte within a host.
const fn netpipe(series: &'static str) -> Ours {
    ours(Scenario::Netpipe, series, Metric::HalfTrip, Pick::At(1))
}

/// Returns the one-way time of a message over a stream, or over an alternative to it.
const fn trip(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Sovia, series, Metric::HalfTrip, Pick::At(size))
}

/// Returns the throughput of messages of `size` bytes in one direction.
const fn flow(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Sovia, series, Metric::Throughput, Pick::At(size))
}

/// Returns the time of one byte between hosts.
const fn byte(series: &'static str) -> Ours {
    ours(Scenario::Hosts, series, Metric::HalfTrip, Pick::At(1))
}

/// Returns the one-way time of a message between hosts, over a stream or an alternative to it.
const fn far(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Hosts, series, Metric::HalfTrip, Pick::At(size))
}

/// Returns the throughput of messages of 32 KB in one direction between hosts.
const fn bulk(series: &'static str) -> Ours {
    ours(Scenario::Hosts, series, Metric::Throughput, Pick::At(32768))
}

const ANY: f64 = f64::INFINITY;

macro_rules! table_of_facts {
    ($($paper:ident $place:literal: $what:literal, $value:expr, $unit:literal, $beside:expr;)+) => {
        pub(super) const FACTS: &[Fact] = &[$(Fact {
            paper: &$paper,
            place: $place,
            what: $what,
            value: $value,
            unit: $unit,
            beside: $beside,
        }),+];
    };
}
use table_of_facts;

/// Makes a table of findings. Each line has the place, a description, the published quotient or `none`, the range in
/// which the finding holds, and the two measured figures.
macro_rules! table_of_findings {
    (@value none) => { None };
    (@value $value:expr) => { Some($value) };
    ($($paper:ident $place:literal: $what:literal, $value:tt, $least:literal to $most:expr, $a:expr, $b:expr;)+) => {
        pub(super) const FINDINGS: &[Finding] = &[$(Finding {
            paper: &$paper,
            place: $place,
            what: $what,
            value: table_of_findings!(@value $value),
            bounds: ($least, $most),
            a: $a,
            b: $b,
        }),+];
    };
}
use table_of_findings;
