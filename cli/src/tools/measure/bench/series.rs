//! Figures of several runs, and their summaries.

use std::collections::{BTreeMap, BTreeSet};

use sovia_control::Reason;

use super::layer::Layer;
use super::ratio::Ratio;
use super::task::{Figure, Metric, Tail};

/// All figures, by metric, message size and layer.
#[derive(Default)]
pub(super) struct Series {
    figures: BTreeMap<(Metric, usize, Layer), Vec<Figure>>,
    stays: BTreeMap<usize, Stays>,
}

/// Runs in which the layer `sovia` stayed on TCP, with the reasons.
#[derive(Default)]
struct Stays {
    runs: u32,
    reasons: BTreeSet<Reason>,
}

/// Summary of the runs of one measurement, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    /// Medians over the runs of each run's percentiles.
    pub(super) tail: Option<Tail>,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Series {
    pub(super) fn add(&mut self, size: usize, layer: Layer, figures: Vec<Figure>) {
        for figure in figures {
            self.figures.entry((figure.metric, size, layer)).or_default().push(figure);
        }
    }

    /// Records a run of the layer `sovia` that stayed on TCP.
    pub(super) fn add_stay(&mut self, size: usize, reasons: Vec<Reason>) {
        let stays = self.stays.entry(size).or_default();
        stays.runs += 1;
        stays.reasons.extend(reasons);
    }

    /// Returns the number of a size's runs that stayed on TCP.
    pub(super) fn stays(&self, size: usize) -> u32 {
        self.stays.get(&size).map_or(0, |stays| stays.runs)
    }

    /// Returns a line for every size with runs that stayed on TCP.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.stays.iter().map(|(size, Stays { runs, reasons })| {
            let runs = if *runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
            let reasons: Vec<_> = reasons.iter().map(|reason| reason.describe()).collect();
            let why =
                if reasons.is_empty() { "unknown reason".to_owned() } else { reasons.join("; ") };
            format!("sovia stayed on TCP in {runs} with {size} bytes: {why}")
        })
    }

    /// Returns the measured metrics.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<_> = self.figures.keys().map(|&(metric, ..)| metric).collect();
        metrics.dedup();
        metrics
    }

    /// Summarizes all runs of one measurement; `None` if there was none.
    pub(super) fn summary(&self, metric: Metric, size: usize, layer: Layer) -> Option<Summary> {
        let figures = self.figures.get(&(metric, size, layer))?;
        let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
        Some(Summary {
            median: median(values.clone())?,
            tail: tail(figures),
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }

    /// Returns how many times better a layer is than another one, compared within each run. Returns `None` if a run has
    /// only one of the two.
    pub(super) fn ratio(
        &self,
        metric: Metric,
        size: usize,
        layer: Layer,
        base: Layer,
    ) -> Option<Ratio> {
        let ours = self.figures.get(&(metric, size, layer))?;
        let theirs = self.figures.get(&(metric, size, base))?;
        if ours.len() != theirs.len() {
            return None;
        }
        let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| {
            if metric.is_cost() { theirs.value / ours.value } else { ours.value / theirs.value }
        });
        Ratio::of(ratios.collect())
    }
}

fn tail(figures: &[Figure]) -> Option<Tail> {
    let of = |each: fn(Tail) -> f64| {
        median(figures.iter().filter_map(|figure| figure.tail).map(each).collect())
    };
    Some(Tail { p99: of(|tail| tail.p99)?, p999: of(|tail| tail.p999)? })
}

/// Returns the middle value, or the mean of the two middle values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn runs_are_summed_up_by_metric_size_and_layer() {
        let mut series = Series::default();
        for (value, p99) in [(1.0, None), (9.0, Some(10.0)), (2.0, Some(3.0))] {
            let tail = p99.map(|p99| Tail { p99, p999: 2.0 * p99 });
            let figure = |metric| Figure { metric, value, tail };
            series.add(4, Layer::Tcp, vec![figure(Metric::Messages), figure(Metric::Transactions)]);
        }
        assert_eq!(series.metrics(), [Metric::Messages, Metric::Transactions]);
        let tail = Some(Tail { p99: 6.5, p999: 13.0 });
        let expected = Summary { median: 2.0, tail, min: 1.0, max: 9.0 };
        assert_eq!(series.summary(Metric::Messages, 4, Layer::Tcp), Some(expected));
        assert_eq!(series.summary(Metric::Messages, 8, Layer::Tcp), None);
    }

    #[test]
    fn ratio_is_taken_within_each_run_and_more_is_better() {
        let mut series = Series::default();
        // In the second run, the machine was ten times as slow.
        for (tcp, sovia) in [(8.0, 2.0), (80.0, 20.0), (9.0, 3.0)] {
            for metric in [Metric::HalfRoundTrip, Metric::Bandwidth] {
                let figure = |value| vec![Figure { metric, value, tail: None }];
                series.add(4, Layer::Tcp, figure(tcp));
                series.add(4, Layer::Sovia, figure(sovia));
            }
        }
        let ratio = |metric| series.ratio(metric, 4, Layer::Sovia, Layer::Tcp).unwrap();
        let expected = Ratio { ratio: 4.0, quarter: 3.0, three_quarters: 4.0 };
        assert_eq!(ratio(Metric::HalfRoundTrip), expected);
        let expected = Ratio { ratio: 0.25, quarter: 0.25, three_quarters: 3.0 / 9.0 };
        assert_eq!(ratio(Metric::Bandwidth), expected);
        assert_eq!(series.ratio(Metric::Bandwidth, 4, Layer::Sovia, Layer::Ring), None);
    }
}
