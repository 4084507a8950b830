//! What the papers report, each figure with its place, and which of ours stands beside it.
//!
//! Their machines are two Pentium III PCs of 450 MHz with an adapter each; ours is one machine.
//! So a figure says how far apart the two are, and the quotients (one way of doing it by another)
//! whether what was learnt then holds here.

use super::work::{End, Metric, Scenario};

/// A paper.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paper {
    pub(super) title: &'static str,
    pub(super) reference: &'static str,
}

/// Latency, throughput, strided copy, scattering and completion queues on cLAN.
pub(super) const FEATURES: Paper = Paper {
    title: "VI architecture communication features and performance on the Giganet cluster LAN",
    reference: "H. Hellwagner, M. Ohlenroth; Future Generation Computer Systems 18 (2002), 421–433",
};

/// NetPIPE over cLAN and M-VIA, with one and two processors.
pub(super) const NETPIPE: Paper = Paper {
    title: "VIA Communication Performance on a Gigabit Ethernet Cluster",
    reference: "M. Baker, P. A. Farrell, H. Ong, S. L. Scott; Euro-Par 2001, 132–141",
};

/// Native VIA as the ground that SOVIA's sockets stand on.
pub(super) const SOVIA: Paper = Paper {
    title: "Building a High Performance Communication Layer over Virtual Interface Architecture on \
            Linux Clusters",
    reference: "J.-S. Kim, K. Kim, S.-I. Jung; ICS 2001",
};

/// The same as the sockets of FTP and RPC.
pub(super) const CLUSTER: Paper = Paper {
    title: "SOVIA: A User-level Sockets Layer over Virtual Interface Architecture",
    reference: "J.-S. Kim, K. Kim, S.-I. Jung; CLUSTER 2001",
};

/// The papers, in the order of the report.
pub(super) const PAPERS: [&Paper; 4] = [&FEATURES, &NETPIPE, &SOVIA, &CLUSTER];

/// One of our figures, found by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    pub(super) scenario: Scenario,
    pub(super) series: &'static str,
    pub(super) end: End,
    pub(super) metric: Metric,
    pub(super) pick: Pick,
}

/// Which point of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    At(u64),
    /// The greatest
    Peak,
    /// The last
    Last,
}

/// What of ours stands beside a published figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beside {
    Figure(Ours),
    /// The first by the second.
    Quotient(Ours, Ours),
    /// The least x from which on the first series takes no more than the second.
    Crossing(Ours, Ours),
    /// Nothing: their ends had two processors each, which is not measured. Shown with the figures of that scenario.
    Nothing(Scenario),
}

/// What a paper found of two of its figures, to be tried on two of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding {
    pub(super) paper: &'static Paper,
    pub(super) place: &'static str,
    pub(super) what: &'static str,
    /// Their quotient.
    pub(super) value: f64,
    /// It holds where the first of ours by the second is not less and not more than that.
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

const fn ours(scenario: Scenario, series: &'static str, metric: Metric, pick: Pick) -> Ours {
    Ours { scenario, series, end: End::Requester, metric, pick }
}

const fn trip(series: &'static str) -> Ours {
    ours(Scenario::Loops, series, Metric::RoundTrip, Pick::At(4))
}

const fn call(series: &'static str, metric: Metric) -> Ours {
    ours(Scenario::Loops, series, metric, Pick::At(4))
}

const fn peak(scenario: Scenario, series: &'static str) -> Ours {
    ours(scenario, series, Metric::Throughput, Pick::Peak)
}

const fn last(scenario: Scenario, series: &'static str) -> Ours {
    ours(scenario, series, Metric::Throughput, Pick::Last)
}

const fn netpipe(series: &'static str) -> Ours {
    ours(Scenario::Netpipe, series, Metric::HalfTrip, Pick::At(1))
}

const fn queue(series: &'static str, pick: Pick) -> Ours {
    ours(Scenario::Queues, series, Metric::PerMessage, pick)
}

const SEND_POLL: &str = "send/receive, polling";
const SEND_BLOCK: &str = "send/receive, blocking";
const WRITE_POLL: &str = "RDMA write, polling";
const WRITE_BLOCK: &str = "RDMA write, blocking";
const ONE_WAY_SEND: &str = "one way, send/receive, polling";
const ONE_WAY_WRITE: &str = "one way, RDMA write, polling";
const ONE_WAY_TCP: &str = "one way, TCP, blocking";
const LOCAL: &str = "local copy";
const COPIED: &str = "sent as a block, then copied";
const SEGMENTS: &str = "received by segments";
const SCATTERED: &str = "32 segments, polling";
const UNSCATTERED: &str = "one segment, polling";
const CQ_1: &str = "completion queue, 1 outstanding, 4096 B";
const RR_1: &str = "round robin, 1 outstanding, 4096 B";
const CQ_2: &str = "completion queue, 2 outstanding, 4096 B";
const RR_2: &str = "round robin, 2 outstanding, 4096 B";
const CQ_5: &str = "completion queue, 5 outstanding, 4096 B";
const RR_5: &str = "round robin, 5 outstanding, 4096 B";
const TWO_TCP: &str = "TCP, blocking, two processors";
const TWO_POLL: &str = "send/receive, polling, two processors";
const TWO_BLOCK: &str = "send/receive, blocking, two processors";
const ONE_TCP: &str = "TCP, blocking, one processor";
const ONE_BLOCK: &str = "send/receive, blocking, one processor";

const ONE_WAY_VI: Ours = ours(Scenario::Calls, "one way, VI", Metric::HalfTrip, Pick::At(4));

/// 4 bytes one way over a stream, or what stands beside it.
const fn stream(series: &'static str) -> Ours {
    ours(Scenario::Sovia, series, Metric::HalfTrip, Pick::At(4))
}

/// As many bytes at a time, one way as fast as possible.
const fn flow(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Sovia, series, Metric::Throughput, Pick::At(size))
}

/// Processor time of an end, while 32 KB at a time go one way at the papers' pace.
const fn load(series: &'static str, end: End) -> Ours {
    Ours { end, ..ours(Scenario::Sovia, series, Metric::Processor, Pick::At(32768)) }
}

const PACED: &str = "paced, SOVIA_COMBINE";

/// Making the bytes of a send ready.
const fn preparing(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Registration, series, Metric::Preparing, Pick::At(size))
}

const REGISTERED: Ours = preparing("registered", 1024);
const PINNED: Ours = preparing("pinned (mlock, munlock)", 1024);
const UNCACHED: Ours = preparing("copied, uncached", 1024);
const CACHED: Ours = preparing("copied, cached", 1024);

const ONE_VIA: Ours = stream("one processor, native VIA");
const TWO_VIA: Ours = stream("two processors, native VIA");
const REG: Ours = ours(Scenario::Sovia, "transfer, SOVIA_REG", Metric::HalfTrip, Pick::At(4));
const COPY: Ours = ours(Scenario::Sovia, "transfer, SOVIA_COPY", Metric::HalfTrip, Pick::At(4));
const FLOW_VIA: &str = "bandwidth, native VIA";

/// One byte between hosts.
const fn byte(series: &'static str) -> Ours {
    ours(Scenario::Hosts, series, Metric::HalfTrip, Pick::At(1))
}

/// Four bytes between hosts, over a stream or beside it.
const fn four(series: &'static str) -> Ours {
    ours(Scenario::Hosts, series, Metric::HalfTrip, Pick::At(4))
}

/// 32 KB at a time between hosts, one way as fast as possible.
const fn bulk(series: &'static str) -> Ours {
    ours(Scenario::Hosts, series, Metric::Throughput, Pick::At(32768))
}

/// TCP over IP over VIs in shared memory, which have cLAN's place.
const LANE: &str = "MTU 9000, TCP over LANE, shm, sleeping";
const ETH_POLL: &str = "MTU 1500, VI eth, polling";
const ETH_BLOCK: &str = "MTU 1500, VI eth, blocking";
const ETH_SLEEP: &str = "MTU 1500, VI eth, sleeping";
const UDP_POLL: &str = "MTU 1500, VI udp, polling";
/// The papers' cards cut no segments.
const WIRE_TCP: &str = "MTU 1500, TCP without offloads, sleeping";
const JUMBO_POLL: &str = "MTU 9000, VI eth, polling";
const JUMBO_BLOCK: &str = "MTU 9000, VI eth, blocking";
const JUMBO_TCP: &str = "MTU 9000, TCP without offloads, sleeping";
const HOSTS_VIA: Ours = four("latency, native VIA, eth");

const ANY: f64 = f64::INFINITY;

/// Every finding that is tried.
pub(super) const FINDINGS: &[Finding] = &[
    finding(
        &NETPIPE,
        "Table 1, SK-9821",
        "TCP's latency by VIA's, polling",
        63.0 / 29.0,
        (1.5, ANY),
        byte(WIRE_TCP),
        byte(ETH_POLL),
    ),
    finding(
        &NETPIPE,
        "Table 1, SK-9821",
        "TCP's latency by VIA's, blocking (M-VIA looks all the time)",
        63.0 / 29.0,
        (1.5, ANY),
        byte(WIRE_TCP),
        byte(ETH_BLOCK),
    ),
    finding(
        &NETPIPE,
        "Table 1, SK-9821",
        "TCP's latency by VIA's, both sleeping",
        63.0 / 29.0,
        (1.5, ANY),
        byte(WIRE_TCP),
        byte(ETH_SLEEP),
    ),
    finding(
        &NETPIPE,
        "Table 1, SK-9821",
        "TCP's latency by VIA's over UDP, polling",
        63.0 / 29.0,
        (1.5, ANY),
        byte(WIRE_TCP),
        byte(UDP_POLL),
    ),
    finding(
        &NETPIPE,
        "Table 1, SK-9821",
        "blocking as fast as polling, one byte",
        1.0,
        (0.9, 1.1),
        byte(ETH_BLOCK),
        byte(ETH_POLL),
    ),
    finding(
        &NETPIPE,
        "Sec. 5.3, Fig. 5",
        "TCP's latency by VIA's, MTU 9000, polling",
        54.0 / 24.0,
        (1.5, ANY),
        byte(JUMBO_TCP),
        byte(JUMBO_POLL),
    ),
    finding(
        &NETPIPE,
        "Sec. 5.2, Fig. 4",
        "VIA's peak by TCP's, polling",
        520.0 / 296.0,
        (1.0, ANY),
        peak(Scenario::Hosts, ETH_POLL),
        peak(Scenario::Hosts, WIRE_TCP),
    ),
    finding(
        &NETPIPE,
        "Sec. 5.3, Fig. 5",
        "MTU 9000 doubles TCP's peak",
        574.0 / 296.0,
        (1.6, 2.4),
        peak(Scenario::Hosts, JUMBO_TCP),
        peak(Scenario::Hosts, WIRE_TCP),
    ),
    finding(
        &NETPIPE,
        "Sec. 5.3, Fig. 5",
        "MTU 9000 adds 20 % to VIA's peak, polling",
        648.0 / 520.0,
        (1.1, 1.4),
        peak(Scenario::Hosts, JUMBO_POLL),
        peak(Scenario::Hosts, ETH_POLL),
    ),
    finding(
        &NETPIPE,
        "Sec. 5.3, Fig. 5",
        "MTU 9000 adds 20 % to VIA's peak, blocking",
        632.0 / 520.0,
        (1.1, 1.4),
        peak(Scenario::Hosts, JUMBO_BLOCK),
        peak(Scenario::Hosts, ETH_BLOCK),
    ),
    finding(
        &NETPIPE,
        "Sec. 5.3, Fig. 5",
        "MTU 9000 makes VIA's latency no longer",
        24.0 / 29.0,
        (0.0, 1.05),
        byte(JUMBO_POLL),
        byte(ETH_POLL),
    ),
    finding(
        &SOVIA,
        "Fig. 5, M-VIA",
        "TCP by native VIA, 4 bytes",
        75.6 / 43.3,
        (1.5, ANY),
        four("latency, TCP"),
        HOSTS_VIA,
    ),
    finding(
        &SOVIA,
        "Fig. 5, M-VIA",
        "SOVIA_HANDLER by SOVIA_SINGLE, 4 bytes",
        83.3 / 57.6,
        (1.2, ANY),
        four("latency, SOVIA_HANDLER, eth"),
        four("latency, SOVIA_SINGLE, eth"),
    ),
    finding(
        &SOVIA,
        "Fig. 5, M-VIA",
        "SOVIA_NOTIFY as SOVIA_HANDLER, 4 bytes",
        88.5 / 83.3,
        (0.8, 1.3),
        four("latency, SOVIA_NOTIFY, eth"),
        four("latency, SOVIA_HANDLER, eth"),
    ),
    finding(
        &SOVIA,
        "Fig. 5, M-VIA",
        "SOVIA_SINGLE faster than TCP, 4 bytes",
        57.6 / 75.6,
        (0.0, 1.0),
        four("latency, SOVIA_SINGLE, eth"),
        four("latency, TCP"),
    ),
    finding(
        &SOVIA,
        "Table 2, M-VIA",
        "SOVIA_COPY near native VIA, 4 bytes",
        45.0 / 43.3,
        (0.9, 1.15),
        four("latency, SOVIA_COPY, eth"),
        HOSTS_VIA,
    ),
    finding(
        &SOVIA,
        "Table 2, M-VIA",
        "SOVIA_HYBRID as SOVIA_COPY, 4 bytes",
        1.0,
        (0.9, 1.1),
        four("latency, SOVIA_HYBRID, eth"),
        four("latency, SOVIA_COPY, eth"),
    ),
    finding(
        &SOVIA,
        "Fig. 8, M-VIA",
        "SOVIA_DACKS near native VIA, 32 KB",
        1.0,
        (0.85, 1.15),
        bulk("bandwidth, SOVIA_DACKS, eth"),
        bulk("bandwidth, native VIA, eth"),
    ),
];

#[allow(clippy::too_many_arguments, reason = "a line of the table")]
const fn finding(
    paper: &'static Paper,
    place: &'static str,
    what: &'static str,
    value: f64,
    bounds: (f64, f64),
    a: Ours,
    b: Ours,
) -> Finding {
    Finding { paper, place, what, value, bounds, a, b }
}

const TWO_EACH: Beside = Beside::Nothing(Scenario::Hosts);

macro_rules! facts {
    ($($paper:ident $place:literal: $what:literal, $value:expr, $unit:literal, $beside:expr;)+) => {
        /// Every figure that is compared.
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

use Beside::{Crossing, Figure, Quotient};

facts! {
    FEATURES "Table 2, Linux": "round trip, send/receive, polling", 14.8, "us", Figure(trip(SEND_POLL));
    FEATURES "Table 2, Linux": "round trip, send/receive, blocking", 33.0, "us", Figure(trip(SEND_BLOCK));
    FEATURES "Table 2, Linux": "round trip, RDMA write, polling", 15.0, "us", Figure(trip(WRITE_POLL));
    FEATURES "Table 2, Linux": "round trip, RDMA write, blocking", 15.6, "us", Figure(trip(WRITE_BLOCK));
    FEATURES "Table 2, Linux": "send/receive, blocking by polling", 33.0 / 14.8, "", Quotient(trip(SEND_BLOCK), trip(SEND_POLL));
    FEATURES "Table 2, Linux": "RDMA write by send/receive, polling", 15.0 / 14.8, "", Quotient(trip(WRITE_POLL), trip(SEND_POLL));
    FEATURES "Sec. 3.2": "posting a send (770 to 900 ns)", 835.0, "ns", Figure(call(SEND_POLL, Metric::PostSend));
    FEATURES "Sec. 3.2": "posting a receive (770 to 900 ns)", 835.0, "ns", Figure(call(SEND_POLL, Metric::PostRecv));
    FEATURES "Sec. 3.2": "send done, until it is, RDMA write (3.0 to 4.1 us)", 3550.0, "ns", Figure(call(WRITE_POLL, Metric::SendDone));
    FEATURES "Sec. 3.2, Fig. 3": "send wait, RDMA write", 11_700.0, "ns", Figure(call(WRITE_BLOCK, Metric::SendWait));
    FEATURES "Sec. 3.2": "send wait, send/receive", 4900.0, "ns", Figure(call(SEND_BLOCK, Metric::SendWait));
    FEATURES "Sec. 3.3": "peak of send/receive", 830.0, "Mbit/s", Figure(peak(Scenario::Throughput, ONE_WAY_SEND));
    FEATURES "Sec. 3.3": "peak of RDMA write", 869.0, "Mbit/s", Figure(peak(Scenario::Throughput, ONE_WAY_WRITE));
    FEATURES "Sec. 3.3, Fig. 4": "peak of TCP, Windows NT", 133.0, "Mbit/s", Figure(peak(Scenario::Throughput, ONE_WAY_TCP));
    FEATURES "Sec. 3.3": "peak, RDMA write by send/receive", 869.0 / 830.0, "", Quotient(peak(Scenario::Throughput, ONE_WAY_WRITE), peak(Scenario::Throughput, ONE_WAY_SEND));
    FEATURES "Sec. 3.3": "peak, send/receive by TCP", 830.0 / 133.0, "", Quotient(peak(Scenario::Throughput, ONE_WAY_SEND), peak(Scenario::Throughput, ONE_WAY_TCP));
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, local, peak (more than)", 3000.0, "Mbit/s", Figure(peak(Scenario::Strided, LOCAL));
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, sent as a block, Linux", 653.0, "Mbit/s", Figure(peak(Scenario::Strided, COPIED));
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, received by segments (22 to 26)", 24.0, "Mbit/s", Figure(peak(Scenario::Strided, SEGMENTS));
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, block by segments", 653.0 / 24.0, "", Quotient(peak(Scenario::Strided, COPIED), peak(Scenario::Strided, SEGMENTS));
    FEATURES "Sec. 3.4, Fig. 7": "32 segments of 1024 bytes, Linux, polling", 731.0, "Mbit/s", Figure(last(Scenario::Scatter, SCATTERED));
    FEATURES "Sec. 3.4, Fig. 7": "32 segments of 1024 bytes by the peak in one", 731.0 / 830.0, "", Quotient(last(Scenario::Scatter, SCATTERED), last(Scenario::Scatter, UNSCATTERED));
    FEATURES "Sec. 3.5, Fig. 8": "completion queue by round robin, one VI, one outstanding", 1.03, "", Quotient(queue(CQ_1, Pick::At(1)), queue(RR_1, Pick::At(1)));
    FEATURES "Sec. 3.5, Fig. 9": "completion queue by round robin, one VI, two outstanding", 1.018, "", Quotient(queue(CQ_2, Pick::At(1)), queue(RR_2, Pick::At(1)));
    FEATURES "Sec. 3.5, Fig. 10": "completion queue by round robin, one VI, five outstanding", 1.005, "", Quotient(queue(CQ_5, Pick::At(1)), queue(RR_5, Pick::At(1)));
    FEATURES "Sec. 5": "VIs from which a completion queue pays off", 20.0, "VIs", Crossing(queue(CQ_1, Pick::Last), queue(RR_1, Pick::Last));
    FEATURES "Sec. 3.5, Fig. 9": "peak with two outstanding", 793.0, "Mbit/s", Figure(peak(Scenario::Queues, CQ_2));
    NETPIPE "Table 1, cLAN, one processor": "1 byte, TCP over LANE", 58.0, "us", Figure(netpipe(ONE_TCP));
    NETPIPE "Table 1, cLAN, one processor": "1 byte, VIA, blocking", 9.0, "us", Figure(netpipe(ONE_BLOCK));
    NETPIPE "Table 1, cLAN, one processor": "1 byte, TCP over LANE by VIA, blocking", 58.0 / 9.0, "", Quotient(netpipe(ONE_TCP), netpipe(ONE_BLOCK));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, TCP over LANE", 116.0, "us", Figure(netpipe(TWO_TCP));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, VIA, polling", 10.0, "us", Figure(netpipe(TWO_POLL));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, VIA, blocking", 45.0, "us", Figure(netpipe(TWO_BLOCK));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, TCP over LANE by VIA, polling", 11.6, "", Quotient(netpipe(TWO_TCP), netpipe(TWO_POLL));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, VIA, blocking by polling", 4.5, "", Quotient(netpipe(TWO_BLOCK), netpipe(TWO_POLL));
    NETPIPE "Table 1, SK-9821 (M-VIA), one processor": "1 byte, VIA, blocking", 29.0, "us", Figure(netpipe(ONE_BLOCK));
    NETPIPE "Table 1, SK-9821 (M-VIA), one processor": "1 byte, TCP by VIA, blocking", 63.0 / 29.0, "", Quotient(netpipe(ONE_TCP), netpipe(ONE_BLOCK));
    NETPIPE "Table 1, SK-9821 (M-VIA), two processors": "1 byte, VIA, polling", 51.0, "us", Figure(netpipe(TWO_POLL));
    NETPIPE "Table 1, SK-9821 (M-VIA), two processors": "1 byte, TCP by VIA, polling", 101.0 / 51.0, "", Quotient(netpipe(TWO_TCP), netpipe(TWO_POLL));
    NETPIPE "Sec. 5.2, Fig. 2, one processor": "peak of TCP over LANE", 362.0, "Mbit/s", Figure(peak(Scenario::Netpipe, ONE_TCP));
    NETPIPE "Sec. 5.2, Fig. 2, one processor": "peak of VIA, blocking", 788.0, "Mbit/s", Figure(peak(Scenario::Netpipe, ONE_BLOCK));
    NETPIPE "Sec. 5.2, Fig. 2, one processor": "peak, VIA blocking by TCP over LANE", 788.0 / 362.0, "", Quotient(peak(Scenario::Netpipe, ONE_BLOCK), peak(Scenario::Netpipe, ONE_TCP));
    NETPIPE "Sec. 5.2, Fig. 2, two processors": "peak of TCP over LANE", 339.0, "Mbit/s", Figure(peak(Scenario::Netpipe, TWO_TCP));
    NETPIPE "Sec. 5.2, Fig. 2, two processors": "peak of VIA, polling", 768.0, "Mbit/s", Figure(peak(Scenario::Netpipe, TWO_POLL));
    NETPIPE "Sec. 5.2, Fig. 2, two processors": "peak of VIA, blocking", 738.0, "Mbit/s", Figure(peak(Scenario::Netpipe, TWO_BLOCK));
    NETPIPE "Sec. 5.2, Fig. 2, two processors": "peak, VIA polling by TCP over LANE", 768.0 / 339.0, "", Quotient(peak(Scenario::Netpipe, TWO_POLL), peak(Scenario::Netpipe, TWO_TCP));
    SOVIA "Table 3, cLAN": "4 bytes one way, native VIA", 8.3, "us", Figure(ONE_WAY_VI);
    SOVIA "Table 2, M-VIA": "4 bytes one way, native VIA", 43.3, "us", Figure(ONE_WAY_VI);
    SOVIA "Sec. 5, cLAN": "peak of native VIA", 815.0, "Mbit/s", Figure(peak(Scenario::Throughput, ONE_WAY_SEND));
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_SINGLE", 12.3, "us", Figure(stream("two processors, SOVIA_SINGLE"));
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_SINGLE by native VIA, a processor for each end", 1.48, "", Quotient(stream("two processors, SOVIA_SINGLE"), TWO_VIA);
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_HANDLER by native VIA, a processor for each end", 3.6, "", Quotient(stream("two processors, SOVIA_HANDLER"), TWO_VIA);
    SOVIA "Fig. 5, cLAN": "4 bytes, TCP over LANE by native VIA, a processor for each end", 6.61, "", Quotient(stream("two processors, TCP"), TWO_VIA);
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_NOTIFY by SOVIA_HANDLER", 1.06, "", Quotient(stream("two processors, SOVIA_NOTIFY"), stream("two processors, SOVIA_HANDLER"));
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_HANDLER by SOVIA_SINGLE, one processor for both ends", 2.43, "", Quotient(stream("one processor, SOVIA_HANDLER"), stream("one processor, SOVIA_SINGLE"));
    SOVIA "Fig. 5, cLAN": "4 bytes, TCP over LANE by native VIA, one processor for both ends", 6.61, "", Quotient(stream("one processor, TCP"), ONE_VIA);
    SOVIA "Fig. 9, cLAN": "4 bytes, SOVIA_HANDLER by SOVIA_SINGLE, two processors", 3.11, "", Quotient(stream("two processors, SOVIA_HANDLER"), stream("two processors, SOVIA_SINGLE"));
    SOVIA "Table 3, cLAN": "4 bytes, SOVIA_COPY", 10.5, "us", Figure(COPY);
    SOVIA "Table 3, cLAN": "4 bytes, SOVIA_COPY by native VIA", 1.27, "", Quotient(COPY, TWO_VIA);
    SOVIA "Table 3, cLAN": "4 bytes, SOVIA_REG by SOVIA_COPY", 1.17, "", Quotient(REG, COPY);
    SOVIA "Table 3, cLAN": "registering takes no longer than copying from, bytes", 1024.0, "bytes", Crossing(REG, COPY);
    SOVIA "Sec. 4.1, Fig. 6": "registering and deregistering, at least (3 to 4 us), shm", 3.5, "us", Figure(REGISTERED);
    SOVIA "Sec. 4.1, Fig. 6": "registering and deregistering, at least (3 to 4 us), mlock and munlock", 3.5, "us", Figure(PINNED);
    SOVIA "Sec. 4.1, Fig. 6": "registering takes no longer than copying from (1 KB to 4 KB), shm, uncached", 2048.0, "bytes", Crossing(REGISTERED, UNCACHED);
    SOVIA "Sec. 4.1, Fig. 6": "registering takes no longer than copying from (1 KB to 4 KB), mlock, uncached", 2048.0, "bytes", Crossing(PINNED, UNCACHED);
    SOVIA "Sec. 4.1, Fig. 6": "registering takes no longer than copying from (1 KB to 4 KB), mlock, cached", 2048.0, "bytes", Crossing(PINNED, CACHED);
    SOVIA "Sec. 4.2, cLAN": "4 bytes by COMBINE less than 2 us over those by DACKS: one by the other", 1.14, "", Quotient(stream("transfer, SOVIA_COMBINE"), stream("transfer, SOVIA_DACKS"));
    SOVIA "Fig. 10a, cLAN": "32 KB at 780 Mbit/s, sender's processor time, COMBINE", 10.1, "%", Figure(load(PACED, End::Requester));
    SOVIA "Fig. 10b, cLAN": "32 KB at 780 Mbit/s, receiver's, COMBINE (its kernel mode alone, less than)", 13.0, "%", Figure(load(PACED, End::Responder));
    SOVIA "Fig. 3": "4 bytes, request and leave first by native VIA (almost three times)", 3.0, "", Quotient(stream("transfer, SOVIA_3WAY"), TWO_VIA);
    SOVIA "Fig. 8, cLAN": "32 KB, SOVIA_DACKS", 814.0, "Mbit/s", Figure(flow("bandwidth, SOVIA_DACKS", 32768));
    SOVIA "Fig. 8, cLAN": "32 KB, SOVIA_DACKS by native VIA", 1.0, "", Quotient(flow("bandwidth, SOVIA_DACKS", 32768), flow(FLOW_VIA, 32768));
    CLUSTER "Fig. 6a": "4 bytes, native VIA", 8.5, "us", Figure(TWO_VIA);
    CLUSTER "Fig. 6a": "4 bytes, SOVIA_SINGLE by copying", 10.5, "us", Figure(COPY);
    CLUSTER "Fig. 6a": "4 bytes, TCP over LANE", 55.0, "us", Figure(stream("two processors, TCP"));
    NETPIPE "Table 1, cLAN, one processor": "1 byte, TCP over LANE", 58.0, "us", Figure(byte(LANE));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, TCP over LANE", 116.0, "us", Figure(byte(LANE));
    NETPIPE "Sec. 5.2, Fig. 2, one processor": "peak of TCP over LANE", 362.0, "Mbit/s", Figure(peak(Scenario::Hosts, LANE));
    NETPIPE "Sec. 5.2, Fig. 2, two processors": "peak of TCP over LANE", 339.0, "Mbit/s", Figure(peak(Scenario::Hosts, LANE));
    SOVIA "Fig. 5, cLAN": "4 bytes, TCP over LANE", 54.9, "us", Figure(four("latency, TCP over LANE, shm"));
    CLUSTER "Fig. 6a": "4 bytes, TCP over LANE", 55.0, "us", Figure(four("latency, TCP over LANE, shm"));
    CLUSTER "Fig. 6b": "32 KB, TCP over LANE", 450.0, "Mbit/s", Figure(bulk("bandwidth, TCP over LANE, shm"));
    NETPIPE "Table 1, SK-9821, one processor": "1 byte, TCP", 63.0, "us", Figure(byte(WIRE_TCP));
    NETPIPE "Table 1, SK-9821, one processor": "1 byte, VIA, polling", 29.0, "us", Figure(byte(ETH_POLL));
    NETPIPE "Table 1, SK-9821, one processor": "1 byte, VIA, blocking", 29.0, "us", Figure(byte(ETH_BLOCK));
    NETPIPE "Table 1, GNIC-II, one processor": "1 byte, TCP", 57.0, "us", Figure(byte(WIRE_TCP));
    NETPIPE "Table 1, GNIC-II, one processor": "1 byte, VIA, polling", 19.0, "us", Figure(byte(ETH_POLL));
    NETPIPE "Table 1, GNIC-II, one processor": "1 byte, VIA, blocking", 19.0, "us", Figure(byte(ETH_BLOCK));
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, one processor": "peak of TCP", 296.0, "Mbit/s", Figure(peak(Scenario::Hosts, WIRE_TCP));
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, one processor": "peak of VIA, polling", 520.0, "Mbit/s", Figure(peak(Scenario::Hosts, ETH_POLL));
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, one processor": "peak of VIA, blocking", 520.0, "Mbit/s", Figure(peak(Scenario::Hosts, ETH_BLOCK));
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, one processor": "peak of TCP", 258.0, "Mbit/s", Figure(peak(Scenario::Hosts, WIRE_TCP));
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, one processor": "peak of VIA, polling", 510.0, "Mbit/s", Figure(peak(Scenario::Hosts, ETH_POLL));
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, one processor": "peak of VIA, blocking", 510.0, "Mbit/s", Figure(peak(Scenario::Hosts, ETH_BLOCK));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "1 byte, TCP", 54.0, "us", Figure(byte(JUMBO_TCP));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "1 byte, VIA, polling", 24.0, "us", Figure(byte(JUMBO_POLL));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "1 byte, VIA, blocking", 24.0, "us", Figure(byte(JUMBO_BLOCK));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "peak of TCP", 574.0, "Mbit/s", Figure(peak(Scenario::Hosts, JUMBO_TCP));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "peak of VIA, polling", 648.0, "Mbit/s", Figure(peak(Scenario::Hosts, JUMBO_POLL));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "peak of VIA, blocking", 632.0, "Mbit/s", Figure(peak(Scenario::Hosts, JUMBO_BLOCK));
    NETPIPE "Table 1, SK-9821, two processors": "1 byte, TCP", 101.0, "us", TWO_EACH;
    NETPIPE "Table 1, SK-9821, two processors": "1 byte, VIA, polling", 51.0, "us", TWO_EACH;
    NETPIPE "Table 1, SK-9821, two processors": "1 byte, VIA, blocking", 53.0, "us", TWO_EACH;
    NETPIPE "Table 1, GNIC-II, two processors": "1 byte, TCP", 94.0, "us", TWO_EACH;
    NETPIPE "Table 1, GNIC-II, two processors": "1 byte, VIA, polling and blocking", 42.0, "us", TWO_EACH;
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, two processors": "peak of TCP", 260.0, "Mbit/s", TWO_EACH;
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, two processors": "peak of VIA, polling and blocking", 269.0, "Mbit/s", TWO_EACH;
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, two processors": "peak of TCP", 261.0, "Mbit/s", TWO_EACH;
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, two processors": "peak of VIA, polling and blocking", 273.0, "Mbit/s", TWO_EACH;
    NETPIPE "Sec. 5.3, SK-9821, MTU 9000, two processors": "1 byte, TCP", 93.0, "us", TWO_EACH;
    NETPIPE "Sec. 5.3, SK-9821, MTU 9000, two processors": "peak of TCP", 504.0, "Mbit/s", TWO_EACH;
    NETPIPE "Sec. 5.3, SK-9821, MTU 9000, two processors": "peak of VIA, polling and blocking", 535.0, "Mbit/s", TWO_EACH;
    SOVIA "Fig. 5, M-VIA": "4 bytes, native VIA", 43.3, "us", Figure(HOSTS_VIA);
    SOVIA "Fig. 5, M-VIA": "4 bytes, TCP", 75.6, "us", Figure(four("latency, TCP"));
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_NOTIFY", 88.5, "us", Figure(four("latency, SOVIA_NOTIFY, eth"));
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_HANDLER", 83.3, "us", Figure(four("latency, SOVIA_HANDLER, eth"));
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_SINGLE", 57.6, "us", Figure(four("latency, SOVIA_SINGLE, eth"));
    SOVIA "Table 2, M-VIA": "4 bytes, SOVIA_COPY", 45.0, "us", Figure(four("latency, SOVIA_COPY, eth"));
    SOVIA "Table 2, M-VIA": "4 bytes, SOVIA_HYBRID", 45.0, "us", Figure(four("latency, SOVIA_HYBRID, eth"));
    SOVIA "Fig. 8, M-VIA": "32 KB, SOVIA_DACKS", 96.0, "Mbit/s", Figure(bulk("bandwidth, SOVIA_DACKS, eth"));
    SOVIA "Fig. 9, M-VIA, two processors": "4 bytes, native VIA", 68.6, "us", TWO_EACH;
    SOVIA "Fig. 9, M-VIA, two processors": "4 bytes, TCP", 116.0, "us", TWO_EACH;
    SOVIA "Fig. 9, M-VIA, two processors": "4 bytes, SOVIA_NOTIFY", 148.3, "us", TWO_EACH;
    SOVIA "Fig. 9, M-VIA, two processors": "4 bytes, SOVIA_HANDLER", 110.0, "us", TWO_EACH;
    SOVIA "Fig. 9, M-VIA, two processors": "4 bytes, SOVIA_SINGLE", 89.7, "us", TWO_EACH;
    CLUSTER "Fig. 6b": "32 KB, TCP over LANE by native VIA", 0.55, "", Quotient(flow("bandwidth, TCP", 32768), flow(FLOW_VIA, 32768));
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Effort, parts};
    use super::*;

    #[test]
    fn what_stands_beside_a_fact_is_measured() {
        for quick in [true, false] {
            let effort =
                Effort { quick, seconds: 0.01, perturbation: 3, vis: 10, largest: 8 << 20 };
            for fact in FACTS {
                let all = match fact.beside {
                    Beside::Figure(ours) => vec![ours],
                    Beside::Quotient(a, b) | Beside::Crossing(a, b) => vec![a, b],
                    Beside::Nothing(_) => Vec::new(),
                };
                for ours in all {
                    let parts = parts(ours.scenario, effort);
                    let found = parts.iter().any(|part| part.series == ours.series);
                    assert!(found, "{}: no series {:?}", fact.what, ours.series);
                }
                assert!(fact.value > 0.0 && PAPERS.contains(&fact.paper));
            }
            for finding in FINDINGS {
                for ours in [finding.a, finding.b] {
                    let parts = parts(ours.scenario, effort);
                    let found = parts.iter().any(|part| part.series == ours.series);
                    assert!(found, "{}: no series {:?}", finding.what, ours.series);
                }
                let (least, most) = finding.bounds;
                assert!((least..=most).contains(&finding.value), "{}", finding.what);
                assert!(PAPERS.contains(&finding.paper));
            }
        }
    }
}
