//! Figures of all runs of a scenario, and their summaries.

use std::collections::BTreeMap;

use serde::Serialize;

use super::net::{LinkKind, Port};
use super::work::{End, Metric, Part, Reading, Scenario};
use crate::measure::bench::nic::Places;
use crate::measure::bench::report::rounded;
use crate::measure::bench::series::median;
use crate::measure::bench::task::{Cpus, Wait};

/// Key of a point within a series.
pub(super) type Key = (End, Metric, u64, i32);

/// Figures of one scenario.
pub(super) struct Results {
    pub(super) scenario: Scenario,
    pub(super) parts: Vec<Part>,
    /// For each part and each of its points: the figures of all runs.
    figures: Vec<BTreeMap<Key, Vec<f64>>>,
    /// Parts that failed in a run, with the reason. They are reported, and left out of that run.
    pub(super) failures: Vec<String>,
    /// Parts that this machine cannot measure, with the reason. This is not a failure.
    pub(super) left_out: Vec<String>,
    /// True if a point's figures are those of the runs, in order. Otherwise they are the minimum, the median and the
    /// maximum.
    pub(super) by_run: bool,
}

/// Summary of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) runs: usize,
}

/// A point of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'a> {
    pub(super) part: &'a Part,
    pub(super) end: End,
    pub(super) metric: Metric,
    pub(super) x: u64,
    pub(super) off: i32,
    pub(super) summary: Summary,
    values: &'a [f64],
}

/// A line of JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    scenario: Scenario,
    series: &'a str,
    way: &'a str,
    wait: Wait,
    cpus: Cpus,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<Port>,
    #[serde(flatten)]
    link: Option<LinkKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nic: Option<&'a Places>,
    end: End,
    x_name: &'a str,
    x: u64,
    perturbation: i32,
    metric: &'a str,
    unit: &'a str,
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
    /// Figures of the runs, in order; for figures of another command: minimum, median and maximum.
    values: Vec<f64>,
    by_run: bool,
}

impl Summary {
    fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(values.to_vec())?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            runs: values.len(),
        })
    }

    /// Returns the difference of maximum and minimum, as a share of the median.
    pub(super) fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median.abs() }
    }
}

impl Results {
    pub(super) fn new(scenario: Scenario, parts: Vec<Part>) -> Self {
        let figures = vec![BTreeMap::new(); parts.len()];
        let (failures, left_out) = (Vec::new(), Vec::new());
        Self { scenario, parts, figures, failures, left_out, by_run: true }
    }

    /// Returns true if there are no figures.
    pub(super) fn is_empty(&self) -> bool {
        self.figures.iter().all(BTreeMap::is_empty)
    }

    /// Adds stored figures of a series.
    pub(super) fn restore(&mut self, part: Part, key: Key, values: Vec<f64>) {
        let known = self.parts.iter().position(|it| it.series == part.series);
        let place = known.unwrap_or_else(|| {
            self.parts.push(part);
            self.figures.push(BTreeMap::new());
            self.parts.len() - 1
        });
        self.figures[place].insert(key, values);
    }

    /// Returns the figures of a point in each run; only the median if figures are not stored by run.
    fn by_run(&self, values: &[f64]) -> Vec<f64> {
        if self.by_run { values.to_vec() } else { median(values.to_vec()).into_iter().collect() }
    }

    /// Adds the readings of part `i` from one run.
    pub(super) fn add(&mut self, i: usize, readings: Vec<Reading>) {
        for Reading { end, metric, x, off, value } in readings {
            self.figures[i].entry((end, metric, x, off)).or_default().push(value);
        }
    }

    /// Returns all points, part by part.
    pub(super) fn points(&self) -> impl Iterator<Item = Point<'_>> {
        self.parts.iter().zip(&self.figures).flat_map(|(part, figures)| {
            figures.iter().filter_map(move |(&(end, metric, x, off), values)| {
                let summary = Summary::of(values)?;
                Some(Point { part, end, metric, x, off, summary, values })
            })
        })
    }

    /// Returns the medians of a metric of a series at one end, by x, without perturbation.
    pub(super) fn curve(&self, series: &str, end: End, metric: Metric) -> Vec<(u64, f64)> {
        self.summaries(series, end, metric).into_iter().map(|(x, it)| (x, it.median)).collect()
    }

    /// Returns the summaries of a metric of a series at one end, by x, without perturbation.
    pub(super) fn summaries(&self, series: &str, end: End, metric: Metric) -> Vec<(u64, Summary)> {
        let of_series = self.parts.iter().zip(&self.figures).filter(|it| it.0.series == series);
        of_series
            .flat_map(|(_, figures)| figures)
            .filter(|((whose, what, _, off), _)| (*whose, *what, *off) == (end, metric, 0))
            .filter_map(|((_, _, x, _), values)| Some((*x, Summary::of(values)?)))
            .collect()
    }

    /// Like [`Results::curve`], but for each run. Leaves out runs that did not measure all points.
    pub(super) fn curves(&self, series: &str, end: End, metric: Metric) -> Vec<Vec<(u64, f64)>> {
        let of_series = self.parts.iter().zip(&self.figures).filter(|it| it.0.series == series);
        let points: Vec<(u64, Vec<f64>)> = of_series
            .flat_map(|(_, figures)| figures)
            .filter(|((whose, what, _, off), _)| (*whose, *what, *off) == (end, metric, 0))
            .map(|((_, _, x, _), values)| (*x, self.by_run(values)))
            .collect();
        let runs = points.iter().map(|point| point.1.len()).min().unwrap_or(0);
        let of_run = |run: usize| points.iter().map(|point| (point.0, point.1[run])).collect();
        (0..runs).map(of_run).collect()
    }

    /// Returns the measured metrics, in order.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = self.points().map(|point| point.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
    }

    /// Returns a line of JSON for every point.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for Point { part, end, metric, x, off, summary, values } in self.points() {
            let line = Line {
                scenario: self.scenario,
                series: &part.series,
                way: part.way.name(),
                wait: part.wait,
                cpus: part.cpus,
                port: part.net.and_then(|net| net.port),
                link: part.net.map(|net| net.link),
                nic: part.nic.as_ref(),
                end,
                x_name: self.scenario.x_name(),
                x,
                perturbation: off,
                metric: metric.name(),
                unit: metric.unit(),
                median: rounded(summary.median),
                min: rounded(summary.min),
                max: rounded(summary.max),
                runs: summary.runs,
                values: values.iter().copied().map(rounded).collect(),
                by_run: self.by_run,
            };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
        Ok(text)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::plan::{Effort, parts};
    use super::*;

    /// Returns a scenario with meaningless figures: `x` itself, from three runs.
    pub(crate) fn made_up(scenario: Scenario, readings: &[Reading]) -> Results {
        let effort =
            Effort { quick: true, seconds: 0.01, perturbation: 3, vis: 10, largest: 8 << 20 };
        let mut results = Results::new(scenario, parts(scenario, effort));
        for i in 0..results.parts.len() {
            for factor in [0.9, 1.0, 1.2] {
                let of = |reading: &Reading| Reading {
                    value: reading.value * factor,
                    ..reading.clone()
                };
                results.add(i, readings.iter().map(of).collect());
            }
        }
        results
    }

    #[test]
    fn points_have_median_and_spread() {
        let reading =
            Reading { end: End::Requester, metric: Metric::Throughput, x: 8, off: 0, value: 10.0 };
        let results = made_up(Scenario::Scatter, &[reading]);
        let point = results.points().next().unwrap();
        assert_eq!(point.summary, Summary { median: 10.0, min: 9.0, max: 12.0, runs: 3 });
        assert!((point.summary.spread() - 0.3).abs() < 1e-9);
        let series = results.parts[0].series.clone();
        let curve = results.curve(&series, End::Requester, Metric::Throughput);
        assert_eq!(curve, [(8, 10.0)]);
        let curves = results.curves(&series, End::Requester, Metric::Throughput);
        assert_eq!(curves, [[(8, 9.0)], [(8, 10.0)], [(8, 12.0)]]);
        assert_eq!(results.metrics(), [Metric::Throughput]);
        let json = results.json().unwrap();
        assert_eq!(json.lines().count(), results.parts.len());
        let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!((&line["x_name"], &line["max"]), (&"block_bytes".into(), &12.0.into()));
    }
}
