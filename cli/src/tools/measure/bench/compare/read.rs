//! Reads the output of `sovia bench … --json`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use super::MachineLine;
use crate::measure::bench::ratio::Ratio;

/// Reason why two runs cannot be compared.
#[derive(Debug, Error)]
pub(super) enum ReadError {
    /// The file does not exist or cannot be read.
    #[error("cannot read {of}")]
    Io {
        of: String,
        #[source]
        source: io::Error,
    },
    /// A line is not valid JSON.
    #[error("line {number} of {of} is not a line of `sovia bench … --json`")]
    Line {
        of: String,
        number: usize,
        #[source]
        source: serde_json::Error,
    },
    /// Two lines describe the same measurement.
    #[error("line {number} of {of} repeats the measurement of an earlier line: {name}")]
    Again { of: String, number: usize, name: String },
    /// The file has no ratio.
    #[error(
        "cannot compare {of}: the file has no ratios; measure Sovia beside another layer, as in `sovia bench latency --layers ring,tcp,sovia --json`"
    )]
    NoRatios { of: String },
    /// The runs have no measurement in common.
    #[error("cannot compare: the two runs have no measurement in common")]
    NothingInCommon,
    /// The second run is missing.
    #[error(
        "cannot compare: no second run is given; name a second file, or use a pipe, as in `sovia bench latency --json | sovia bench compare FILE`"
    )]
    NothingNew,
}

/// Description of a measurement, with the same words in each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) scenario: String,
    pub(super) size: String,
    pub(super) metric: String,
    /// Names of the layer and of the layer that it is compared with.
    pub(super) layers: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scenario, size, metric, layers } = self;
        write!(f, "{scenario}, {size}, {metric}, {layers}")
    }
}

/// Ratios of a run, in its order.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) machine: Option<String>,
    pub(super) ratios: Vec<(Name, Ratio)>,
}

/// The fields that a ratio needs, from a line with a message size.
#[derive(Deserialize)]
struct Messages {
    scenario: String,
    layer: String,
    wait: String,
    cpus: String,
    size_bytes: usize,
    metric: String,
    #[serde(default)]
    against: BTreeMap<String, Ratio>,
}

/// Fields of a line of `sovia bench connections`.
#[derive(Deserialize)]
struct Connections {
    clients: u32,
    nodelay: String,
    messages: u32,
    connections_ratio: Quartiles,
    cpu_ratio: Quartiles,
}

#[derive(Clone, Copy, Deserialize)]
struct Quartiles {
    median: f64,
    quarter: f64,
    three_quarters: f64,
}

/// A line. Its fields decide the variant.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Machine(MachineLine),
    Connections(Connections),
    Messages(Messages),
    /// A line of a scenario without ratios.
    Other {
        #[serde(rename = "scenario")]
        _scenario: IgnoredAny,
    },
}

/// Returns all ratios in a file.
pub(super) fn file(path: &Path) -> Result<Measured, ReadError> {
    let of = path.display().to_string();
    let file = File::open(path).map_err(|source| ReadError::Io { of: of.clone(), source })?;
    lines(&of, BufReader::new(file))
}

/// Returns all ratios in `text`. Errors name its source `of`.
pub(super) fn lines(of: &str, text: impl BufRead) -> Result<Measured, ReadError> {
    let of = of.to_owned();
    let mut measured = Measured { machine: None, ratios: Vec::new() };
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.map_err(|source| ReadError::Io { of: of.clone(), source })?;
        if line.trim().is_empty() {
            continue;
        }
        let line = serde_json::from_str(&line).map_err(|source| ReadError::Line {
            of: of.clone(),
            number,
            source,
        })?;
        for (name, ratio) in ratios(line, &mut measured.machine) {
            if measured.ratios.iter().any(|(other, _)| *other == name) {
                return Err(ReadError::Again { of, number, name: name.to_string() });
            }
            measured.ratios.push((name, ratio));
        }
    }
    if measured.ratios.is_empty() { Err(ReadError::NoRatios { of }) } else { Ok(measured) }
}

fn ratios(line: Line, machine: &mut Option<String>) -> Vec<(Name, Ratio)> {
    match line {
        Line::Machine(line) => {
            *machine = Some(line.machine);
            Vec::new()
        }
        Line::Other { .. } => Vec::new(),
        Line::Messages(line) => messages(&line),
        Line::Connections(line) => connections(&line),
    }
}

fn messages(line: &Messages) -> Vec<(Name, Ratio)> {
    let named = |base: &String| Name {
        scenario: format!("{}, {}, {}", line.scenario, line.wait, line.cpus),
        size: format!("{} B", line.size_bytes),
        metric: line.metric.clone(),
        layers: format!("{} / {base}", line.layer),
    };
    line.against.iter().map(|(base, ratio)| (named(base), *ratio)).collect()
}

fn connections(line: &Connections) -> Vec<(Name, Ratio)> {
    let Connections { clients, nodelay, messages, connections_ratio, cpu_ratio } = line;
    let named = |metric: &str| Name {
        scenario: format!("connections, clients {clients}, nodelay {nodelay}"),
        size: format!("{messages} messages"),
        metric: metric.to_owned(),
        layers: "sovia / tcp".to_owned(),
    };
    let Quartiles { median, quarter, three_quarters } = *connections_ratio;
    let rate = Ratio { ratio: median, quarter, three_quarters };
    // For processor time less is better, and for ratios more. So the inverse is used.
    let Quartiles { median, quarter, three_quarters } = *cpu_ratio;
    let thrift =
        Ratio { ratio: 1.0 / median, quarter: 1.0 / three_quarters, three_quarters: 1.0 / quarter };
    vec![(named("connections"), rate), (named("processor time saved"), thrift)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = r#"{"scenario":"latency","layer":"sovia","provider":"shm","wait":"poll","cpus":"apart","size_bytes":4,"metric":"half_round_trip","unit":"us","median":0.07,"p99":null,"p999":null,"min":0.06,"max":0.08,"runs":5,"accelerated_runs":5,"against":{"ring":{"ratio":0.7,"quarter":0.6,"three_quarters":0.8},"tcp":{"ratio":90.0,"quarter":80.0,"three_quarters":99.0}}}"#;
    const TCP: &str = r#"{"scenario":"latency","layer":"tcp","provider":"kernel","wait":"poll","cpus":"apart","size_bytes":4,"metric":"half_round_trip","unit":"us","median":7.0,"p99":null,"p999":null,"min":6.0,"max":8.0,"runs":5}"#;
    const CONNECTIONS: &str = r#"{"scenario":"connections","clients":8,"nodelay":"both","messages":3,"size_bytes":64,"runs":7,"connections_ratio":{"median":0.98,"quarter":0.9,"three_quarters":1.1},"p50_ratio":{"median":1.0,"quarter":0.9,"three_quarters":1.1},"p99_ratio":{"median":1.0,"quarter":0.9,"three_quarters":1.1},"cpu_ratio":{"median":2.0,"quarter":1.0,"three_quarters":4.0}}"#;

    fn read(text: &str) -> Result<Measured, ReadError> {
        lines("a file", text.as_bytes())
    }

    #[test]
    fn ratios_of_all_scenarios_are_read_in_their_order() {
        let machine = r#"{"scenario":"machine","machine":"a fast one"}"#;
        let start = r#"{"scenario":"start","way":"env","runs":2,"median_ms":1.0}"#;
        let text = [machine, TCP, "", LATENCY, start, CONNECTIONS].join("\n");
        let measured = read(&text).unwrap();
        assert_eq!(measured.machine.as_deref(), Some("a fast one"));
        let names: Vec<_> = measured.ratios.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(
            names,
            [
                "latency, poll, apart, 4 B, half_round_trip, sovia / ring",
                "latency, poll, apart, 4 B, half_round_trip, sovia / tcp",
                "connections, clients 8, nodelay both, 3 messages, connections, sovia / tcp",
                "connections, clients 8, nodelay both, 3 messages, processor time saved, sovia / tcp",
            ]
        );
        assert_eq!(measured.ratios[0].1, Ratio { ratio: 0.7, quarter: 0.6, three_quarters: 0.8 });
        assert_eq!(measured.ratios[3].1, Ratio { ratio: 0.5, quarter: 0.25, three_quarters: 1.0 });
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        let corrupt = error(&format!("{LATENCY}\n{{\"scenario\":"));
        assert!(corrupt.starts_with("line 2 of a file is not a line of"), "{corrupt}");
        assert!(error("[1, 2]").starts_with("line 1 of a file is not a line of"));
        assert!(error(TCP).starts_with("cannot compare a file: "), "{}", error(TCP));
        assert!(error("").starts_with("cannot compare a file: "));
        let again = error(&format!("{LATENCY}\n{LATENCY}"));
        assert!(again.starts_with("line 2 of a file repeats") && again.ends_with("sovia / ring"));
        let missing = file(Path::new("/nowhere/baseline.jsonl")).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read /nowhere/baseline.jsonl");
    }
}
