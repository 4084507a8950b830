//! SOVIA's sockets with FTP and Sun RPC: CLUSTER 2001.

use super::Beside::{Figure, Nothing, Quotient};
use super::{
    ANY, CLUSTER, Fact, Finding, Metric, Ours, Pick, Scenario, bulk, far, flow, ours,
    table_of_facts, table_of_findings, trip,
};

const VIA: Ours = trip("latency, native VIA, blocking", 4);
const COPY: Ours = trip("latency, SOVIA_COPY, blocking", 4);
const HANDLER: Ours = trip("latency, SOVIA_HANDLER, blocking", 4);
const SINGLE: Ours = trip("latency, SOVIA_SINGLE, blocking", 4);
const COMBINE: Ours = trip("latency, SOVIA_COMBINE, blocking", 4);
const LANE: Ours = far("latency, TCP over LANE, shm", 4);
const FLOW_VIA: Ours = flow("bandwidth, native VIA, blocking", 32768);
const DACKS: Ours = flow("bandwidth, SOVIA_DACKS, blocking", 16384);
/// File sizes of table 1.
const SMALL: u64 = 19_090_223;
const LARGE: u64 = 145_864_380;

const fn ftp(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Ftp, series, Metric::Throughput, Pick::At(size))
}

const fn call(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Rpc, series, Metric::CallTime, Pick::At(size))
}

const FAST_ETHERNET: super::Beside = Nothing("no Fast Ethernet");

table_of_facts! {
    CLUSTER "Fig. 6a": "4 bytes, native VIA", 8.5, "us", Figure(VIA);
    CLUSTER "Fig. 6a": "4 bytes, TCP over LANE (ours: shm, sleeping, MTU 1500)", 55.0, "us", Figure(LANE);
    CLUSTER "Fig. 6a": "4 bytes, SOVIA_SINGLE, which copies", 10.5, "us", Figure(COPY);
    CLUSTER "Fig. 6b": "32 KB, native VIA", 815.0, "Mbit/s", Figure(FLOW_VIA);
    CLUSTER "Fig. 6b": "32 KB, TCP over LANE (ours: shm, sleeping, MTU 1500)", 450.0, "Mbit/s", Figure(bulk("bandwidth, TCP over LANE, shm"));
    CLUSTER "Fig. 6b": "32 KB, TCP over LANE / native VIA", 0.55, "", Quotient(bulk("bandwidth, TCP over LANE, shm"), FLOW_VIA);
    CLUSTER "Fig. 6b": "peak of SOVIA_DACKS", 814.0, "Mbit/s", Figure(flow("bandwidth, SOVIA_DACKS, blocking", 32768));
    CLUSTER "Table 1": "FTP, 19.1 MB, TCP on Fast Ethernet", 90.0, "Mbit/s", FAST_ETHERNET;
    CLUSTER "Table 1": "FTP, 145.9 MB, TCP on Fast Ethernet", 90.0, "Mbit/s", FAST_ETHERNET;
    CLUSTER "Table 1": "FTP, 19.1 MB, TCP over LANE (ours: loopback)", 262.0, "Mbit/s", Figure(ftp("tnftp, get, tcp", SMALL));
    CLUSTER "Table 1": "FTP, 145.9 MB, TCP over LANE (ours: loopback)", 254.0, "Mbit/s", Figure(ftp("tnftp, get, tcp", LARGE));
    CLUSTER "Table 1": "FTP, 19.1 MB, SOVIA", 573.0, "Mbit/s", Figure(ftp("tnftp, get, sovia", SMALL));
    CLUSTER "Table 1": "FTP, 145.9 MB, SOVIA", 532.0, "Mbit/s", Figure(ftp("tnftp, get, sovia", LARGE));
    CLUSTER "Table 1": "19.1 MB, copied on the RAM disk", 611.0, "Mbit/s", Figure(ftp("local copy", SMALL));
    CLUSTER "Table 1": "145.9 MB, copied on the RAM disk", 538.0, "Mbit/s", Figure(ftp("local copy", LARGE));
    CLUSTER "Sec. 5.4, Fig. 7": "an empty procedure, TCP on Fast Ethernet", 200.0, "us", FAST_ETHERNET;
    CLUSTER "Sec. 5.4, Fig. 7": "an empty procedure, TCP over LANE (ours: loopback)", 149.0, "us", Figure(call("TCP", 0));
    CLUSTER "Sec. 5.4, Fig. 7": "an empty procedure, SOVIA by clnt_create(…, \"via\")", 35.0, "us", Figure(call("libsovia-rpc, \"via\"", 0));
    CLUSTER "Sec. 5.4, Fig. 7": "an empty procedure, unchanged programs under sovia run", 35.0, "us", Figure(call("sovia run", 0));
}

table_of_findings! {
    CLUSTER "Fig. 6a": "LANE / native VIA, 4 bytes (ours: LANE with frames of 1500 B, VIA in shm): a bound that cannot fail", (55.0 / 8.5), 1.5 to ANY, LANE, VIA;
    CLUSTER "Fig. 6a": "a handler's thread adds latency: HANDLER / SINGLE", none, 1.2 to ANY, HANDLER, SINGLE;
    CLUSTER "Fig. 6a": "combining adds 1 to 2 us: COMBINE / DACKS", none, 1.0 to 1.3, COMBINE, trip("latency, SOVIA_DACKS, blocking", 4);
    CLUSTER "Fig. 6a": "SOVIA adds little to native VIA, 4 bytes", (10.5 / 8.5), 1.0 to 1.5, COPY, VIA;
    CLUSTER "Fig. 6b": "TCP over LANE reaches 55 % of native VIA, 32 KB: a bound from 0, which nothing slow can fail", 0.55, 0.0 to 0.8, bulk("bandwidth, TCP over LANE, shm"), FLOW_VIA;
    CLUSTER "Fig. 6b": "DACKS carries what native VIA does from 16 KB on", 1.0, 0.85 to 1.15, DACKS, flow("bandwidth, native VIA, blocking", 16384);
    CLUSTER "Fig. 6b": "native VIA carries more than TCP beyond 256 bytes: 1 KB (theirs: LANE, ours: loopback)", none, 1.0 to ANY, flow("bandwidth, native VIA, blocking", 1024), flow("bandwidth, TCP with Nagle, sleeping", 1024).or("bandwidth, TCP, sleeping");
    CLUSTER "Sec. 5.3": "FTP over TCP exploits 32 % of VIA's bandwidth, 19.1 MB (theirs: LANE, ours: loopback): bound from 0", (262.0 / 815.0), 0.0 to 0.5, ftp("tnftp, get, tcp", SMALL), FLOW_VIA;
    CLUSTER "Table 1": "SOVIA doubles FTP, 19.1 MB (theirs: LANE, ours: loopback)", (573.0 / 262.0), 1.5 to ANY, ftp("tnftp, get, sovia", SMALL), ftp("tnftp, get, tcp", SMALL);
    CLUSTER "Table 1": "FTP over SOVIA comes near a copy within the machine, 19.1 MB", (573.0 / 611.0), 0.8 to 1.2, ftp("tnftp, get, sovia", SMALL), ftp("local copy", SMALL);
    CLUSTER "Fig. 7": "an empty procedure 4.3 times faster than over TCP (theirs: LANE, ours: loopback)", (149.0 / 35.0), 2.0 to ANY, call("TCP", 0), call("libsovia-rpc, \"via\"", 0);
    CLUSTER "Fig. 7": "the same with unchanged programs under sovia run", none, 2.0 to ANY, call("TCP", 0), call("sovia run", 0);
}
