//! Parts of the papers on SOVIA.

use super::{Effort, part, waiting};
use crate::measure::bench::papers::work::{Part, Perturbed, Scenario, Way, Work};
use crate::measure::bench::task::{Cpus, Wait};

/// Throughput of the papers' network with blocking calls (ICS, section 4.3), in Mbit/s.
const BLOCKING_MBITS: u32 = 780;
/// Configurations: the thread that handles messages, the way bytes are sent, and flow control for bandwidth.
const HANDLING: [&str; 3] = ["SOVIA_NOTIFY", "SOVIA_HANDLER", "SOVIA_SINGLE"];
const TRANSFER: [&str; 7] = [
    "SOVIA_REG",
    "SOVIA_COPY",
    "SOVIA_HYBRID",
    "SOVIA_3WAY",
    "SOVIA_RDMA",
    "SOVIA_DACKS",
    "SOVIA_COMBINE",
];
const FLOW: [&str; 4] = ["SOVIA_BASE", "SOVIA_FLOWCNTL", "SOVIA_DACKS", "SOVIA_COMBINE"];
/// Configurations that the papers rejected, whose bandwidth is also measured.
const ASKING: [&str; 2] = ["SOVIA_3WAY", "SOVIA_RDMA"];
/// Sockets by `sovia run` and by libsovia, measured beside the streams: in their default configuration and in the
/// papers' best ones.
const SOCKETS: [(&str, Option<&str>); 3] = [
    ("", None),
    (" SOVIA_SINGLE", Some("SOVIA_SINGLE")),
    (" SOVIA_COMBINE", Some("SOVIA_COMBINE")),
];

/// Returns the measurements of the two SOVIA papers. The word before the first comma of a series tells the figure.
pub(super) fn parts(effort: Effort) -> Vec<Part> {
    let bits: Vec<u32> = if effort.quick { vec![2, 6, 10, 11, 12, 15] } else { (2..=15).collect() };
    let sizes: Vec<usize> = bits.into_iter().map(|bits| 1 << bits).collect();
    let exact = |&base: &usize| Perturbed { base, off: 0 };
    let latency = || Work::PingPong { sizes: sizes.iter().map(exact).collect() };
    let bandwidth = || Work::OneWay { sizes: sizes.clone() };
    let mut parts = Vec::new();
    let mut put = |how: (Way, Wait, Cpus), name: String, work: Work, configuration, nagle| {
        let part = part(Scenario::Sovia, how, name, work, effort);
        parts.push(Part { configuration, nagle, ..part });
    };
    // Figure 5, tables 2 and 3: a processor for each end, because each of the papers' machines had one.
    for wait in [Wait::Block, Wait::Sleep] {
        let (apart, waits) = (Cpus::Apart, waiting(wait));
        put(
            (Way::SendRecv, wait, apart),
            format!("latency, native VIA, {waits}"),
            latency(),
            None,
            false,
        );
        for name in HANDLING.iter().chain(&TRANSFER) {
            let series = format!("latency, {name}, {waits}");
            put((Way::Sovia, wait, apart), series, latency(), Some((*name).to_owned()), false);
        }
        for way in [Way::Run, Way::Native] {
            for (name, configuration) in SOCKETS {
                let series = format!("latency, {}{name}, {waits}", way.title());
                put((way, wait, apart), series, latency(), configuration.map(str::to_owned), false);
            }
        }
        put(
            (Way::SendRecv, wait, apart),
            format!("bandwidth, native VIA, {waits}"),
            bandwidth(),
            None,
            false,
        );
        for name in FLOW.iter().chain(&ASKING) {
            let series = format!("bandwidth, {name}, {waits}");
            put((Way::Sovia, wait, apart), series, bandwidth(), Some((*name).to_owned()), false);
        }
        for way in [Way::Run, Way::Native] {
            for (name, configuration) in SOCKETS {
                let series = format!("bandwidth, {}{name}, {waits}", way.title());
                put(
                    (way, wait, apart),
                    series,
                    bandwidth(),
                    configuration.map(str::to_owned),
                    false,
                );
            }
        }
    }
    // TCP in each of its configurations. Its blocking calls sleep at once.
    for wait in [Wait::Poll, Wait::Sleep] {
        let (how, waits) = ((Way::Tcp, wait, Cpus::Apart), waiting(wait));
        put(how, format!("latency, TCP, {waits}"), latency(), None, false);
        put(how, format!("bandwidth, TCP, {waits}"), bandwidth(), None, false);
        put(how, format!("bandwidth, TCP with Nagle, {waits}"), bandwidth(), None, true);
    }
    // Both ends on one processor. No paper measured this.
    let together = |way| (way, Wait::Sleep, Cpus::Together);
    put(together(Way::Tcp), "one processor, TCP".to_owned(), latency(), None, false);
    put(together(Way::SendRecv), "one processor, native VIA".to_owned(), latency(), None, false);
    for name in HANDLING {
        let series = format!("one processor, {name}");
        put(together(Way::Sovia), series, latency(), Some(name.to_owned()), false);
    }
    // Figure 10, with blocking calls that sleep.
    let paced = || Work::Paced { sizes: sizes.clone(), mbits: BLOCKING_MBITS };
    let asleep = |way| (way, Wait::Sleep, Cpus::Apart);
    put(asleep(Way::Tcp), "paced, TCP with Nagle".to_owned(), paced(), None, true);
    for name in FLOW {
        put(asleep(Way::Sovia), format!("paced, {name}"), paced(), Some(name.to_owned()), false);
    }
    put(asleep(Way::Run), "paced, sovia run".to_owned(), paced(), None, true);
    parts
}
