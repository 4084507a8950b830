//! Reads stored figures from lines of JSON, which this command or another one has written.

use anyhow::{Context, bail};
use serde_json::Value;

use super::net::{LinkKind, Net};
use super::results::{Key, Results};
use super::work::{End, Metric, Part, Scenario, Way, Work};
use crate::measure::bench::task::{Cpus, Wait};

/// Adds the figures of a file.
pub(super) fn read(text: &str, all: &mut Vec<Results>) -> anyhow::Result<()> {
    for (i, line) in text.lines().enumerate() {
        line_of(line, all).with_context(|| format!("line {}", i + 1))?;
    }
    Ok(())
}

/// Returns the results of a scenario, which may be new.
pub(super) fn of(scenario: Scenario, all: &mut Vec<Results>) -> &mut Results {
    let place = all.iter().position(|results| results.scenario == scenario).unwrap_or_else(|| {
        all.push(Results::new(scenario, Vec::new()));
        all.len() - 1
    });
    &mut all[place]
}

fn line_of(line: &str, all: &mut Vec<Results>) -> anyhow::Result<()> {
    let line: Value = serde_json::from_str(line).context("the line is not JSON")?;
    match line["scenario"].as_str() {
        Some("rpc") if line["layer"].is_string() => rpc(&line, all),
        Some("ftp") if line["layer"].is_string() => ftp(&line, all),
        Some(scenario) if scenario.starts_with("emp ") => emp(scenario, &line, all),
        Some(_) => own(&line, all),
        None => bail!("the line has no scenario"),
    }
}

/// Adds a line of `figures.jsonl`.
fn own(line: &Value, all: &mut Vec<Results>) -> anyhow::Result<()> {
    let scenario: Scenario = field(line, "scenario")?;
    let link = match line.get("mtu") {
        Some(_) => Some(LinkKind { mtu: field(line, "mtu")?, offloads: field(line, "offloads")? }),
        None => None,
    };
    let port = line.get("port").map(|_| field(line, "port")).transpose()?;
    let part = Part {
        way: field(line, "way")?,
        wait: field(line, "wait")?,
        cpus: field(line, "cpus")?,
        net: link.map(|link| Net { link, port }),
        nic: line.get("nic").map(|_| field(line, "nic")).transpose()?,
        ..part(scenario, &field::<String>(line, "series")?)
    };
    let metric = field::<String>(line, "metric")?;
    let metric = Metric::of_name(&metric).with_context(|| format!("no such metric: {metric}"))?;
    let key = (field(line, "end")?, metric, field(line, "x")?, field(line, "perturbation")?);
    let results = of(scenario, all);
    results.by_run = field(line, "by_run")?;
    results.restore(part, key, field(line, "values")?);
    Ok(())
}

fn field<T: serde::de::DeserializeOwned>(line: &Value, name: &str) -> anyhow::Result<T> {
    serde_json::from_value(line[name].clone()).with_context(|| format!("the line's {name}"))
}

fn part(scenario: Scenario, series: &str) -> Part {
    Part {
        scenario,
        series: series.to_owned(),
        way: Way::Tcp,
        wait: Wait::Block,
        cpus: Cpus::Free,
        work: Work::Stored,
        configuration: None,
        nagle: false,
        net: None,
        nic: None,
        seconds: 0.0,
    }
}

/// Adds figures of another command.
fn note(
    all: &mut Vec<Results>,
    (scenario, series, way): (Scenario, &str, Way),
    (metric, x): (Metric, u64),
    values: Vec<f64>,
) {
    let results = of(scenario, all);
    results.by_run = false;
    let key: Key = (End::Requester, metric, x, 0);
    results.restore(Part { way, ..part(scenario, series) }, key, values);
}

/// Adds a line of `sovia bench rpc`.
fn rpc(line: &Value, all: &mut Vec<Results>) -> anyhow::Result<()> {
    let (series, way) = match line["layer"].as_str() {
        Some("tcp") => ("TCP", Way::Tcp),
        Some("sovia") => ("sovia run", Way::Run),
        Some("via") => ("libsovia-rpc, \"via\"", Way::Native),
        _ => bail!("cannot read a line of `sovia bench rpc`: unknown layer {}", line["layer"]),
    };
    let values = ["min_us", "median_us", "max_us"].map(|name| field(line, name));
    let values = values.into_iter().collect::<anyhow::Result<Vec<f64>>>()?;
    let of = (Scenario::Rpc, series, way);
    note(all, of, (Metric::CallTime, field(line, "size_bytes")?), values);
    Ok(())
}

/// Adds a line of `sovia bench ftp`.
fn ftp(line: &Value, all: &mut Vec<Results>) -> anyhow::Result<()> {
    let layer: String = field(line, "layer")?;
    let way = match &layer[..] {
        "tcp" => Way::Tcp,
        "sovia" => Way::Run,
        _ => Way::Native,
    };
    let (client, direction): (String, String) = (field(line, "client")?, field(line, "way")?);
    let series = format!("{client}, {direction}, {layer}");
    let size = field(line, "size_bytes")?;
    let values = ["min_mbit_s", "median_mbit_s", "max_mbit_s"].map(|name| field(line, name));
    let values = values.into_iter().collect::<anyhow::Result<Vec<f64>>>()?;
    note(all, (Scenario::Ftp, &series, way), (Metric::Throughput, size), values);
    let copy = vec![field(line, "copy_mbit_s")?];
    note(all, (Scenario::Ftp, "local copy", Way::Local), (Metric::Throughput, size), copy);
    Ok(())
}

/// Adds a line of `sovia bench emp`.
fn emp(scenario: &str, line: &Value, all: &mut Vec<Results>) -> anyhow::Result<()> {
    let (series, way) = match line["way"].as_str() {
        Some("tcp") => ("TCP, 64 KB buffers", Way::Tcp),
        Some("tcp-poll") => ("TCP, 64 KB buffers, polling", Way::Tcp),
        Some("emp-calls") => ("EMP, in the calls", Way::Emp),
        Some("emp-thread") => ("EMP, a thread", Way::Emp),
        _ => bail!("cannot read a line of `sovia bench {scenario}`: unknown way {}", line["way"]),
    };
    let metric = match scenario {
        "emp latency" => Metric::HalfTrip,
        "emp bandwidth" => Metric::Throughput,
        _ => return emp_batch(series, way, line, all),
    };
    let (size, value) = (field(line, "size_bytes")?, field(line, "value")?);
    note(all, (Scenario::Emp, series, way), (metric, size), vec![value]);
    Ok(())
}

fn emp_batch(series: &str, way: Way, line: &Value, all: &mut Vec<Results>) -> anyhow::Result<()> {
    let work = field::<f64>(line, "work_us")? as u64;
    let series = format!("{series}, batches");
    let [send, receive, wait, share, mbit] =
        ["isend_us", "irecv_us", "waitall_us", "share_percent", "mbit"].map(|it| field(line, it));
    let (send, receive, wait): (f64, f64, f64) = (send?, receive?, wait?);
    for (metric, value) in [
        (Metric::Isend, send),
        (Metric::Irecv, receive),
        (Metric::Waitall, wait),
        (Metric::AllCalls, send + receive + wait),
        (Metric::Share, share?),
        (Metric::Throughput, mbit?),
    ] {
        note(all, (Scenario::Emp, &series, way), (metric, work), vec![value]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::made_up;
    use super::super::work::Reading;
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let reading =
            Reading { end: End::Requester, metric: Metric::HalfTrip, x: 64, off: -3, value: 2.5 };
        for scenario in [Scenario::Netpipe, Scenario::Hosts] {
            let before = made_up(scenario, std::slice::from_ref(&reading)).json().unwrap();
            let mut all = Vec::new();
            read(&before, &mut all).unwrap();
            assert_eq!(all.len(), 1);
            assert_eq!(all[0].json().unwrap(), before);
        }
    }

    #[test]
    fn lines_of_other_commands_are_read() {
        let lines = [
            r#"{"scenario":"rpc","layer":"via","size_bytes":0,"median_us":9.0,"min_us":8.0,"max_us":10.0}"#,
            r#"{"scenario":"ftp","size_bytes":5,"client":"tnftp","way":"get","layer":"sovia","median_mbit_s":3.0,"min_mbit_s":2.0,"max_mbit_s":4.0,"copy_mbit_s":7.0}"#,
            r#"{"scenario":"emp latency","way":"emp-calls","size_bytes":4,"value":3.0}"#,
            r#"{"scenario":"emp batches","way":"tcp","work_us":50.0,"isend_us":1.0,"irecv_us":2.0,"waitall_us":3.0,"share_percent":50.0,"mbit":9.0}"#,
        ];
        let mut all = Vec::new();
        read(&lines.join("\n"), &mut all).unwrap();
        let names: Vec<_> = all.iter().map(|results| results.scenario).collect();
        assert_eq!(names, [Scenario::Rpc, Scenario::Ftp, Scenario::Emp]);
        let calls = all[0].curves("libsovia-rpc, \"via\"", End::Requester, Metric::CallTime);
        assert_eq!(calls, [[(0, 9.0)]], "runs are not told apart");
        let sums = all[2].curve("TCP, 64 KB buffers, batches", End::Requester, Metric::AllCalls);
        assert_eq!(sums, [(50, 6.0)]);
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        for bad in ["", "x", "{}", r#"{"scenario":"what"}"#, r#"{"scenario":"rpc","layer":"x"}"#] {
            assert!(line_of(bad, &mut Vec::new()).is_err(), "{bad}");
        }
    }
}
