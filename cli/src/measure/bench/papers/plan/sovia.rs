//! The parts of the papers on SOVIA.

use super::{Effort, part};
use crate::bench::papers::work::{Part, Perturbed, Scenario, Way, Work};
use crate::bench::task::{Cpus, Wait};

/// What the papers' network carried with blocking calls (ICS, section 4.3), in Mbit/s.
const BLOCKING_MBITS: u32 = 780;

/// What the two papers on SOVIA measured, each figure a word before the first comma.
pub(super) fn parts(effort: Effort) -> Vec<Part> {
    let bits: Vec<u32> = if effort.quick { vec![2, 6, 10, 11, 12, 15] } else { (2..=15).collect() };
    let sizes: Vec<usize> = bits.into_iter().map(|bits| 1 << bits).collect();
    let exact = |&base: &usize| Perturbed { base, off: 0 };
    let latency = || Work::PingPong { sizes: sizes.iter().map(exact).collect() };
    let bandwidth = || Work::OneWay { sizes: sizes.clone() };
    let stream = |cpus, what: &str, work, name: &str| {
        let series = format!("{what}, {name}");
        let how = (Way::Sovia, Wait::Block, cpus);
        let configuration = Some(name.to_owned());
        Part { configuration, ..part(Scenario::Sovia, how, series, work, effort) }
    };
    let beside = |cpus, what: &str, work, way| {
        let name = if way == Way::Tcp { "TCP" } else { "native VIA" };
        let how = (way, Wait::Block, cpus);
        part(Scenario::Sovia, how, format!("{what}, {name}"), work, effort)
    };
    let mut parts = Vec::new();
    for (cpus, what) in [(Cpus::Together, "one processor"), (Cpus::Apart, "two processors")] {
        for way in [Way::Tcp, Way::SendRecv] {
            parts.push(beside(cpus, what, latency(), way));
        }
        for name in ["SOVIA_NOTIFY", "SOVIA_HANDLER", "SOVIA_SINGLE"] {
            parts.push(stream(cpus, what, latency(), name));
        }
    }
    for name in
        ["SOVIA_REG", "SOVIA_COPY", "SOVIA_HYBRID", "SOVIA_3WAY", "SOVIA_DACKS", "SOVIA_COMBINE"]
    {
        parts.push(stream(Cpus::Apart, "transfer", latency(), name));
    }
    for way in [Way::Tcp, Way::SendRecv] {
        parts.push(beside(Cpus::Apart, "bandwidth", bandwidth(), way));
    }
    for name in ["SOVIA_BASE", "SOVIA_FLOWCNTL", "SOVIA_DACKS", "SOVIA_COMBINE"] {
        parts.push(stream(Cpus::Apart, "bandwidth", bandwidth(), name));
    }
    let paced = || Work::Paced { sizes: sizes.clone(), mbits: BLOCKING_MBITS };
    parts.push(beside(Cpus::Apart, "paced", paced(), Way::Tcp));
    for name in ["SOVIA_BASE", "SOVIA_FLOWCNTL", "SOVIA_DACKS", "SOVIA_COMBINE"] {
        parts.push(stream(Cpus::Apart, "paced", paced(), name));
    }
    parts
}
