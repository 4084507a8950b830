//! Counters for Prometheus, in its text format.

use crate::scan::{Connection, Scan};
use sovia_control::{Junk, Reason, StatsPage};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Labels of counters: program and user. Processes come and go, so there is no label for a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    program: String,
    uid: u32,
}

/// Names and descriptions of the counters, in the order of `Counts::plain`.
const PLAIN: [(&str, &str); 9] = [
    ("sovia_ends_total", "Ends of TCP connections that programs under Sovia had"),
    ("sovia_accelerated_total", "Ends of connections that moved to a VI"),
    ("sovia_bytes_sent_total", "Bytes sent on VIs"),
    ("sovia_bytes_received_total", "Bytes received on VIs"),
    ("sovia_messages_sent_total", "Messages sent on VIs"),
    ("sovia_sleeps_total", "Times that a thread slept until a message or buffer space came"),
    ("sovia_wakes_total", "Times that a sleeping peer was woken"),
    ("sovia_messages_handled_total", "Messages handled by a thread of Sovia"),
    ("sovia_messages_registered_total", "Messages sent from registered memory"),
];

/// Counts of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    plain: [u64; PLAIN.len()],
    stayed: Vec<u64>,
    junk: Vec<u64>,
}

impl Counts {
    fn none() -> Counts {
        let (stayed, junk) = (vec![0; Reason::ALL.len()], vec![0; Junk::ALL.len()]);
        Counts { plain: [0; PLAIN.len()], stayed, junk }
    }

    fn of(page: &StatsPage, traffic: sovia_control::Traffic) -> Counts {
        Counts {
            plain: [
                page.recorded(),
                page.accelerated(),
                traffic.bytes_sent,
                traffic.bytes_received,
                traffic.messages_sent,
                traffic.sleeps,
                traffic.rings,
                traffic.messages_handled,
                traffic.messages_registered,
            ],
            stayed: Reason::ALL.iter().map(|&reason| page.stayed_for(reason)).collect(),
            junk: Junk::ALL.iter().map(|&junk| page.junk(junk)).collect(),
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut u64> {
        self.plain.iter_mut().chain(&mut self.stayed).chain(&mut self.junk)
    }

    /// Raises each count to at least its previous value. A count may seem to go down if the engine moves the count
    /// during the read.
    fn no_less_than(mut self, mut before: Counts) -> Counts {
        for (now, before) in self.all().zip(before.all()) {
            *now = (*now).max(*before);
        }
        self
    }

    /// Adds the increase from `before` to `now`.
    fn add(&mut self, mut now: Counts, mut before: Counts) {
        for ((sum, now), before) in self.all().zip(now.all()).zip(before.all()) {
            *sum = sum.wrapping_add(now.saturating_sub(*before));
        }
    }
}

/// Counters of all programs since the creation of this value. A program's counters go on when one process ends and
/// another starts. Counts of a process after its last scan are lost.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Counts of each family at the last scan.
    families: HashMap<u64, Counts>,
    sums: BTreeMap<Labels, Counts>,
}

impl Metrics {
    /// Adds a scan to the counters, and returns all counters as text. `name_of` returns a user's name.
    pub fn next(&mut self, scan: &Scan, name_of: impl Fn(u32) -> String) -> String {
        let mut families = HashMap::new();
        for (at, family) in scan.families.iter().enumerate() {
            let (Some(page), Some(&first)) = (&family.totals, family.processes.first()) else {
                continue;
            };
            let open = scan.connections.iter().filter(|connection| connection.family == at);
            let now = Counts::of(page, family.traffic(open));
            // The inode may now belong to another family's file. That family has counted fewer ends.
            let before = self.families.remove(&family.file);
            let before = before.filter(|before| before.plain[0] <= now.plain[0]);
            let before = before.unwrap_or_else(Counts::none);
            let now = now.no_less_than(before.clone());
            let process = &scan.processes[first];
            let labels = Labels { program: process.program.clone(), uid: process.uid };
            let sum = self.sums.entry(labels).or_insert_with(Counts::none);
            sum.add(now.clone(), before);
            families.insert(family.file, now);
        }
        self.families = families;
        self.text(scan, name_of)
    }

    fn text(&self, scan: &Scan, name_of: impl Fn(u32) -> String) -> String {
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        let mut labels = |labels: &Labels| {
            let user = names.entry(labels.uid).or_insert_with(|| name_of(labels.uid));
            format!("program=\"{}\",user=\"{}\"", escaped(&labels.program), escaped(user))
        };
        let mut out = String::new();
        for (at, (name, help)) in PLAIN.iter().enumerate() {
            describe(&mut out, name, help, "counter");
            for (of, counts) in &self.sums {
                let _ = writeln!(out, "{name}{{{}}} {}", labels(of), counts.plain[at]);
            }
        }
        describe(
            &mut out,
            "sovia_stayed_total",
            "Ends of connections that stayed on TCP or went back to TCP, by reason",
            "counter",
        );
        for (of, counts) in &self.sums {
            for (reason, count) in Reason::ALL.iter().zip(&counts.stayed) {
                if *count != 0 {
                    let reason = key(reason);
                    let of = labels(of);
                    let _ = writeln!(out, "sovia_stayed_total{{{of},reason=\"{reason}\"}} {count}");
                }
            }
        }
        let help = "Messages that Sovia ignored while ends looked for each other, by what was wrong with the messages";
        describe(&mut out, "sovia_left_aside_total", help, "counter");
        for (of, counts) in &self.sums {
            for (junk, count) in Junk::ALL.iter().zip(&counts.junk) {
                if *count != 0 {
                    let kind = key(junk);
                    let of = labels(of);
                    let _ = writeln!(out, "sovia_left_aside_total{{{of},kind=\"{kind}\"}} {count}");
                }
            }
        }
        describe(
            &mut out,
            "sovia_connections",
            "Ends of open connections, by carrier and state",
            "gauge",
        );
        let mut open: BTreeMap<(Labels, &str, &str), u64> = BTreeMap::new();
        for connection in &scan.connections {
            let key = (of_connection(scan, connection), connection.carrier(), connection.state());
            *open.entry(key).or_default() += 1;
        }
        for ((of, carrier, state), count) in &open {
            let of = labels(of);
            let _ = writeln!(
                out,
                "sovia_connections{{{of},carrier=\"{carrier}\",state=\"{state}\"}} {count}"
            );
        }
        describe(&mut out, "sovia_processes", "Processes whose connections are counted", "gauge");
        let mut processes: BTreeMap<Labels, u64> = BTreeMap::new();
        for process in &scan.processes {
            let of = Labels { program: process.program.clone(), uid: process.uid };
            *processes.entry(of).or_default() += 1;
        }
        for (of, count) in &processes {
            let _ = writeln!(out, "sovia_processes{{{}}} {count}", labels(of));
        }
        describe(
            &mut out,
            "sovia_unreadable_processes",
            "Processes whose connections the agent cannot read",
            "gauge",
        );
        let _ = writeln!(out, "sovia_unreadable_processes {}", scan.unreadable.len());
        out
    }
}

fn of_connection(scan: &Scan, connection: &Connection) -> Labels {
    let process = &scan.processes[connection.processes[0]];
    Labels { program: process.program.clone(), uid: process.uid }
}

fn describe(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Escapes a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the key of a reason or a kind of junk, for scripts: `peer_plain` for `PeerPlain`.
pub fn key(variant: impl core::fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use crate::scan::{Family, scan_of};

    fn look(file: u64, ends: u64, program: &str) -> Scan {
        let mut scan = scan_of([]);
        let page = StatsPage::copy_of(&begun()).unwrap();
        (0..ends).for_each(|_| page.count_recorded());
        (0..ends).for_each(|_| page.count(Reason::PeerPlain));
        scan.processes.push(Process {
            pid: 7,
            program: program.into(),
            uid: 5,
            began: 1,
            net: 1,
            library: "0".into(),
        });
        scan.families.push(Family { file, processes: vec![0], totals: Some(page) });
        scan
    }

    /// Returns the bytes of a page with all counters 0.
    fn begun() -> Vec<u8> {
        let mut bytes = vec![0; StatsPage::SIZE];
        bytes[..8].copy_from_slice(b"SOVIASTA");
        let versions = 0..100u64;
        let mut version = |version: u64| {
            bytes[8..16].copy_from_slice(&version.to_ne_bytes());
            StatsPage::copy_of(&bytes).is_ok()
        };
        assert!(versions.into_iter().any(&mut version));
        bytes
    }

    #[test]
    fn counters_go_on_where_processes_come_and_go() {
        let mut metrics = Metrics::default();
        let name = |uid: u32| format!("u{uid}");
        let mut ends = |scan: &Scan| {
            let text = metrics.next(scan, name);
            let line = text.lines().find(|line| line.starts_with("sovia_ends_total{"));
            line.unwrap().to_owned()
        };
        let labels = "sovia_ends_total{program=\"p\",user=\"u5\"}";
        assert_eq!(ends(&look(1, 3, "p")), format!("{labels} 3"));
        assert_eq!(ends(&look(1, 5, "p")), format!("{labels} 5"));
        // Simulates another process of the program.
        assert_eq!(ends(&look(2, 2, "p")), format!("{labels} 7"));
        // Simulates another file with the inode of the first one.
        assert_eq!(ends(&look(2, 1, "p")), format!("{labels} 8"));
        assert_eq!(ends(&scan_of([])), format!("{labels} 8"));
    }

    #[test]
    fn labels_are_escaped_and_reasons_named() {
        let text = Metrics::default().next(&look(1, 1, "a\"\\u{1b}"), |_| "x\ny".into());
        let of = r#"program="a\"\\u{1b}",user="x\ny""#;
        let line = format!("sovia_stayed_total{{{of},reason=\"peer_plain\"}} 1");
        assert!(text.lines().any(|found| found == line), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("sovia_")));
    }
}
