//! NetPIPE over cLAN and M-VIA: Euro-Par 2001.

use super::Beside::{Figure, TwoEach};
use super::{
    ANY, Fact, Finding, NETPIPE, Ours, Scenario, byte, netpipe, peak, table_of_facts,
    table_of_findings,
};

const POLL: &str = "send/receive, polling, a processor each";
const SLEEP: &str = "send/receive, sleeping, a processor each";
/// TCP over IP over VIs in shared memory, which stand for cLAN.
const LANE: &str = "MTU 9000, TCP over LANE, shm, sleeping";
const ETH_POLL: &str = "MTU 1500, VI eth, polling";
const ETH_BLOCK: &str = "MTU 1500, VI eth, blocking";
const ETH_SLEEP: &str = "MTU 1500, VI eth, sleeping";
const UDP_POLL: &str = "MTU 1500, VI udp, polling";
/// The papers' cards had no segmentation offload.
const WIRE_TCP: &str = "MTU 1500, TCP without offloads, sleeping";
const WIRE_TCP_POLL: &str = "MTU 1500, TCP without offloads, polling";
const JUMBO_POLL: &str = "MTU 9000, VI eth, polling";
const JUMBO_BLOCK: &str = "MTU 9000, VI eth, blocking";
const JUMBO_TCP: &str = "MTU 9000, TCP without offloads, sleeping";
const JUMBO_TCP_POLL: &str = "MTU 9000, TCP without offloads, polling";

/// TCP between hosts, by polling or by sleeping calls, whichever is better.
const ETH_TCP: Ours = byte(WIRE_TCP).or(WIRE_TCP_POLL);
const BIG_TCP: Ours = byte(JUMBO_TCP).or(JUMBO_TCP_POLL);
const fn far_peak(series: &'static str) -> Ours {
    peak(Scenario::Hosts, series)
}
const fn near_peak(series: &'static str) -> Ours {
    peak(Scenario::Netpipe, series)
}

table_of_facts! {
    NETPIPE "Table 1, cLAN, one processor": "1 byte, TCP over LANE (ours: shm, sleeping, MTU 9000)", 58.0, "us", Figure(byte(LANE));
    NETPIPE "Table 1, cLAN, one processor": "1 byte, VIA, polling (ours: shm)", 9.0, "us", Figure(netpipe(POLL));
    NETPIPE "Table 1, cLAN, one processor": "1 byte, VIA, blocking (ours: shm, sleeping)", 9.0, "us", Figure(netpipe(SLEEP));
    NETPIPE "Table 1, cLAN, two processors": "1 byte, TCP over LANE", 116.0, "us", TwoEach;
    NETPIPE "Table 1, cLAN, two processors": "1 byte, VIA, polling", 10.0, "us", TwoEach;
    NETPIPE "Table 1, cLAN, two processors": "1 byte, VIA, blocking", 45.0, "us", TwoEach;
    NETPIPE "Table 1, GNIC-II, one processor": "1 byte, TCP", 57.0, "us", Figure(ETH_TCP);
    NETPIPE "Table 1, GNIC-II, one processor": "1 byte, VIA, polling", 19.0, "us", Figure(byte(ETH_POLL));
    NETPIPE "Table 1, GNIC-II, one processor": "1 byte, VIA, blocking", 19.0, "us", Figure(byte(ETH_BLOCK));
    NETPIPE "Table 1, GNIC-II, two processors": "1 byte, TCP", 94.0, "us", TwoEach;
    NETPIPE "Table 1, GNIC-II, two processors": "1 byte, VIA, polling", 42.0, "us", TwoEach;
    NETPIPE "Table 1, GNIC-II, two processors": "1 byte, VIA, blocking", 42.0, "us", TwoEach;
    NETPIPE "Table 1, SK-9821, one processor": "1 byte, TCP", 63.0, "us", Figure(ETH_TCP);
    NETPIPE "Table 1, SK-9821, one processor": "1 byte, VIA, polling", 29.0, "us", Figure(byte(ETH_POLL));
    NETPIPE "Table 1, SK-9821, one processor": "1 byte, VIA, blocking", 29.0, "us", Figure(byte(ETH_BLOCK));
    NETPIPE "Table 1, SK-9821, two processors": "1 byte, TCP", 101.0, "us", TwoEach;
    NETPIPE "Table 1, SK-9821, two processors": "1 byte, VIA, polling", 51.0, "us", TwoEach;
    NETPIPE "Table 1, SK-9821, two processors": "1 byte, VIA, blocking", 53.0, "us", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 2, cLAN, one processor": "peak of TCP over LANE (theirs: MTU 1500, ours: shm, sleeping, 9000)", 362.0, "Mbit/s", Figure(far_peak(LANE));
    NETPIPE "Sec. 5.2, Fig. 2, cLAN, one processor": "peak of VIA, polling (ours: shm)", 788.0, "Mbit/s", Figure(near_peak(POLL));
    NETPIPE "Sec. 5.2, Fig. 2, cLAN, one processor": "peak of VIA, blocking (ours: shm, sleeping)", 788.0, "Mbit/s", Figure(near_peak(SLEEP));
    NETPIPE "Sec. 5.2, Fig. 2, cLAN, two processors": "peak of TCP over LANE", 339.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 2, cLAN, two processors": "peak of VIA, polling", 768.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 2, cLAN, two processors": "peak of VIA, blocking", 738.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, one processor": "peak of TCP", 258.0, "Mbit/s", Figure(far_peak(WIRE_TCP).or(WIRE_TCP_POLL));
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, one processor": "peak of VIA, polling", 510.0, "Mbit/s", Figure(far_peak(ETH_POLL));
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, one processor": "peak of VIA, blocking", 510.0, "Mbit/s", Figure(far_peak(ETH_BLOCK));
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, two processors": "peak of TCP", 261.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 3, GNIC-II, two processors": "peak of VIA, polling and blocking", 273.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, one processor": "peak of TCP", 296.0, "Mbit/s", Figure(far_peak(WIRE_TCP).or(WIRE_TCP_POLL));
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, one processor": "peak of VIA, polling", 520.0, "Mbit/s", Figure(far_peak(ETH_POLL));
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, one processor": "peak of VIA, blocking", 520.0, "Mbit/s", Figure(far_peak(ETH_BLOCK));
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, two processors": "peak of TCP", 260.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.2, Fig. 4, SK-9821, two processors": "peak of VIA, polling and blocking", 269.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "1 byte, TCP", 54.0, "us", Figure(BIG_TCP);
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "1 byte, VIA, polling", 24.0, "us", Figure(byte(JUMBO_POLL));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "1 byte, VIA, blocking", 24.0, "us", Figure(byte(JUMBO_BLOCK));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "peak of TCP", 574.0, "Mbit/s", Figure(far_peak(JUMBO_TCP).or(JUMBO_TCP_POLL));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "peak of VIA, polling", 648.0, "Mbit/s", Figure(far_peak(JUMBO_POLL));
    NETPIPE "Sec. 5.3, Fig. 5, SK-9821, MTU 9000, one processor": "peak of VIA, blocking", 632.0, "Mbit/s", Figure(far_peak(JUMBO_BLOCK));
    NETPIPE "Sec. 5.3, SK-9821, MTU 9000, two processors": "1 byte, TCP", 93.0, "us", TwoEach;
    NETPIPE "Sec. 5.3, SK-9821, MTU 9000, two processors": "peak of TCP", 504.0, "Mbit/s", TwoEach;
    NETPIPE "Sec. 5.3, SK-9821, MTU 9000, two processors": "peak of VIA, polling and blocking", 535.0, "Mbit/s", TwoEach;
}

table_of_findings! {
    NETPIPE "Table 1, cLAN": "LANE's latency / VIA's, polling (ours: LANE with frames of 9000 B, VIA in shm): a bound that cannot fail", (58.0 / 9.0), 1.5 to ANY, byte(LANE), netpipe(POLL);
    NETPIPE "Table 1, cLAN": "the same, VIA blocking (ours: sleeping)", (58.0 / 9.0), 1.5 to ANY, byte(LANE), netpipe(SLEEP);
    NETPIPE "Table 1, cLAN": "blocking takes as long as polling", 1.0, 0.9 to 1.1, netpipe(SLEEP), netpipe(POLL);
    NETPIPE "Table 1": "cLAN's VIA at least 40 % below M-VIA's, polling (ours: shm / eth, no hardware): bound from 0", (9.0 / 19.0), 0.0 to 0.6, netpipe(POLL), byte(ETH_POLL);
    NETPIPE "Sec. 5.2, Fig. 2": "VIA's peak above LANE's (theirs: LANE with frames of 1500 B, ours: 9000)", (788.0 / 362.0), 1.1 to ANY, near_peak(POLL), far_peak(LANE);
    NETPIPE "Sec. 5.2": "polling carries 1 to 3 % more than blocking, cLAN", none, 1.0 to 1.1, near_peak(POLL), near_peak(SLEEP);
    NETPIPE "Table 1, SK-9821": "TCP's latency / VIA's, polling", (63.0 / 29.0), 1.5 to ANY, ETH_TCP, byte(ETH_POLL);
    NETPIPE "Table 1, SK-9821": "TCP's latency / VIA's, blocking (M-VIA polls)", (63.0 / 29.0), 1.5 to ANY, ETH_TCP, byte(ETH_BLOCK);
    NETPIPE "Table 1, SK-9821": "TCP's latency / VIA's, both sleeping (theirs: VIA polls)", (63.0 / 29.0), 1.5 to ANY, byte(WIRE_TCP), byte(ETH_SLEEP);
    NETPIPE "Table 1, SK-9821": "TCP's latency / VIA's over UDP, polling", (63.0 / 29.0), 1.5 to ANY, ETH_TCP, byte(UDP_POLL);
    NETPIPE "Table 1, SK-9821": "blocking as fast as polling, one byte", 1.0, 0.9 to 1.1, byte(ETH_BLOCK), byte(ETH_POLL);
    NETPIPE "Sec. 5.3, Fig. 5": "TCP's latency / VIA's, MTU 9000, polling", (54.0 / 24.0), 1.5 to ANY, BIG_TCP, byte(JUMBO_POLL);
    NETPIPE "Sec. 5.2, Fig. 4": "VIA's peak above TCP's, polling", (520.0 / 296.0), 1.0 to ANY, far_peak(ETH_POLL), far_peak(WIRE_TCP).or(WIRE_TCP_POLL);
    NETPIPE "Sec. 5.3, Fig. 5": "MTU 9000 doubles TCP's peak", (574.0 / 296.0), 1.6 to 2.4, far_peak(JUMBO_TCP), far_peak(WIRE_TCP);
    NETPIPE "Sec. 5.3, Fig. 5": "MTU 9000 adds 20 % to VIA's peak, polling", (648.0 / 520.0), 1.1 to 1.4, far_peak(JUMBO_POLL), far_peak(ETH_POLL);
    NETPIPE "Sec. 5.3, Fig. 5": "MTU 9000 adds 20 % to VIA's peak, blocking", (632.0 / 520.0), 1.1 to 1.4, far_peak(JUMBO_BLOCK), far_peak(ETH_BLOCK);
    NETPIPE "Sec. 5.3, Fig. 5": "MTU 9000 makes VIA's latency no longer", (24.0 / 29.0), 0.0 to 1.05, byte(JUMBO_POLL), byte(ETH_POLL);
}
