//! Changes between two scans.

use crate::scan::{Connection, Id, Scan};
use sovia_control::Traffic;
use std::collections::HashMap;

/// Activity of one connection, or of several together, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Bytes sent per second.
    pub sent: f64,
    /// Bytes received per second.
    pub received: f64,
    /// Messages sent per second.
    pub messages_sent: f64,
    /// Packets received per second.
    pub packets_received: f64,
    /// Sleeps per second.
    pub sleeps: f64,
}

impl Rate {
    /// Returns the number of system calls per second that the VI has saved: one for each message sent, and one for
    /// each packet received. Each sleep costs two calls: one to sleep, and one to wake the thread.
    pub fn saved(&self) -> f64 {
        (self.messages_sent + self.packets_received - 2.0 * self.sleeps).max(0.0)
    }
}

impl core::ops::AddAssign for Rate {
    fn add_assign(&mut self, other: Rate) {
        self.sent += other.sent;
        self.received += other.received;
        self.messages_sent += other.messages_sent;
        self.packets_received += other.packets_received;
        self.sleeps += other.sleeps;
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    traffic: Traffic,
    packets: u32,
    sleeps: u64,
    tcp: (u64, u64),
}

impl Counts {
    fn of(connection: &Connection) -> Counts {
        let record = &connection.record;
        Counts {
            traffic: record.traffic,
            packets: record.packets_taken,
            sleeps: record.sleeps,
            tcp: record.tcp,
        }
    }
}

/// Counts of the last scan, for the comparison with the next one.
#[derive(Debug)]
pub struct Rates {
    at: std::time::Instant,
    counts: HashMap<Id, Counts>,
}

impl Rates {
    /// Stores the counts of a scan.
    pub fn begin(scan: &Scan) -> Rates {
        let counts = scan.connections.iter().map(|one| (one.id, Counts::of(one))).collect();
        Rates { at: scan.at, counts }
    }

    /// Returns the rates of each connection since the last scan, in the order of the new scan, and stores the new
    /// counts. A new connection starts from 0.
    pub fn next(&mut self, scan: &Scan) -> Vec<Rate> {
        let seconds = scan.at.saturating_duration_since(self.at).as_secs_f64().max(1e-6);
        let rate_of = |connection: &Connection| {
            let before = self.counts.get(&connection.id).copied().unwrap_or_default();
            let now = Counts::of(connection);
            // A count never goes down, but may seem to if the engine moves the count during the read.
            let more = |now: u64, before: u64| {
                let more = now.wrapping_sub(before);
                if more > u64::MAX / 2 { 0.0 } else { more as f64 / seconds }
            };
            // The lower 32 bits, which wrap.
            let packets = now.packets.wrapping_sub(before.packets);
            let packets = if packets > u32::MAX / 2 { 0 } else { packets };
            let (sent, received) = (now.traffic.bytes_sent, now.traffic.bytes_received);
            let past = &before.traffic;
            Rate {
                sent: more(sent, past.bytes_sent) + more(now.tcp.0, before.tcp.0),
                received: more(received, past.bytes_received) + more(now.tcp.1, before.tcp.1),
                messages_sent: more(now.traffic.messages_sent, past.messages_sent),
                packets_received: f64::from(packets) / seconds,
                sleeps: more(now.sleeps, before.sleeps),
            }
        };
        let rates = scan.connections.iter().map(rate_of).collect();
        *self = Rates::begin(scan);
        rates
    }
}
