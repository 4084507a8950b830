//! EMP: SC 2001.

use super::Beside::{Figure, Nothing};
use super::{
    ANY, EMP, Fact, Finding, Metric, Ours, Pick, Scenario, ours, peak, table_of_facts,
    table_of_findings,
};

const CALLS: &str = "EMP, in the calls";
const TCP: &str = "TCP, 64 KB buffers";
const TCP_POLL: &str = "TCP, 64 KB buffers, polling";
/// Computing time between posting and waiting for the paper's table, in µs.
const WORK: u64 = 3200;

const fn at(metric: Metric, series: &'static str, x: u64) -> Ours {
    ours(Scenario::Emp, series, metric, Pick::At(x))
}

const fn batch(metric: Metric, series: &'static str) -> Ours {
    at(metric, series, WORK)
}

const GM: super::Beside = Nothing("no Myrinet");
const LATENCY: Ours = at(Metric::HalfTrip, CALLS, 4);
const EMP_BATCH: &str = "EMP, a thread, batches";
const TCP_BATCH: &str = "TCP, 64 KB buffers, batches";

table_of_facts! {
    EMP "Sec. 6, Fig. 5": "4 bytes, EMP (ours: NIC in the calls)", 23.0, "us", Figure(LATENCY);
    EMP "Sec. 6, Fig. 5": "1500 bytes, EMP (ours: NIC in the calls)", 36.0, "us", Figure(at(Metric::HalfTrip, CALLS, 1500));
    EMP "Sec. 6, Fig. 5": "4 KB, EMP (Sec. 5.2 has 80 % of 1000; ours: NIC in the calls)", 880.0, "Mbit/s", Figure(at(Metric::Throughput, CALLS, 4096));
    EMP "Sec. 5.2, Fig. 5": "TCP, never more than", 600.0, "Mbit/s", Figure(peak(Scenario::Emp, TCP).or(TCP_POLL));
    EMP "Sec. 5.2, Fig. 5": "GM, very near to", 1200.0, "Mbit/s", GM;
    EMP "Table 2": "Isend, TCP", 137.0, "us", Figure(batch(Metric::Isend, TCP_BATCH));
    EMP "Table 2": "Isend, GM", 66.0, "us", GM;
    EMP "Table 2": "Isend, EMP (ours: NIC in a thread)", 53.0, "us", Figure(batch(Metric::Isend, EMP_BATCH));
    EMP "Table 2": "Irecv, TCP (ours: a note, no call)", 4.0, "us", Figure(batch(Metric::Irecv, TCP_BATCH));
    EMP "Table 2": "Irecv, GM", 1.0, "us", GM;
    EMP "Table 2": "Irecv, EMP (ours: NIC in a thread)", 9.0, "us", Figure(batch(Metric::Irecv, EMP_BATCH));
    EMP "Table 2": "Waitall, TCP", 126.0, "us", Figure(batch(Metric::Waitall, TCP_BATCH));
    EMP "Table 2": "Waitall, GM", 123.0, "us", GM;
    EMP "Table 2": "Waitall, EMP (ours: NIC in a thread)", 3.0, "us", Figure(batch(Metric::Waitall, EMP_BATCH));
    EMP "Table 2": "together, TCP", 266.0, "us", Figure(batch(Metric::AllCalls, TCP_BATCH));
    EMP "Table 2": "together, GM", 190.0, "us", GM;
    EMP "Table 2": "together, EMP (ours: NIC in a thread, whose time is not in it)", 65.0, "us", Figure(batch(Metric::AllCalls, EMP_BATCH));
}

table_of_findings! {
    EMP "Fig. 5": "TCP's latency much higher than EMP's, 4 bytes, both polling (ours: NIC in the calls)", none, 1.5 to ANY, at(Metric::HalfTrip, TCP_POLL, 4), LATENCY;
    EMP "Fig. 5": "EMP carries more than TCP: 4 KB (ours: NIC in the calls)", (880.0 / 600.0), 1.0 to ANY, at(Metric::Throughput, CALLS, 4096), at(Metric::Throughput, TCP, 4096).or(TCP_POLL);
    EMP "Fig. 5": "a second frame costs a jump: 1520 / 1400 bytes", none, 1.02 to ANY, at(Metric::HalfTrip, CALLS, 1520), at(Metric::HalfTrip, CALLS, 1400);
    EMP "Table 2": "TCP's calls cost the program more than EMP's, together (ours: without the NIC thread's time)", (266.0 / 65.0), 1.5 to ANY, batch(Metric::AllCalls, TCP_BATCH), batch(Metric::AllCalls, EMP_BATCH);
    EMP "Table 2": "after a while of computing EMP has nothing to wait for: EMP's Waitall / TCP's", (3.0 / 126.0), 0.0 to 0.3, batch(Metric::Waitall, EMP_BATCH), batch(Metric::Waitall, TCP_BATCH);
    EMP "Fig. 6": "computing costs EMP no throughput at first: 50 us / none (EMP alone, not compared with TCP)", none, 0.85 to ANY, at(Metric::Throughput, EMP_BATCH, 50), at(Metric::Throughput, EMP_BATCH, 0);
    EMP "Fig. 6": "computing costs TCP throughput: 50 us / none", none, 0.0 to 0.97, at(Metric::Throughput, TCP_BATCH, 50), at(Metric::Throughput, TCP_BATCH, 0);
}
