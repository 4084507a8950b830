//! SOVIA's configurations on cLAN and M-VIA: ICS 2001.

use super::Beside::{Crossing, Figure, Nothing, Quotient, TwoEach};
use super::{
    ANY, End, Fact, Finding, Metric, Ours, Pick, SOVIA, Scenario, bulk, far, flow, ours, peak,
    table_of_facts, table_of_findings, trip,
};

/// Series for the papers' calls, which poll. Blocking calls here poll for a while before they sleep, so they never
/// sleep if answers come sooner.
const VIA: Ours = trip("latency, native VIA, blocking", 4);
const SINGLE: Ours = trip("latency, SOVIA_SINGLE, blocking", 4);
const HANDLER: Ours = trip("latency, SOVIA_HANDLER, blocking", 4);
const REG: Ours = trip("latency, SOVIA_REG, blocking", 4);
const COPY: Ours = trip("latency, SOVIA_COPY, blocking", 4);
const COPY_SLEEP: Ours = trip("latency, SOVIA_COPY, sleeping", 4);
const TCP: Ours = trip("latency, TCP, sleeping", 4).or("latency, TCP, polling");
const LANE: Ours = far("latency, TCP over LANE, shm", 4);
const FLOW_VIA: &str = "bandwidth, native VIA, blocking";
const BASE: &str = "bandwidth, SOVIA_BASE, blocking";
const DACKS: &str = "bandwidth, SOVIA_DACKS, blocking";
const COMBINE: &str = "bandwidth, SOVIA_COMBINE, blocking";
const NAGLE: &str = "bandwidth, TCP with Nagle, sleeping";
const NODELAY: &str = "bandwidth, TCP, sleeping";
const PACED: &str = "paced, SOVIA_COMBINE";
const ETH_VIA: Ours = far("latency, native VIA, eth", 4);

/// Returns the processor time of an end, while it moves 32 KB at a time in one direction at the papers' pace.
const fn load(metric: Metric, end: End) -> Ours {
    Ours { end, ..ours(Scenario::Sovia, PACED, metric, Pick::At(32768)) }
}

/// Returns the processor time of the sender, for messages of `size` bytes at the papers' pace.
const fn at_size(metric: Metric, size: u64) -> Ours {
    ours(Scenario::Sovia, PACED, metric, Pick::At(size))
}

/// Returns the cost of preparing the bytes of a send.
const fn preparing(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Registration, series, Metric::Preparing, Pick::At(size))
}

const REGISTERED: Ours = preparing("registered", 1024);
const PINNED: Ours = preparing("pinned (mlock, munlock)", 1024);
const UNCACHED: Ours = preparing("copied, uncached", 1024);
const FOUR: Ours = preparing("registered", 4);
const FOUR_HELD: Ours = preparing("registered, 2 MB held", 4);
const FOUR_PINNED: Ours = preparing("pinned (mlock, munlock)", 4);
const FOUR_PINNED_HELD: Ours = preparing("pinned (mlock, munlock), 2 MB held", 4);

table_of_facts! {
    SOVIA "Fig. 5, cLAN": "4 bytes, native VIA", 8.3, "us", Figure(VIA);
    SOVIA "Fig. 5, cLAN": "4 bytes, TCP over LANE (theirs: MTU 9000, ours: shm, sleeping, 1500)", 54.9, "us", Figure(LANE);
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_SINGLE", 12.3, "us", Figure(SINGLE);
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_SINGLE / native VIA", 1.48, "", Quotient(SINGLE, VIA);
    SOVIA "Fig. 5, cLAN": "4 bytes, SOVIA_HANDLER / native VIA", 3.6, "", Quotient(HANDLER, VIA);
    SOVIA "Fig. 5, M-VIA": "4 bytes, native VIA", 43.3, "us", Figure(ETH_VIA);
    SOVIA "Fig. 5, M-VIA": "4 bytes, TCP (ours: with offloads, sleeping)", 75.6, "us", Figure(far("latency, TCP", 4));
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_NOTIFY", 88.5, "us", Figure(far("latency, SOVIA_NOTIFY, eth", 4));
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_HANDLER", 83.3, "us", Figure(far("latency, SOVIA_HANDLER, eth", 4));
    SOVIA "Fig. 5, M-VIA": "4 bytes, SOVIA_SINGLE", 57.6, "us", Figure(far("latency, SOVIA_SINGLE, eth", 4));
    SOVIA "Sec. 4.1, M-VIA": "registering 4 bytes, nothing else registered", 4.3, "us", Figure(FOUR);
    SOVIA "Sec. 4.1, M-VIA": "registering 4 bytes, 2 MB registered", 10.1, "us", Figure(FOUR_HELD);
    SOVIA "Sec. 4.1, Fig. 6": "registering and deregistering, at least (3 to 4 us), shm", 3.5, "us", Figure(REGISTERED);
    SOVIA "Sec. 4.1, Fig. 6": "registering and deregistering, at least (3 to 4 us), mlock and munlock", 3.5, "us", Figure(PINNED);
    SOVIA "Sec. 4.1, Fig. 6": "registering takes no longer than copying from (1 KB to 4 KB), mlock, uncached", 2048.0, "bytes", Crossing(PINNED, UNCACHED);
    SOVIA "Sec. 4.1, Table 3": "registering takes no longer than copying from, in latency", 1024.0, "bytes", Crossing(REG, COPY);
    SOVIA "Fig. 3": "4 bytes, request and leave first / native VIA (almost three times)", 3.0, "", Quotient(trip("latency, SOVIA_3WAY, blocking", 4), VIA);
    SOVIA "Sec. 4.2, Fig. 7, cLAN": "32 KB, native VIA", 815.0, "Mbit/s", Figure(flow(FLOW_VIA, 32768));
    SOVIA "Sec. 4.2, Fig. 7, cLAN": "32 KB, TCP over LANE (theirs: MTU 9000, ours: shm, sleeping, 1500)", 450.0, "Mbit/s", Figure(bulk("bandwidth, TCP over LANE, shm"));
    SOVIA "Fig. 8, cLAN": "32 KB, SOVIA_DACKS", 814.0, "Mbit/s", Figure(flow(DACKS, 32768));
    SOVIA "Fig. 8, M-VIA": "32 KB, SOVIA_DACKS", 96.0, "Mbit/s", Figure(bulk("bandwidth, SOVIA_DACKS, eth"));
    SOVIA "Sec. 4.3, cLAN, blocking": "4 bytes, SOVIA", 19.4, "us", Figure(COPY_SLEEP);
    SOVIA "Sec. 4.3, cLAN, blocking": "peak of SOVIA", 780.0, "Mbit/s", Figure(flow("bandwidth, SOVIA_DACKS, sleeping", 32768));
    SOVIA "Fig. 9, M-VIA, SMP": "4 bytes, native VIA", 68.6, "us", TwoEach;
    SOVIA "Fig. 9, M-VIA, SMP": "4 bytes, TCP", 116.0, "us", TwoEach;
    SOVIA "Fig. 9, M-VIA, SMP": "4 bytes, SOVIA_NOTIFY", 148.3, "us", TwoEach;
    SOVIA "Fig. 9, M-VIA, SMP": "4 bytes, SOVIA_HANDLER", 110.0, "us", TwoEach;
    SOVIA "Fig. 9, M-VIA, SMP": "4 bytes, SOVIA_SINGLE", 89.7, "us", TwoEach;
    SOVIA "Fig. 9, cLAN, SMP": "4 bytes, SOVIA_HANDLER / SOVIA_SINGLE", 3.11, "", TwoEach;
    SOVIA "Fig. 10a, cLAN": "32 KB at 780 Mbit/s, COMBINE, sender, kernel mode", 8.7, "%", Figure(load(Metric::ProcessorSystem, End::Requester));
    SOVIA "Fig. 10a, cLAN": "32 KB at 780 Mbit/s, COMBINE, sender, user mode", 1.4, "%", Figure(load(Metric::ProcessorUser, End::Requester));
    SOVIA "Fig. 10a, cLAN": "32 KB at 780 Mbit/s, COMBINE, sender, both (34 of 335 us for 32 KB)", 1037.6, "us/MB", Figure(load(Metric::ProcessorPerByte, End::Requester));
    SOVIA "Fig. 10b, cLAN": "32 KB at 780 Mbit/s, COMBINE, receiver, kernel mode (less than)", 13.0, "%", Figure(load(Metric::ProcessorSystem, End::Responder));
    SOVIA "Sec. 5, Table 5, Fast Ethernet": "FTP, 13.8 MB, TCP", 88.0, "Mbit/s", Nothing("no Fast Ethernet");
    SOVIA "Sec. 5, Table 5, cLAN": "FTP, 13.8 MB, TCP over LANE (ours: loopback)", 288.0, "Mbit/s", Figure(ftp("tnftp, get, tcp", SMALL));
    SOVIA "Sec. 5, Table 5, cLAN": "FTP, 65.3 MB, TCP over LANE (ours: loopback)", 256.0, "Mbit/s", Figure(ftp("tnftp, get, tcp", LARGE));
    SOVIA "Sec. 5, Table 5, cLAN": "FTP, 13.8 MB, SOVIA", 736.0, "Mbit/s", Figure(ftp("tnftp, get, sovia", SMALL));
    SOVIA "Sec. 5, Table 5, cLAN": "FTP, 65.3 MB, SOVIA", 552.0, "Mbit/s", Figure(ftp("tnftp, get, sovia", LARGE));
    SOVIA "Sec. 5": "a file from RAM disk to RAM disk", 580.0, "Mbit/s", Figure(ftp("local copy", LARGE));
}

/// File sizes of table 5.
const SMALL: u64 = 13_827_767;
const LARGE: u64 = 65_257_948;

const fn ftp(series: &'static str, size: u64) -> Ours {
    ours(Scenario::Ftp, series, Metric::Throughput, Pick::At(size))
}

table_of_findings! {
    SOVIA "Fig. 5, cLAN": "LANE / native VIA, 4 bytes (LANE's MTU: theirs 9000, ours 1500): a bound that cannot fail", (54.9 / 8.3), 1.5 to ANY, LANE, VIA;
    SOVIA "Fig. 5, cLAN": "native VIA outperforms the kernel's TCP over loopback, 4 bytes", none, 1.5 to ANY, TCP, VIA;
    SOVIA "Fig. 5, cLAN": "a handler's thread costs more than the connection's own: HANDLER / SINGLE", 2.43, 1.2 to ANY, HANDLER, SINGLE;
    SOVIA "Fig. 5, cLAN": "SINGLE near native VIA, 4 bytes", (12.3 / 8.3), 1.0 to 2.0, SINGLE, VIA;
    SOVIA "Fig. 5, cLAN": "SINGLE below TCP, 4 bytes (theirs: LANE, ours: loopback): bound from 0", (12.3 / 54.9), 0.0 to 0.9, SINGLE, TCP;
    SOVIA "Fig. 3": "the handshake of three ways takes almost three times the native VIA's", 3.0, 2.0 to ANY, trip("latency, SOVIA_3WAY, blocking", 4), VIA;
    SOVIA "Table 3": "COPY adds little to native VIA, 4 bytes", (10.5 / 8.3), 1.0 to 1.5, COPY, VIA;
    SOVIA "Table 3": "copying beats registering, 4 bytes: REG / COPY", (12.3 / 10.5), 1.05 to ANY, REG, COPY;
    SOVIA "Table 3": "registering beats copying, 32 KB: COPY / REG", (603.2 / 461.1), 1.05 to ANY, trip("latency, SOVIA_COPY, blocking", 32768), trip("latency, SOVIA_REG, blocking", 32768);
    SOVIA "Table 3": "HYBRID follows COPY, 4 bytes", 1.0, 0.9 to 1.1, trip("latency, SOVIA_HYBRID, blocking", 4), COPY;
    SOVIA "Table 3": "HYBRID follows REG, 32 KB", (460.6 / 461.1), 0.9 to 1.1, trip("latency, SOVIA_HYBRID, blocking", 32768), trip("latency, SOVIA_REG, blocking", 32768);
    SOVIA "Fig. 6": "registering costs more than copying, 1 KB, shm", none, 1.0 to ANY, REGISTERED, UNCACHED;
    SOVIA "Fig. 6": "registering costs more than copying, 1 KB, where pages are locked", none, 1.0 to ANY, PINNED, UNCACHED;
    SOVIA "Sec. 4.1": "registering 4 bytes takes longer with 2 MB registered (M-VIA's law), shm", (10.1 / 4.3), 1.5 to ANY, FOUR_HELD, FOUR;
    SOVIA "Sec. 4.1": "registering 4 bytes depends on its size only (cLAN's law), shm", 1.0, 0.9 to 1.1, FOUR_HELD, FOUR;
    SOVIA "Sec. 4.1": "locking 4 bytes depends on its size only (cLAN's law), mlock", 1.0, 0.9 to 1.1, FOUR_PINNED_HELD, FOUR_PINNED;
    SOVIA "Sec. 4.1": "a stream's own buffers make registering dearer than it is alone (M-VIA's law, simulated), 4 bytes", ((57.6 - 45.1) / 4.3), 1.5 to ANY, preparing("simulated, M-VIA's law, a stream, cache off", 4), preparing("simulated, M-VIA's law, alone", 4);
    SOVIA "Sec. 4.1": "they do not where it depends on the size alone (cLAN's law, simulated), 4 bytes", none, 0.9 to 1.1, preparing("simulated, cLAN's law, a stream, cache off", 4), preparing("simulated, cLAN's law, alone", 4);
    SOVIA "Sec. 4.1": "memory registration caching saves registrations: on / off (M-VIA's law, simulated), 32 KB", none, 0.0 to 0.5, preparing("simulated, M-VIA's law, a stream, cache on", 32768), preparing("simulated, M-VIA's law, a stream, cache off", 32768);
    SOVIA "Fig. 7": "below 256 bytes TCP with Nagle carries more than native VIA: 64 bytes (ours: loopback)", none, 1.0 to ANY, flow(NAGLE, 64), flow(FLOW_VIA, 64);
    SOVIA "Fig. 7": "beyond 512 bytes native VIA carries more than TCP: 32 KB (theirs: LANE, ours: loopback)", (815.0 / 450.0), 1.0 to ANY, flow(FLOW_VIA, 32768), flow(NAGLE, 32768).or(NODELAY);
    SOVIA "Fig. 7": "without flow control a stream carries far less than native VIA: BASE, 4 KB", none, 0.0 to 0.8, flow(BASE, 4096), flow(FLOW_VIA, 4096);
    SOVIA "Fig. 8": "the window and delayed acknowledgements: DACKS above BASE, 4 KB", none, 1.1 to ANY, flow(DACKS, 4096), flow(BASE, 4096);
    SOVIA "Fig. 8": "DACKS carries what native VIA does, 32 KB", (814.0 / 815.0), 0.85 to 1.15, flow(DACKS, 32768), flow(FLOW_VIA, 32768);
    SOVIA "Fig. 8": "combining carries more below 2 KB: COMBINE / DACKS, 64 bytes", none, 1.2 to ANY, flow(COMBINE, 64), flow(DACKS, 64);
    SOVIA "Sec. 4.2": "combining costs 1 to 2 us of latency: COMBINE / DACKS, 4 bytes", 1.14, 1.0 to 1.3, trip("latency, SOVIA_COMBINE, blocking", 4), trip("latency, SOVIA_DACKS, blocking", 4);
    SOVIA "Sec. 4.3": "blocking calls take longer: COPY sleeping / polling, 4 bytes", (19.4 / 10.5), 1.2 to ANY, COPY_SLEEP, COPY;
    SOVIA "Sec. 4.3": "blocking calls carry nearly as much: DACKS, 32 KB", (780.0 / 814.0), 0.85 to 1.02, flow("bandwidth, SOVIA_DACKS, sleeping", 32768), flow(DACKS, 32768);
    SOVIA "Sec. 4.3": "RDMA writes have no significant advantage: latency / REG's, 32 KB", none, 0.9 to ANY, trip("latency, SOVIA_RDMA, blocking", 32768), trip("latency, SOVIA_REG, blocking", 32768);
    SOVIA "Sec. 4.3": "RDMA writes have no significant advantage: bandwidth / DACKS', 32 KB: bound from 0", none, 0.0 to 1.1, flow("bandwidth, SOVIA_RDMA, blocking", 32768), flow(DACKS, 32768);
    SOVIA "Sec. 4.3": "what RDMA writes save: bandwidth / that of the three-way handshake alone, 32 KB", none, 1.0 to ANY, flow("bandwidth, SOVIA_RDMA, blocking", 32768), flow("bandwidth, SOVIA_3WAY, blocking", 32768);
    SOVIA "Sec. 4.3, Fig. 10": "the receiver's time in the program above the sender's, 32 KB", none, 1.0 to ANY, load(Metric::ProcessorUser, End::Responder), load(Metric::ProcessorUser, End::Requester);
    SOVIA "Sec. 4.3, Fig. 10": "the sender's time in the kernel rises where registering begins: 4 KB / 2 KB", none, 1.1 to ANY, at_size(Metric::ProcessorSystem, 4096), at_size(Metric::ProcessorSystem, 2048);
    SOVIA "Sec. 5, Table 5": "SOVIA doubles FTP, 13.8 MB (theirs: LANE, ours: loopback)", (736.0 / 288.0), 1.5 to ANY, ftp("tnftp, get, sovia", SMALL), ftp("tnftp, get, tcp", SMALL);
    SOVIA "Fig. 5, M-VIA": "TCP / native VIA, 4 bytes (ours: TCP sleeps, VIA polls: not comparable)", (75.6 / 43.3), 1.5 to ANY, far("latency, TCP", 4), ETH_VIA;
    SOVIA "Fig. 5, M-VIA": "SOVIA_HANDLER / SOVIA_SINGLE, 4 bytes", (83.3 / 57.6), 1.2 to ANY, far("latency, SOVIA_HANDLER, eth", 4), far("latency, SOVIA_SINGLE, eth", 4);
    SOVIA "Fig. 5, M-VIA": "SOVIA_NOTIFY as SOVIA_HANDLER, 4 bytes", (88.5 / 83.3), 0.8 to 1.3, far("latency, SOVIA_NOTIFY, eth", 4), far("latency, SOVIA_HANDLER, eth", 4);
    SOVIA "Fig. 5, M-VIA": "SOVIA_SINGLE faster than TCP, 4 bytes (ours: TCP sleeps, SINGLE polls: not comparable)", (57.6 / 75.6), 0.0 to 1.0, far("latency, SOVIA_SINGLE, eth", 4), far("latency, TCP", 4);
    SOVIA "Table 2, M-VIA": "SOVIA_COPY near native VIA, 4 bytes", (45.0 / 43.3), 0.9 to 1.15, far("latency, SOVIA_COPY, eth", 4), ETH_VIA;
    SOVIA "Table 2, M-VIA": "SOVIA_HYBRID as SOVIA_COPY, 4 bytes", 1.0, 0.9 to 1.1, far("latency, SOVIA_HYBRID, eth", 4), far("latency, SOVIA_COPY, eth", 4);
    SOVIA "Fig. 8, M-VIA": "SOVIA_DACKS near native VIA, 32 KB", 1.0, 0.85 to 1.15, bulk("bandwidth, SOVIA_DACKS, eth"), bulk("bandwidth, native VIA, eth");
    SOVIA "Sec. 4.2": "not in the paper: peak of the sockets of sovia run above TCP's over loopback", none, 1.0 to ANY, peak(Scenario::Sovia, "bandwidth, sovia run, blocking"), peak(Scenario::Sovia, NAGLE).or(NODELAY);
}
