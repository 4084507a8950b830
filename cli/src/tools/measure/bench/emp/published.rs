//! Results of the EMP paper (SC 2001, section 5). The hosts have two Pentium III of 933 MHz each, and NICs with two
//! processors of 88 MHz. They are connected by gigabit Ethernet back to back, with MTU 1500.

/// Half a round trip in microseconds, by message size (sections 1 and 6).
pub(super) const LATENCY_US: [(usize, f64); 2] = [(4, 23.0), (1500, 36.0)];
/// Throughput of 4 KB messages (sections 1 and 6). Section 5.2 says 80 % of 1000.
pub(super) const BANDWIDTH_MBIT: (usize, f64) = (4096, 880.0);

/// A row of table 2, in microseconds per call.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) send: f64,
    pub(super) receive: f64,
    pub(super) wait: f64,
    pub(super) sum: f64,
}

/// Table 2.
pub(super) const TABLE: [Row; 3] = [
    Row { name: "TCP, published", send: 137.0, receive: 4.0, wait: 126.0, sum: 266.0 },
    Row { name: "GM, published", send: 66.0, receive: 1.0, wait: 123.0, sum: 190.0 },
    Row { name: "EMP, published", send: 53.0, receive: 9.0, wait: 3.0, sum: 65.0 },
];
