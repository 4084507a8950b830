//! Plan of each scenario: its parts, with sizes and counts.

pub(super) mod hosts;
mod registration;
mod sovia;

use super::work::{Buffers, Part, Perturbed, Scenario, Spread, Strategy, Way, Work};
use crate::measure::bench::layer::Layer;
use crate::measure::bench::nic::Places;
use crate::measure::bench::task::{Cpus, Scenario as Plain, Wait};

/// Extent of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// True for a few sizes instead of all.
    pub(super) quick: bool,
    /// Time for each point.
    pub(super) seconds: f64,
    /// NetPIPE's perturbation in bytes; 0 for none.
    pub(super) perturbation: usize,
    /// Number of idle VIs whose memory is measured.
    pub(super) vis: usize,
    /// Longest message of NetPIPE's sweep.
    pub(super) largest: usize,
}

const WAYS: [Way; 2] = [Way::SendRecv, Way::RdmaWrite];
const WAITS: [Wait; 3] = [Wait::Poll, Wait::Block, Wait::Sleep];
/// Numbers of outstanding messages in the paper's Figs. 8 to 10.
const OUTSTANDING: [usize; 3] = [1, 2, 5];
/// Name, in series, of TCP as in the papers' figures of bandwidth.
const NAGLE: &str = "TCP with Nagle";
/// Upper bound of the longest message in NetPIPE's sweep.
pub(super) const NETPIPE_BYTES_MAX: usize = 8 << 20;

/// Returns the parts of a scenario. They take turns in every run.
pub(super) fn parts(scenario: Scenario, effort: Effort) -> Vec<Part> {
    match scenario {
        Scenario::Loops => loops(effort),
        Scenario::Throughput => throughput(effort),
        Scenario::Strided => strided(effort),
        Scenario::Scatter => scatter(effort),
        Scenario::Queues => queues(effort),
        Scenario::Netpipe => netpipe(effort),
        Scenario::Calls => calls(effort),
        Scenario::Memory => memory(effort),
        Scenario::Registration => registration::parts(effort),
        Scenario::Sovia => sovia::parts(effort),
        Scenario::Buffers => buffers(effort),
        Scenario::Hosts => hosts::parts(effort),
        // Other commands measure these scenarios.
        Scenario::Rpc | Scenario::Ftp | Scenario::Emp => Vec::new(),
    }
}

fn part(
    scenario: Scenario,
    (way, wait, cpus): (Way, Wait, Cpus),
    series: String,
    work: Work,
    effort: Effort,
) -> Part {
    let (configuration, nagle, net, nic) = (None, false, None, None);
    let seconds = effort.seconds;
    Part { scenario, series, way, wait, cpus, work, configuration, nagle, net, nic, seconds }
}

/// Returns the parts of a scenario, with their VIs on NICs in the given places or in shared memory. On NICs, parts that
/// only shared memory supports are left out.
pub(super) fn parts_on(scenario: Scenario, effort: Effort, nic: Option<&Places>) -> Vec<Part> {
    let mut parts = parts(scenario, effort);
    let Some(places) = nic else { return parts };
    // Sovia's sockets choose their NICs themselves: shared memory between processes of a host.
    let elsewhere = |part: &Part| {
        !matches!(part.work, Work::Layer { .. }) && !matches!(part.way, Way::Run | Way::Native)
    };
    parts.retain(elsewhere);
    for part in &mut parts {
        if !matches!(part.way, Way::Tcp | Way::Unix) {
            part.nic = Some(places.clone());
        }
    }
    parts
}

/// Describes how an end waits. A NIC's blocking calls poll for a while before they sleep.
pub(super) fn waiting(wait: Wait) -> &'static str {
    match wait {
        Wait::Poll => "polling",
        Wait::Block => "blocking",
        Wait::Sleep => "sleeping",
    }
}

fn loops(effort: Effort) -> Vec<Part> {
    let each = |(way, wait): (Way, Wait)| {
        let series = format!("{}, {}", way.title(), waiting(wait));
        part(Scenario::Loops, (way, wait, Cpus::Apart), series, Work::Loops, effort)
    };
    WAYS.into_iter().flat_map(|way| WAITS.map(|wait| (way, wait))).map(each).collect()
}

fn throughput(effort: Effort) -> Vec<Part> {
    let sizes: Vec<usize> = if effort.quick {
        vec![64, 1 << 10, 8 << 10, 64 << 10, 1 << 20]
    } else {
        (2..=23).filter(|bits| *bits <= 20 || bits % 2 == 1).map(|bits| 1 << bits).collect()
    };
    let mut kinds: Vec<_> =
        WAYS.into_iter().flat_map(|way| WAITS.map(|wait| (way, wait))).collect();
    // TCP's blocking calls sleep at once.
    kinds.extend([(Way::Tcp, Wait::Poll), (Way::Tcp, Wait::Sleep)]);
    let mut parts = Vec::new();
    for is_one_way in [true, false] {
        for &(way, wait) in &kinds {
            let direction = if is_one_way { "one way" } else { "two way" };
            let series = format!("{direction}, {}, {}", way.title(), waiting(wait));
            let work = if is_one_way {
                Work::OneWay { sizes: sizes.clone() }
            } else {
                let exact = |&base: &usize| Perturbed { base, off: 0 };
                Work::PingPong { sizes: sizes.iter().map(exact).collect() }
            };
            let part = part(Scenario::Throughput, (way, wait, Cpus::Apart), series, work, effort);
            if way == Way::Tcp && is_one_way {
                let series = format!("one way, {NAGLE}, {}", waiting(wait));
                parts.push(Part { series, nagle: true, ..part.clone() });
            }
            parts.push(part);
        }
    }
    parts
}

fn strided(effort: Effort) -> Vec<Part> {
    let strides: Vec<usize> =
        if effort.quick { vec![1, 8, 64] } else { (0..=7).map(|bits| 1 << bits).collect() };
    [
        (Spread::None, Way::Local, "local copy"),
        (Spread::Copied, Way::SendRecv, "sent as a block, then copied"),
        (Spread::Segments, Way::SendRecv, "received by segments"),
    ]
    .into_iter()
    .map(|(spread, way, series)| {
        let work = Work::Strided { spread, strides: strides.clone() };
        let how = (way, Wait::Poll, Cpus::Apart);
        part(Scenario::Strided, how, series.to_owned(), work, effort)
    })
    .collect()
}

fn scatter(effort: Effort) -> Vec<Part> {
    let blocks: Vec<usize> =
        if effort.quick { vec![8, 64, 1024] } else { (3..=10).map(|bits| 1 << bits).collect() };
    [
        (Spread::Segments, Wait::Poll, "32 segments, polling"),
        (Spread::Segments, Wait::Block, "32 segments, blocking"),
        (Spread::Segments, Wait::Sleep, "32 segments, sleeping"),
        (Spread::Copied, Wait::Poll, "one segment, then copied, polling"),
        (Spread::None, Wait::Poll, "one segment, polling"),
    ]
    .into_iter()
    .map(|(spread, wait, series)| {
        let work = Work::Scatter { spread, blocks: blocks.clone() };
        let how = (Way::SendRecv, wait, Cpus::Apart);
        part(Scenario::Scatter, how, series.to_owned(), work, effort)
    })
    .collect()
}

/// Returns the name of a series of the scenario `queues`.
pub(super) fn queue_series(strategy: Strategy, outstanding: usize, size: usize) -> String {
    let strategy = match strategy {
        Strategy::CompletionQueue => "completion queue",
        Strategy::RoundRobin => "round robin",
    };
    format!("{strategy}, {outstanding} outstanding, {size} B")
}

fn queues(effort: Effort) -> Vec<Part> {
    let (sizes, vis): (&[usize], &[usize]) = if effort.quick {
        (&[4096], &[1, 4, 16, 64])
    } else {
        (&[4, 4096], &[1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64])
    };
    let mut parts = Vec::new();
    for &size in sizes {
        for outstanding in OUTSTANDING {
            for strategy in [Strategy::CompletionQueue, Strategy::RoundRobin] {
                let series = queue_series(strategy, outstanding, size);
                let work = Work::Queues { strategy, outstanding, size, vis: vis.to_vec() };
                let how = (Way::SendRecv, Wait::Poll, Cpus::Apart);
                parts.push(part(Scenario::Queues, how, series, work, effort));
            }
        }
    }
    parts
}

/// Returns NetPIPE's sizes: powers of two and the values halfway between them. A size also has its perturbations if the
/// next size is far enough.
fn netpipe_sizes(Effort { quick, perturbation, largest, .. }: Effort) -> Vec<Perturbed> {
    let bases: Vec<usize> = if quick {
        (0..=23).step_by(3).chain([23]).map(|bits| 1 << bits).collect()
    } else {
        let bits = (0..=23).map(|bits| 1usize << bits);
        bits.flat_map(|size| [size, size + size / 2]).collect()
    };
    let mut sizes = Vec::new();
    for base in bases {
        if base > largest || sizes.last().is_some_and(|last: &Perturbed| last.base >= base) {
            continue;
        }
        let off = perturbation as i32;
        let offs =
            if off > 0 && base / 2 > perturbation + 1 { vec![-off, 0, off] } else { vec![0] };
        sizes.extend(offs.into_iter().map(|off| Perturbed { base, off }));
    }
    sizes
}

/// Words for the ends' processors in names of series.
const APART: &str = "a processor each";
const TOGETHER: &str = "both on one";

fn netpipe(effort: Effort) -> Vec<Part> {
    let sizes = netpipe_sizes(effort);
    [
        (Way::SendRecv, Wait::Poll, Cpus::Apart),
        (Way::SendRecv, Wait::Block, Cpus::Apart),
        (Way::SendRecv, Wait::Sleep, Cpus::Apart),
        (Way::RdmaWrite, Wait::Poll, Cpus::Apart),
        (Way::RdmaWrite, Wait::Block, Cpus::Apart),
        (Way::RdmaWrite, Wait::Sleep, Cpus::Apart),
        (Way::Tcp, Wait::Poll, Cpus::Apart),
        (Way::Tcp, Wait::Sleep, Cpus::Apart),
        (Way::Unix, Wait::Poll, Cpus::Apart),
        (Way::Unix, Wait::Sleep, Cpus::Apart),
        // On one processor, two spinning ends would wait for each other's time slices.
        (Way::SendRecv, Wait::Sleep, Cpus::Together),
        (Way::RdmaWrite, Wait::Sleep, Cpus::Together),
        (Way::Tcp, Wait::Sleep, Cpus::Together),
        (Way::Unix, Wait::Sleep, Cpus::Together),
    ]
    .into_iter()
    .map(|(way, wait, cpus)| {
        let processors = if cpus == Cpus::Together { TOGETHER } else { APART };
        let series = format!("{}, {}, {processors}", way.title(), waiting(wait));
        let work = Work::PingPong { sizes: sizes.clone() };
        // The time is shorter, because there are many points.
        let effort = Effort { seconds: effort.seconds / 2.0, ..effort };
        part(Scenario::Netpipe, (way, wait, cpus), series, work, effort)
    })
    .collect()
}

fn calls(effort: Effort) -> Vec<Part> {
    let poll = |way| (way, Wait::Poll, Cpus::Apart);
    let mut parts = vec![part(
        Scenario::Calls,
        poll(Way::SendRecv),
        "single calls".to_owned(),
        Work::Calls,
        effort,
    )];
    let mut both = |what: &str, scenario, size| {
        for (layer, way) in [(Layer::Ring, Way::Ring), (Layer::Via, Way::SendRecv)] {
            let series = format!("{what}, {}", if way == Way::Ring { "bare ring" } else { "VI" });
            let work = Work::Layer { scenario, layer, size };
            parts.push(part(Scenario::Calls, poll(way), series, work, effort));
        }
    };
    both("one way", Plain::Latency, 4);
    both("stream of small messages", Plain::Rate, 64);
    both("stream of 64 KB", Plain::Bandwidth, 64 << 10);
    let size = 1 << 20;
    for (what, work) in [
        ("one way", Work::OneWay { sizes: vec![size] }),
        ("two way", Work::PingPong { sizes: vec![Perturbed { base: size, off: 0 }] }),
    ] {
        let series = format!("RDMA write of 1 MB, {what}");
        parts.push(part(Scenario::Calls, poll(Way::RdmaWrite), series, work, effort));
    }
    parts
}

fn memory(effort: Effort) -> Vec<Part> {
    let work = Work::Memory { vis: effort.vis };
    let how = (Way::SendRecv, Wait::Block, Cpus::Apart);
    vec![part(Scenario::Memory, how, "idle connected VIs".to_owned(), work, effort)]
}

/// Returns parts with messages to and from uncached memory, which the receiver reads or not, beside the usual loop.
fn buffers(effort: Effort) -> Vec<Part> {
    let step = if effort.quick { 4 } else { 2 };
    let sizes: Vec<usize> = (6..=20).step_by(step).map(|bits| 1 << bits).collect();
    let kinds = [(Buffers::Hot, "hot"), (Buffers::Cold, "cold"), (Buffers::Read, "cold, read")];
    [(Way::SendRecv, Wait::Poll), (Way::Tcp, Wait::Poll)]
        .into_iter()
        .flat_map(|(way, wait)| {
            kinds.map(|(buffers, name)| {
                let series = format!("{}, {}, {name}", way.title(), waiting(wait));
                let work = Work::Buffers { buffers, sizes: sizes.clone() };
                part(Scenario::Buffers, (way, wait, Cpus::Apart), series, work, effort)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort {
        quick: false,
        seconds: 0.01,
        perturbation: 3,
        vis: 100,
        largest: NETPIPE_BYTES_MAX,
    };

    #[test]
    fn netpipe_goes_from_1_byte_to_8_mb() {
        let all: Vec<_> = netpipe_sizes(EFFORT).iter().map(|size| size.size()).collect();
        assert_eq!(all[..7], [1, 2, 3, 4, 6, 8, 9]);
        assert_eq!(all.last(), Some(&((8 << 20) + 3)));
        let exact = Effort { perturbation: 0, ..EFFORT };
        assert_eq!(netpipe_sizes(exact).len(), 46);
        assert!(netpipe_sizes(Effort { quick: true, ..exact }).len() < 12);
        let short = netpipe_sizes(Effort { largest: 64 << 10, ..exact });
        assert_eq!(short.last().map(|size| size.size()), Some(64 << 10));
    }

    #[test]
    fn all_but_sockets_have_the_nic_that_is_asked_for() {
        let places: Places = "udp:10.0.0.1:0".parse().unwrap();
        for scenario in Scenario::ALL {
            let parts = parts_on(scenario, EFFORT, Some(&places));
            assert!(!parts.is_empty(), "{scenario}");
            for part in parts {
                let is_kernels = matches!(part.way, Way::Tcp | Way::Unix);
                assert_eq!(part.nic.is_none(), is_kernels, "{}", part.series);
                assert!(!matches!(part.way, Way::Ring), "{}", part.series);
            }
        }
    }

    #[test]
    fn every_series_has_a_name_of_its_own() {
        for scenario in Scenario::ALL.into_iter().chain([Scenario::Hosts]) {
            for quick in [false, true] {
                let parts = parts(scenario, Effort { quick, ..EFFORT });
                let names: std::collections::BTreeSet<_> =
                    parts.iter().map(|part| &part.series).collect();
                assert_eq!(names.len(), parts.len(), "{scenario}");
                assert!(parts.iter().all(|part| part.points() > 0 && part.scenario == scenario));
            }
        }
    }
}
