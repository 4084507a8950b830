//! NetPIPE's sweeps between two hosts at each MTU (its figures 3 to 5), and SOVIA's streams as measured on M-VIA.

use super::{Effort, netpipe_sizes, part, waiting};
use crate::measure::bench::papers::net::{LinkKind, Net, Port};
use crate::measure::bench::papers::work::{Metric, Part, Perturbed, Scenario, Way, Work};
use crate::measure::bench::task::{Cpus, Wait};

/// MTUs of the papers' Ethernets.
pub(in crate::measure::bench::papers) const MTUS: [u32; 2] = [1500, 9000];
/// Stream configurations that ICS 2001 measured on M-VIA: the thread that handles messages, and the way bytes are sent.
const LATENCIES: [&str; 5] =
    ["SOVIA_NOTIFY", "SOVIA_HANDLER", "SOVIA_SINGLE", "SOVIA_COPY", "SOVIA_HYBRID"];
const BANDWIDTHS: [&str; 3] = ["SOVIA_BASE", "SOVIA_DACKS", "SOVIA_COMBINE"];

/// Ports for the VIs of streams.
const STREAMS: [Port; 3] = [Port::Udp, Port::Eth, Port::Ofi];

/// Ports for the VIs of lanes: shared memory, in the place of cLAN, or Ethernet.
const LANES: [Option<Port>; 2] = [None, Some(Port::Udp)];

/// Returns the name, in series, of TCP over lanes on this port.
fn lane(port: Option<Port>) -> String {
    format!("TCP over LANE, {}", port.map_or("shm", Port::name))
}

fn hosts_part(
    net: Net,
    (way, wait): (Way, Wait),
    series: String,
    work: Work,
    effort: Effort,
) -> Part {
    let part = part(Scenario::Hosts, (way, wait, Cpus::Apart), series, work, effort);
    Part { net: Some(net), ..part }
}

pub(super) fn parts(effort: Effort) -> Vec<Part> {
    let mut parts = Vec::new();
    for mtu in MTUS {
        netpipe(mtu, effort, &mut parts);
    }
    streams(effort, &mut parts);
    parts
}

fn netpipe(mtu: u32, effort: Effort, parts: &mut Vec<Part>) {
    let sizes = netpipe_sizes(effort);
    // The time is shorter, because there are many points.
    let effort = Effort { seconds: effort.seconds / 2.0, ..effort };
    let work = || Work::PingPong { sizes: sizes.clone() };
    for port in Port::ALL {
        for wait in [Wait::Poll, Wait::Block, Wait::Sleep] {
            let net = Net { link: LinkKind { mtu, offloads: true }, port: Some(port) };
            let series = format!("MTU {mtu}, VI {}, {}", port.name(), waiting(wait));
            parts.push(hosts_part(net, (Way::SendRecv, wait), series, work(), effort));
        }
    }
    for offloads in [true, false] {
        // TCP's blocking calls sleep at once.
        for wait in [Wait::Poll, Wait::Sleep] {
            let net = Net { link: LinkKind { mtu, offloads }, port: None };
            let without = if offloads { "" } else { " without offloads" };
            let series = format!("MTU {mtu}, TCP{without}, {}", waiting(wait));
            parts.push(hosts_part(net, (Way::Tcp, wait), series, work(), effort));
        }
    }
    for port in LANES {
        for wait in [Wait::Poll, Wait::Sleep] {
            let net = Net { link: LinkKind { mtu, offloads: true }, port };
            let series = format!("MTU {mtu}, {}, {}", lane(port), waiting(wait));
            parts.push(hosts_part(net, (Way::Lane, wait), series, work(), effort));
        }
    }
}

/// Adds latency and bandwidth by size, as in the ICS paper's figures 5 and 8 and table 2, at the MTU of its Fast
/// Ethernet.
fn streams(effort: Effort, parts: &mut Vec<Part>) {
    let step = if effort.quick { 4 } else { 1 };
    let sizes: Vec<usize> = (2..=15).step_by(step).chain([15]).map(|bits| 1 << bits).collect();
    let mut sizes = sizes;
    sizes.dedup();
    let exact = |&base: &usize| Perturbed { base, off: 0 };
    let latency = || Work::PingPong { sizes: sizes.iter().map(exact).collect() };
    let bandwidth = || Work::OneWay { sizes: sizes.clone() };
    let link = LinkKind { mtu: 1500, offloads: true };
    let mut put = |what: &str, name: &str, way, port: Option<Port>, work| {
        let series = match port {
            Some(port) => format!("{what}, {name}, {}", port.name()),
            None => format!("{what}, {name}"),
        };
        let part = hosts_part(Net { link, port }, (way, Wait::Block), series, work, effort);
        let configuration = (way == Way::Sovia).then(|| name.to_owned());
        parts.push(Part { configuration, ..part });
    };
    put("latency", "TCP", Way::Tcp, None, latency());
    put("bandwidth", "TCP", Way::Tcp, None, bandwidth());
    for port in LANES {
        // The port's name is appended later.
        let name = if port.is_none() { "TCP over LANE, shm" } else { "TCP over LANE" };
        put("latency", name, Way::Lane, port, latency());
        put("bandwidth", name, Way::Lane, port, bandwidth());
    }
    for port in STREAMS {
        put("latency", "native VIA", Way::SendRecv, Some(port), latency());
        for name in LATENCIES {
            put("latency", name, Way::Sovia, Some(port), latency());
        }
        put("bandwidth", "native VIA", Way::SendRecv, Some(port), bandwidth());
        for name in BANDWIDTHS {
            put("bandwidth", name, Way::Sovia, Some(port), bandwidth());
        }
    }
}

/// Series in one picture and one table.
pub(in crate::measure::bench::papers) struct Group {
    pub(in crate::measure::bench::papers) title: String,
    pub(in crate::measure::bench::papers) metric: Metric,
    of: Box<dyn Fn(&Part) -> bool>,
}

impl Group {
    pub(in crate::measure::bench::papers) fn has(&self, part: &Part) -> bool {
        (self.of)(part)
    }

    /// Returns the name of the picture's file.
    pub(in crate::measure::bench::papers) fn file(&self) -> String {
        format!("hosts-{}-{}", self.title, self.metric.name()).replace([' ', ',', '_'], "-")
    }
}

/// Returns all groups. For each MTU there are groups of polling series, and groups of blocking or sleeping ones. There
/// are groups of SOVIA over each port.
pub(in crate::measure::bench::papers) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for mtu in MTUS {
        for (polls, how) in [(true, "polling"), (false, "waiting")] {
            for metric in [Metric::HalfTrip, Metric::Throughput] {
                let prefix = format!("MTU {mtu},");
                groups.push(Group {
                    title: format!("NetPIPE MTU {mtu} {how}"),
                    metric,
                    of: Box::new(move |part| {
                        part.series.starts_with(&prefix) && (part.wait == Wait::Poll) == polls
                    }),
                });
            }
        }
    }
    for port in STREAMS {
        for (what, metric) in [("latency", Metric::HalfTrip), ("bandwidth", Metric::Throughput)] {
            groups.push(Group {
                title: format!("SOVIA {what} {}", port.name()),
                metric,
                of: Box::new(move |part| {
                    let on = part.net.and_then(|net| net.port);
                    part.series.starts_with(what) && on.is_none_or(|on| on == port)
                }),
            });
        }
    }
    groups
}
