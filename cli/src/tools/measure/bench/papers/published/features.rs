//! Features of the VI Architecture on cLAN: FGCS 2002.

use super::Beside::{Crossing, Figure, Nothing, Quotient};
use super::{
    ANY, FEATURES, Fact, Finding, Metric, Ours, Pick, Scenario, ours, peak, table_of_facts,
    table_of_findings,
};

const SEND_POLL: &str = "send/receive, polling";
const SEND_SLEEP: &str = "send/receive, sleeping";
const WRITE_POLL: &str = "RDMA write, polling";
const WRITE_SLEEP: &str = "RDMA write, sleeping";
const ONE_WAY_SEND: &str = "one way, send/receive, polling";
const ONE_WAY_SEND_SLEEP: &str = "one way, send/receive, sleeping";
const ONE_WAY_WRITE: &str = "one way, RDMA write, polling";
const LOCAL: &str = "local copy";
const COPIED: &str = "sent as a block, then copied";
const SEGMENTS: &str = "received by segments";
const SCATTERED: &str = "32 segments, polling";
const UNSCATTERED: &str = "one segment, polling";
const SCATTER_COPIED: &str = "one segment, then copied, polling";
const CQ_1: &str = "completion queue, 1 outstanding, 4096 B";
const RR_1: &str = "round robin, 1 outstanding, 4096 B";
const CQ_2: &str = "completion queue, 2 outstanding, 4096 B";
const RR_2: &str = "round robin, 2 outstanding, 4096 B";
const CQ_5: &str = "completion queue, 5 outstanding, 4096 B";
const RR_5: &str = "round robin, 5 outstanding, 4096 B";

const WINDOWS: super::Beside = Nothing("Windows NT is not measured");

const fn trip(series: &'static str) -> Ours {
    ours(Scenario::Loops, series, Metric::RoundTrip, Pick::At(4))
}

const fn call(series: &'static str, metric: Metric) -> Ours {
    ours(Scenario::Loops, series, metric, Pick::At(4))
}

const fn last(scenario: Scenario, series: &'static str) -> Ours {
    ours(scenario, series, Metric::Throughput, Pick::Last)
}

const fn queue(series: &'static str, pick: Pick) -> Ours {
    ours(Scenario::Queues, series, Metric::PerMessage, pick)
}

const fn at(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Throughput, series, Metric::Throughput, Pick::At(size))
}

const TCP: Ours =
    peak(Scenario::Throughput, "one way, TCP with Nagle, sleeping").or("one way, TCP, polling");

table_of_facts! {
    FEATURES "Table 2, Linux": "round trip, send/receive, polling", 14.8, "us", Figure(trip(SEND_POLL));
    FEATURES "Table 2, Linux": "round trip, send/receive, blocking", 33.0, "us", Figure(trip(SEND_SLEEP));
    FEATURES "Table 2, Linux": "round trip, RDMA write, polling", 15.0, "us", Figure(trip(WRITE_POLL));
    FEATURES "Table 2, Linux": "round trip, RDMA write, blocking", 15.6, "us", Figure(trip(WRITE_SLEEP));
    FEATURES "Table 2, Windows NT": "round trip, send/receive, polling", 14.5, "us", WINDOWS;
    FEATURES "Table 2, Windows NT": "round trip, send/receive, blocking", 45.0, "us", WINDOWS;
    FEATURES "Table 2, Windows NT": "round trip, RDMA write, polling", 14.8, "us", WINDOWS;
    FEATURES "Table 2, Windows NT": "round trip, RDMA write, blocking", 19.2, "us", WINDOWS;
    FEATURES "Sec. 3.2": "posting a send (770 to 900 ns)", 835.0, "ns", Figure(call(SEND_POLL, Metric::PostSend));
    FEATURES "Sec. 3.2": "posting a receive (770 to 900 ns)", 835.0, "ns", Figure(call(SEND_POLL, Metric::PostRecv));
    FEATURES "Sec. 3.2": "send done, until it is, RDMA write (3.0 to 4.1 us)", 3550.0, "ns", Figure(call(WRITE_POLL, Metric::SendDone));
    FEATURES "Sec. 3.2, Fig. 3": "send wait, RDMA write", 11_700.0, "ns", Figure(call(WRITE_SLEEP, Metric::SendWait));
    FEATURES "Sec. 3.2": "send wait, send/receive", 4900.0, "ns", Figure(call(SEND_SLEEP, Metric::SendWait));
    FEATURES "Sec. 3.2, Figs. 2, 3": "transfer by the hardware", 4.8, "us", Nothing("no adapter: the two processors hand the message over");
    FEATURES "Sec. 3.3, Fig. 5": "peak of send/receive", 830.0, "Mbit/s", Figure(peak(Scenario::Throughput, ONE_WAY_SEND));
    FEATURES "Sec. 3.3, Fig. 5": "peak of RDMA write", 869.0, "Mbit/s", Figure(peak(Scenario::Throughput, ONE_WAY_WRITE));
    FEATURES "Sec. 3.3, Fig. 4": "peak of TCP over LANE, Windows NT", 133.0, "Mbit/s", WINDOWS;
    FEATURES "Sec. 3.4, Fig. 6": "strided copy within a machine", 3000.0, "Mbit/s", Figure(peak(Scenario::Strided, LOCAL));
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, sent as a block and copied, Linux", 653.0, "Mbit/s", Figure(peak(Scenario::Strided, COPIED));
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, sent as a block and copied, Windows NT", 585.0, "Mbit/s", WINDOWS;
    FEATURES "Sec. 3.4, Fig. 6": "strided copy, received by segments (22 to 26 Mbit/s)", 24.0, "Mbit/s", Figure(peak(Scenario::Strided, SEGMENTS));
    FEATURES "Sec. 3.4, Fig. 7": "32 segments of 1024 bytes, Linux, polling", 731.0, "Mbit/s", Figure(last(Scenario::Scatter, SCATTERED));
    FEATURES "Sec. 3.4, Fig. 7": "32 segments of 1024 bytes, Windows NT, polling", 560.0, "Mbit/s", WINDOWS;
    FEATURES "Sec. 3.5, Fig. 8": "completion queue / round robin, one VI, one outstanding", 1.03, "", Quotient(queue(CQ_1, Pick::At(1)), queue(RR_1, Pick::At(1)));
    FEATURES "Sec. 3.5, Fig. 9": "completion queue / round robin, one VI, two outstanding", 1.018, "", Quotient(queue(CQ_2, Pick::At(1)), queue(RR_2, Pick::At(1)));
    FEATURES "Sec. 3.5, Fig. 10": "completion queue / round robin, one VI, five outstanding", 1.005, "", Quotient(queue(CQ_5, Pick::At(1)), queue(RR_5, Pick::At(1)));
    FEATURES "Sec. 5": "VIs from which a completion queue pays off", 20.0, "VIs", Crossing(queue(CQ_1, Pick::Last), queue(RR_1, Pick::Last));
    FEATURES "Sec. 3.5, Fig. 9": "peak with two outstanding", 793.0, "Mbit/s", Figure(peak(Scenario::Queues, CQ_2));
}

table_of_findings! {
    FEATURES "Table 2": "blocking takes longer than polling, send/receive", (33.0 / 14.8), 1.2 to ANY, trip(SEND_SLEEP), trip(SEND_POLL);
    FEATURES "Table 2": "RDMA write blocks at little cost: flags are looked at", (15.6 / 15.0), 0.9 to 1.25, trip(WRITE_SLEEP), trip(WRITE_POLL);
    FEATURES "Table 2": "RDMA write takes as long as send/receive, polling", (15.0 / 14.8), 0.9 to 1.15, trip(WRITE_POLL), trip(SEND_POLL);
    FEATURES "Sec. 3.3": "peak of RDMA write above that of send/receive", (869.0 / 830.0), 1.02 to ANY, peak(Scenario::Throughput, ONE_WAY_WRITE), peak(Scenario::Throughput, ONE_WAY_SEND);
    FEATURES "Sec. 3.3, Fig. 5": "RDMA write 5 to 12 % faster, 8 KB", none, 1.02 to ANY, at(ONE_WAY_WRITE, 8192), at(ONE_WAY_SEND, 8192);
    FEATURES "Sec. 3.3, Fig. 5": "RDMA write 5 to 12 % faster, 64 KB", none, 1.02 to ANY, at(ONE_WAY_WRITE, 65536), at(ONE_WAY_SEND, 65536);
    FEATURES "Sec. 3.3, Fig. 5": "polling faster than blocking, 8 KB", none, 1.02 to ANY, at(ONE_WAY_SEND, 8192), at(ONE_WAY_SEND_SLEEP, 8192);
    FEATURES "Sec. 3.3, Fig. 4": "peak of send/receive / TCP's (theirs: over LANE, Windows NT)", (830.0 / 133.0), 1.5 to ANY, peak(Scenario::Throughput, ONE_WAY_SEND), TCP;
    FEATURES "Sec. 3.4, Fig. 6": "strided: a block that is copied beats segments of 8 bytes", (653.0 / 24.0), 2.0 to ANY, peak(Scenario::Strided, COPIED), peak(Scenario::Strided, SEGMENTS);
    FEATURES "Sec. 3.4, Fig. 7": "32 segments cost up to a third of the throughput, 1024 bytes each", (731.0 / 830.0), 0.6 to 0.95, last(Scenario::Scatter, SCATTERED), last(Scenario::Scatter, UNSCATTERED);
    FEATURES "Sec. 3.4": "copying by the program beats scattering by the NIC, 1024 bytes each", none, 1.0 to ANY, last(Scenario::Scatter, SCATTER_COPIED), last(Scenario::Scatter, SCATTERED);
    FEATURES "Sec. 3.5, Fig. 8": "a completion queue costs 3 %: one VI, one outstanding", 1.03, 1.0 to 1.1, queue(CQ_1, Pick::At(1)), queue(RR_1, Pick::At(1));
    FEATURES "Sec. 3.5, Fig. 9": "a completion queue costs 1.8 %: one VI, two outstanding", 1.018, 1.0 to 1.1, queue(CQ_2, Pick::At(1)), queue(RR_2, Pick::At(1));
    FEATURES "Sec. 3.5, Fig. 10": "a completion queue costs 0.5 %: one VI, five outstanding", 1.005, 0.97 to 1.05, queue(CQ_5, Pick::At(1)), queue(RR_5, Pick::At(1));
    FEATURES "Sec. 5": "a completion queue pays off beyond 20 VIs: round robin / queue, 64 VIs", none, 1.0 to ANY, queue(RR_1, Pick::At(64)), queue(CQ_1, Pick::At(64));
    FEATURES "Sec. 5": "multiple VIs do not increase throughput: time a message, 64 VIs / one", none, 0.95 to ANY, queue(CQ_1, Pick::At(64)), queue(CQ_1, Pick::At(1));
    FEATURES "Sec. 3.5": "two outstanding messages carry more than one", none, 1.05 to ANY, peak(Scenario::Queues, CQ_2), peak(Scenario::Queues, CQ_1);
}
