//! Results as tables, for the terminal and for the page.

use super::compare::{Row, Verdict};
use super::plan::hosts;
use super::published::Grid;
use super::results::{Point, Results};
use super::work::{End, Metric, Part, Scenario, Way};
use crate::measure::table::number;
use crate::output::put_line;

/// A table: title, header and rows.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Columns with text, counted from 0. The others have figures.
    pub(super) left: Vec<usize>,
}

/// Explanation of the share in brackets.
pub(super) const SPREAD: &str = "Figures are medians of the runs. In brackets: the spread, which is the greatest value minus the least, divided by the median.";

/// Returns the tables of a scenario: by x if there are curves, otherwise with a row for each figure.
pub(super) fn of(results: &Results) -> Vec<Table> {
    match results.scenario {
        Scenario::Loops | Scenario::Memory => vec![list(results)],
        Scenario::Calls => [list(results), beside_ring(results)]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        Scenario::Hosts => hosts::groups()
            .iter()
            .map(|group| by_x(results, group.metric, &group.title, |part| group.has(part)))
            .filter(|table| !table.rows.is_empty())
            .collect(),
        _ => {
            let name = title(results.scenario);
            let of = |metric| by_x(results, metric, name, |_| true);
            results.metrics().into_iter().map(of).collect()
        }
    }
}

fn cell(point: &Point<'_>) -> String {
    let spread = (point.summary.spread() * 100.0).round();
    format!("{} [{spread}%]", number(Some(point.summary.median)))
}

fn list(results: &Results) -> Table {
    let header = ["series", "end", "what", "unit", "median", "min", "max"];
    let row = |point: Point<'_>| {
        vec![
            point.part.series.clone(),
            point.end.name().to_owned(),
            point.metric.title().to_owned(),
            point.metric.unit().to_owned(),
            number(Some(point.summary.median)),
            number(Some(point.summary.min)),
            number(Some(point.summary.max)),
        ]
    };
    Table {
        title: title(results.scenario).to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: results.points().map(row).collect(),
        left: vec![0, 1, 2, 3],
    }
}

/// Compares one VI with the bare ring.
fn beside_ring(results: &Results) -> Table {
    let mut rows = Vec::new();
    for ring in results.points().filter(|point| point.part.way == Way::Ring) {
        let what = ring.part.series.split(',').next().unwrap_or_default();
        let vi = results.points().find(|point| {
            point.part.way == Way::SendRecv
                && point.part.series.split(',').next() == Some(what)
                && (point.metric, point.x) == (ring.metric, ring.x)
        });
        if let Some(vi) = vi {
            let medians = [ring.summary.median, vi.summary.median];
            let [ring_value, vi_value] = medians.map(|value| number(Some(value)));
            let unit = ring.metric.unit().to_owned();
            let ratio = number(Some(medians[1] / medians[0]));
            rows.push(vec![what.to_owned(), unit, ring_value, vi_value, ratio]);
        }
    }
    let header = ["what", "unit", "bare ring", "VI", "VI / ring"];
    Table {
        title: "One VI beside the bare ring".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
        left: vec![0, 1],
    }
}

/// Returns a requester's figure with the responder's.
fn of_both(results: &Results, point: &Point<'_>) -> String {
    let theirs = results.curve(&point.part.series, End::Responder, point.metric);
    let theirs = theirs.iter().find(|their| their.0 == point.x).map(|their| their.1);
    format!("{} / {}", cell(point), number(theirs))
}

/// Returns a series' name for a column, without the words of the table's title.
fn heading(scenario: Scenario, series: &str) -> &str {
    match series.split_once(", ") {
        Some((_, rest)) if scenario == Scenario::Hosts => rest,
        _ => series,
    }
}

fn by_x(results: &Results, metric: Metric, name: &str, of: impl Fn(&Part) -> bool) -> Table {
    let mut xs: Vec<u64> = Vec::new();
    let points: Vec<_> = results
        .points()
        .filter(|point| point.metric == metric && point.off == 0 && point.end == End::Requester)
        .filter(|point| of(point.part))
        .collect();
    points.iter().for_each(|point| xs.push(point.x));
    xs.sort_unstable();
    xs.dedup();
    let series: Vec<_> = results
        .parts
        .iter()
        .map(|part| part.series.as_str())
        .filter(|name| points.iter().any(|point| point.part.series == *name))
        .collect();
    let mut header = vec![results.scenario.x_name().replace('_', " ")];
    header.extend(series.iter().map(|series| heading(results.scenario, series).to_owned()));
    let rows = xs.iter().map(|&x| {
        let mut row = vec![x.to_string()];
        row.extend(series.iter().map(|name| {
            let point = points.iter().find(|point| point.x == x && point.part.series == *name);
            point.map_or("-".to_owned(), |point| match metric {
                Metric::Processor
                | Metric::ProcessorUser
                | Metric::ProcessorSystem
                | Metric::ProcessorPerByte => of_both(results, point),
                _ => cell(point),
            })
        }));
        row
    });
    Table {
        title: format!("{name}: {} in {}", metric.title(), metric.unit()),
        header,
        rows: rows.collect(),
        left: Vec::new(),
    }
}

/// Returns true if NetPIPE's perturbations were measured in a part.
fn is_perturbed(results: &Results, part: &Part) -> bool {
    results.points().any(|point| point.part.series == part.series && point.off != 0)
}

/// Returns the largest drop of throughput at sizes next to a NetPIPE size, for each series.
pub(super) fn perturbations(results: &Results) -> Option<Table> {
    let of = |part: &str, x: u64, off: i32| {
        results
            .points()
            .find(|p| {
                p.part.series == part && p.x == x && p.off == off && p.metric == Metric::Throughput
            })
            .map(|p| p.summary.median)
    };
    let mut rows = Vec::new();
    for part in results.parts.iter().filter(|part| is_perturbed(results, part)) {
        // The largest drop of a series: the size, the perturbation, and the remaining share of throughput.
        let mut worst: Option<(u64, i32, f64)> = None;
        for point in results.points().filter(|p| {
            p.part.series == part.series && p.off != 0 && p.metric == Metric::Throughput
        }) {
            let Some(base) = of(&part.series, point.x, 0) else { continue };
            let share = point.summary.median / base;
            if worst.is_none_or(|worst| share < worst.2) {
                worst = Some((point.x, point.off, share));
            }
        }
        let Some((x, off, share)) = worst else { continue };
        let share = format!("{:.0} %", share * 100.0);
        rows.push(vec![part.series.clone(), x.to_string(), format!("{off:+}"), share]);
    }
    if rows.is_empty() {
        return None;
    }
    let header = ["series", "size bytes", "perturbation", "left of the throughput"];
    Some(Table {
        title: "NetPIPE: the greatest loss by a perturbation".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
        left: vec![0],
    })
}

/// Returns a paper's complete table, with the measured figures beside each column.
pub(super) fn grid(grid: &Grid, all: &[Results]) -> Table {
    let mut header = vec!["bytes".to_owned()];
    for column in grid.columns {
        header.extend(["published", "ours"].map(|whose| format!("{}, {whose}", column.name)));
        if column.name != grid.columns[0].name {
            header.extend(["published", "ours"].map(|whose| format!("by native, {whose}")));
        }
    }
    let results = all.iter().find(|results| results.scenario == grid.scenario);
    let curve =
        |i: usize| results.map(|it| it.curve(grid.columns[i].series, End::Requester, grid.metric));
    let curves = [0, 1, 2, 3].map(|i| curve(i).unwrap_or_default());
    let row = |(x, values): &(u64, [f64; 4])| {
        let ours = curves
            .each_ref()
            .map(|curve| curve.iter().find(|point| point.0 == *x).map(|point| point.1));
        let mut row = vec![x.to_string()];
        for i in 0..values.len() {
            row.extend([number(Some(values[i])), measured(ours[i])]);
            if i > 0 {
                let here = ours[i].zip(ours[0]).map(|(it, base)| it / base);
                row.extend([number(Some(values[i] / values[0])), measured(here)]);
            }
        }
        row
    };
    Table {
        title: format!("{}, in {}: {}", grid.place, grid.metric.unit(), grid.what),
        header,
        rows: grid.rows.iter().map(row).collect(),
        left: Vec::new(),
    }
}

fn measured(value: Option<f64>) -> String {
    value.map_or("not measured".to_owned(), |value| number(Some(value)))
}

/// Returns published figures with measured ones.
pub(super) fn comparison<'a>(rows: impl Iterator<Item = &'a Row>) -> Table {
    let header = ["where", "what", "unit", "published", "ours", "ours / published", "times better"];
    let row = |row: &Row| {
        vec![
            row.fact.place.to_owned(),
            row.fact.what.to_owned(),
            row.fact.unit.to_owned(),
            number(Some(row.fact.value)),
            row.ours.map_or_else(|| row.why(), |ours| number(Some(ours))),
            ratio(row.ratio()),
            number(row.better()),
        ]
    };
    Table {
        title: "Published and ours".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.map(row).collect(),
        left: vec![0, 1, 2],
    }
}

/// Returns the papers' findings, and whether each holds here.
pub(super) fn findings<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Table {
    let header =
        ["where", "what was found", "then", "holds from", "to", "here", "min", "max", "so it"];
    let row = |verdict: &Verdict| {
        let (least, most) = verdict.finding.bounds;
        let most = if most.is_finite() { number(Some(most)) } else { "-".to_owned() };
        vec![
            verdict.finding.place.to_owned(),
            verdict.finding.what.to_owned(),
            number(verdict.finding.value),
            number(Some(least)),
            most,
            number(verdict.ours()),
            number(verdict.range().map(|range| range.0)),
            number(verdict.range().map(|range| range.1)),
            verdict.text().to_owned(),
        ]
    };
    Table {
        title: "The findings as ratios, and whether they hold here".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: verdicts.map(row).collect(),
        left: vec![0, 1, 8],
    }
}

/// Formats a ratio that may be very small.
fn ratio(value: Option<f64>) -> String {
    match value {
        Some(value) if value > 0.0 && value < 0.01 => format!("{value:.1e}"),
        _ => number(value),
    }
}

/// Returns a scenario's name for readers.
pub(super) fn title(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Loops => "Ping-pong loops with 4 bytes",
        Scenario::Throughput => "One-way and two-way throughput",
        Scenario::Strided => "Strided copy of 8 KB of doubles",
        Scenario::Scatter => "Scattering over 32 blocks",
        Scenario::Queues => "Completion queue and round robin",
        Scenario::Netpipe => "NetPIPE",
        Scenario::Calls => "Single calls",
        Scenario::Memory => "Memory of idle connected VIs (per VI)",
        Scenario::Registration => "Registering and copying",
        Scenario::Sovia => "SOVIA streams in the papers' configurations",
        Scenario::Buffers => "Messages from and into other memory each time",
        Scenario::Hosts => "NetPIPE and SOVIA between two hosts",
        Scenario::Rpc => "Sun RPC",
        Scenario::Ftp => "FTP",
        Scenario::Emp => "EMP",
    }
}

/// Prints a table on the terminal.
pub(super) fn print(table: &Table) -> anyhow::Result<()> {
    let mut text = crate::measure::table::new(table.header.clone(), &table.left);
    for row in &table.rows {
        text.add_row(row.clone());
    }
    put_line!("\n{}\n{text}", table.title)
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::made_up;
    use super::super::work::Reading;
    use super::*;

    fn reading(off: i32, value: f64) -> Reading {
        Reading { end: End::Requester, metric: Metric::Throughput, x: 64, off, value }
    }

    #[test]
    fn curves_become_columns() {
        let results = made_up(Scenario::Scatter, &[reading(0, 100.0)]);
        let tables = of(&results);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].header.len(), 1 + results.parts.len());
        assert_eq!(tables[0].rows[0][..2], ["64", "100 [30%]"]);
    }

    #[test]
    fn both_ends_have_processor_time() {
        let of = |end, value| Reading { end, metric: Metric::Processor, ..reading(0, value) };
        let both = [of(End::Requester, 20.0), of(End::Responder, 10.0)];
        let tables = super::of(&made_up(Scenario::Sovia, &both));
        assert_eq!(tables[0].rows[0][..2], ["64", "20.0 [30%] / 10.0"]);
    }

    #[test]
    fn a_vi_stands_beside_the_ring() {
        let tables = of(&made_up(Scenario::Calls, &[reading(0, 100.0)]));
        let expected = ["stream of 64 KB", "Mbit/s", "100", "100", "1.00"];
        assert_eq!(tables[1].rows.len(), 3);
        assert_eq!(tables[1].rows[2], expected);
    }

    #[test]
    fn the_greatest_loss_is_found() {
        let all = [reading(0, 100.0), reading(-3, 80.0), reading(3, 90.0)];
        let table = perturbations(&made_up(Scenario::Netpipe, &all)).unwrap();
        assert_eq!(table.rows[0][1..], ["64", "-3", "80 %"]);
        assert!(perturbations(&made_up(Scenario::Netpipe, &all[..1])).is_none());
    }
}
