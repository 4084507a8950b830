//! Results as a table for people, or as JSON for programs.

use std::collections::BTreeMap;

use comfy_table::Table;
use serde::Serialize;

use super::Plan;
use super::layer::Layer;
use super::nic::Places;
use super::ratio::Ratio;
use super::series::Series;
use super::task::{Cpus, Metric, Scenario, Wait};
use crate::measure::table::number;
use crate::output::put_line;

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    scenario: Scenario,
    layer: Layer,
    provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    nic: Option<&'a Places>,
    wait: Wait,
    cpus: Cpus,
    size_bytes: usize,
    metric: &'a str,
    unit: &'a str,
    median: f64,
    p99: Option<f64>,
    p999: Option<f64>,
    min: f64,
    max: f64,
    runs: u32,
    /// For the layer `sovia`: the number of runs in which the connection left TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    accelerated_runs: Option<u32>,
    /// For layers of Sovia: how many times better they are than other layers of the same run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    against: BTreeMap<Layer, Ratio>,
}

/// Prints a JSON object for every metric, size and layer.
pub(super) fn json(plan: &Plan, series: &Series) -> anyhow::Result<()> {
    for (metric, size_bytes, layer) in combinations(plan, series) {
        let Some(summary) = series.summary(metric, size_bytes, layer) else { continue };
        // Connections of a few bytes are expected to stay on TCP.
        let is_sovia = layer == Layer::Sovia && plan.scenario != Scenario::Connect;
        let line = Line {
            scenario: plan.scenario,
            layer,
            provider: layer.provider(),
            nic: plan.nic.as_ref().filter(|_| layer == Layer::Nic),
            wait: layer.wait(plan.wait),
            cpus: layer.cpus(plan.cpus),
            size_bytes,
            metric: metric.name(),
            unit: metric.unit(),
            median: rounded(summary.median),
            p99: summary.tail.map(|tail| rounded(tail.p99)),
            p999: summary.tail.map(|tail| rounded(tail.p999)),
            min: rounded(summary.min),
            max: rounded(summary.max),
            runs: plan.runs,
            accelerated_runs: is_sovia.then(|| plan.runs - series.stays(size_bytes)),
            against: against(plan, series, metric, size_bytes, layer),
        };
        put_line!("{}", serde_json::to_string(&line)?)?;
    }
    series.notes().for_each(|note| eprintln!("sovia: {note}"));
    Ok(())
}

/// Returns the ratios of a layer of Sovia to the layers that it is compared with.
fn against(
    plan: &Plan,
    series: &Series,
    metric: Metric,
    size: usize,
    layer: Layer,
) -> BTreeMap<Layer, Ratio> {
    if !matches!(layer, Layer::Via | Layer::Nic | Layer::Sovia) {
        return BTreeMap::new();
    }
    let others = bases(plan.wait).iter().filter(|&&base| base != layer);
    let ratios = others
        .filter_map(|&base| Some((base, series.ratio(metric, size, layer, base)?.map(rounded))));
    ratios.collect()
}

/// Prints a table for every metric, with each layer's speed relative to the limit and to TCP.
pub(super) fn table(plan: &Plan, series: &Series) -> anyhow::Result<()> {
    put_line!("{}", explanation(plan))?;
    for metric in series.metrics() {
        put_line!("\n{}\n{}", title(metric), metric_table(plan, series, metric))?;
    }
    series.notes().try_for_each(|note| put_line!("\n{note}"))
}

fn metric_table(plan: &Plan, series: &Series, metric: Metric) -> Table {
    let bases: Vec<_> =
        bases(plan.wait).iter().copied().filter(|base| plan.layers.contains(base)).collect();
    let unit = metric.unit();
    let mut header = vec!["bytes".to_owned(), "layer".to_owned(), format!("median {unit}")];
    let has_tail = metric == Metric::HalfRoundTrip;
    if has_tail {
        header.extend([format!("p99 {unit}"), format!("p99.9 {unit}")]);
    }
    header.extend(["min".to_owned(), "max".to_owned()]);
    let better = if has_tail || !metric.is_cost() { "speed" } else { "economy" };
    header.extend(bases.iter().map(|base| format!("{better} / {base}")));
    let mut table = crate::measure::table::new(header, &[1]);

    for &size in &plan.sizes {
        for (place, &layer) in plan.layers.iter().enumerate() {
            let Some(summary) = series.summary(metric, size, layer) else { continue };
            let size_cell = if place == 0 { size.to_string() } else { String::new() };
            let mut row = vec![size_cell, layer.to_string(), number(Some(summary.median))];
            if has_tail {
                let tail = summary.tail;
                row.extend([number(tail.map(|t| t.p99)), number(tail.map(|t| t.p999))]);
            }
            row.extend([number(Some(summary.min)), number(Some(summary.max))]);
            row.extend(bases.iter().map(|&base| {
                let base = series.summary(metric, size, base).map(|base| base.median);
                number(base.map(|base| {
                    if metric.is_cost() { base / summary.median } else { summary.median / base }
                }))
            }));
            table.add_row(row);
        }
    }
    table
}

/// Returns the layers that the others are compared with.
fn bases(wait: Wait) -> &'static [Layer] {
    match wait {
        Wait::Poll | Wait::Block => &[Layer::Ring, Layer::Via, Layer::Tcp],
        Wait::Sleep => &[Layer::Eventfd, Layer::Tcp],
    }
}

fn combinations(plan: &Plan, series: &Series) -> Vec<(Metric, usize, Layer)> {
    let mut all = Vec::new();
    for metric in series.metrics() {
        for &size in &plan.sizes {
            all.extend(plan.layers.iter().map(|&layer| (metric, size, layer)));
        }
    }
    all
}

fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::HalfRoundTrip => "Latency: half a round trip",
        Metric::Bandwidth => "Bandwidth of one stream (1 GB is 10^9 bytes)",
        Metric::Messages => "Messages per second, one way, TCP_NODELAY",
        Metric::Transactions => "Requests with their responses per second, one after the other",
        Metric::Connections => "Connections per second: set up, one byte each way, closed",
        Metric::CpuAtTenth => {
            "Processor time of both ends at 10 % of TCP's peak (100 %: one processor)"
        }
        Metric::CpuAtHalf => {
            "Processor time of both ends at 50 % of TCP's peak (100 %: one processor)"
        }
    }
}

fn explanation(plan: &Plan) -> String {
    let wait = match plan.wait {
        Wait::Poll => "Both ends spin on non-blocking calls",
        Wait::Block => "Both ends make blocking calls",
        Wait::Sleep => "Both ends make blocking calls that sleep at once",
    };
    let cpus = match plan.cpus {
        Cpus::Apart => ", each on its own processor if there are two",
        Cpus::Together => ", on the same processor",
        Cpus::Free => ", on processors that the kernel chooses",
    };
    let mut text = format!("{wait}{cpus}.");
    let may_sleep = plan.wait == Wait::Block && plan.scenario != Scenario::Connect;
    if may_sleep && plan.layers.contains(&Layer::Sovia) {
        text.push_str(
            "\nsovia and via spin for a limited time before they sleep; with `--wait sleep`, sovia sleeps at once.",
        );
    }
    if plan.layers.contains(&Layer::Ring) {
        text.push_str(
            "\nring: bare shared memory without sockets or protocol, always spinning: the hardware's limit.",
        );
    }
    if plan.layers.contains(&Layer::Via) {
        text.push_str(
            "\nvia: a native Virtual Interface used through descriptors, without sockets.",
        );
    }
    if let Some(places) = plan.nic.as_ref().filter(|_| plan.layers.contains(&Layer::Nic)) {
        text.push_str(&format!("\nnic: a native Virtual Interface on {places}."));
    }
    if plan.layers.contains(&Layer::Eventfd) {
        text.push_str(
            "\neventfd: the two ends only wake each other: the limit if both ends sleep.",
        );
    }
    let runs = if plan.runs == 1 { "run" } else { "runs" };
    text.push_str(&format!(
        "\nMedian of {} {runs}. Each run measures all layers, one after the other.",
        plan.runs
    ));
    text
}

/// Rounds a value to the digits that a measurement can have.
pub(super) fn rounded(value: f64) -> f64 {
    let digits = 5 - value.abs().max(f64::MIN_POSITIVE).log10().ceil() as i32;
    let scale = 10f64.powi(digits.clamp(-300, 300));
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_five_digits() {
        assert_eq!(rounded(0.058123456), 0.058123);
        assert_eq!(rounded(1234567.8), 1234600.0);
        assert_eq!(rounded(0.0), 0.0);
    }
}
