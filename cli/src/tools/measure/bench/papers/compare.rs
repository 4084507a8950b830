//! Compares published figures with measured ones.

use super::published::{Beside, Fact, Finding, Ours, Pick, facts, findings};
use super::results::Results;
use super::work::{Metric, Scenario};
use crate::measure::bench::series::median;

/// Lowest throughput, in Mbit/s, at which processor times are compared.
const PACE_KEPT: f64 = 0.95 * 780.0;

/// A published figure with the measured one.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) fact: &'static Fact,
    /// Measured figure in the fact's unit; `None` if it was not measured or does not exist.
    pub(super) ours: Option<f64>,
}

impl Row {
    /// Returns the measured figure divided by the published one.
    pub(super) fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| ours / self.fact.value)
    }

    /// Returns how many times better the measured figure is. Returns `None` for quotients and counts, which are neither
    /// better nor worse.
    pub(super) fn better(&self) -> Option<f64> {
        match self.fact.unit {
            // For times, and for processor time at the same pace, less is better.
            "us" | "ns" | "%" | "us/MB" => self.ratio().map(|ratio| 1.0 / ratio),
            "Mbit/s" => self.ratio(),
            _ => None,
        }
    }

    /// Returns the reason why there is no measured figure.
    pub(super) fn why(&self) -> String {
        match &self.fact.beside {
            Beside::TwoEach => {
                "not measured: no scenario takes two processors at each end".to_owned()
            }
            Beside::Nothing(why) => format!("not measured: {why}"),
            Beside::Crossing(..) => "not measured, or never".to_owned(),
            _ => "not measured".to_owned(),
        }
    }
}

/// Returns every fact, also those without a measured figure.
pub(super) fn all_rows(all: &[Results]) -> Vec<Row> {
    facts().map(|fact| Row { fact, ours: beside(all, &fact.beside) }).collect()
}

/// Returns every fact whose scenario was measured.
pub(super) fn rows(all: &[Results]) -> Vec<Row> {
    let is_measured = |ours: &Ours| all.iter().any(|results| results.scenario == ours.scenario);
    let concerns = |row: &Row| match &row.fact.beside {
        Beside::Figure(ours) => is_measured(ours),
        Beside::Quotient(a, b) | Beside::Crossing(a, b) => is_measured(a) && is_measured(b),
        Beside::TwoEach | Beside::Nothing(_) => false,
    };
    all_rows(all).into_iter().filter(concerns).collect()
}

/// A finding with the measured quotients.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) finding: &'static Finding,
    /// Measured quotient of each run; empty if one of the two figures was not measured. Figures of two scenarios come
    /// from different minutes, even within one run.
    quotients: Vec<f64>,
}

impl Verdict {
    /// Returns the median of the runs' quotients. If the numbers of runs differ, returns the quotient of the medians.
    pub(super) fn ours(&self) -> Option<f64> {
        median(self.quotients.clone())
    }

    /// Returns the smallest and the largest quotient.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let all = || self.quotients.iter().copied();
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }

    /// Returns true if the finding holds here; `None` if it was not measured.
    pub(super) fn holds(&self) -> Option<bool> {
        let (least, most) = self.finding.bounds;
        self.ours().map(|ours| (least..=most).contains(&ours))
    }

    /// Returns the result as text.
    pub(super) fn text(&self) -> &'static str {
        match self.holds() {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not measured",
        }
    }
}

/// Returns every finding, also those that were not measured.
pub(super) fn all_verdicts(all: &[Results]) -> Vec<Verdict> {
    findings()
        .map(|finding| {
            let quotients = match (figures(all, &finding.a), figures(all, &finding.b)) {
                // Figures of one scenario come from the same runs. Figures of two scenarios are paired run by run,
                // minutes apart.
                (a, b) if finding.a.scenario == finding.b.scenario || a.len() == b.len() => {
                    a.iter().zip(&b).map(|(a, b)| a / b).collect()
                }
                (a, b) => median(a).zip(median(b)).map(|(a, b)| a / b).into_iter().collect(),
            };
            Verdict { finding, quotients }
        })
        .collect()
}

/// Returns every finding whose scenarios were measured.
pub(super) fn verdicts(all: &[Results]) -> Vec<Verdict> {
    let is_measured = |ours: &Ours| all.iter().any(|results| results.scenario == ours.scenario);
    let of = |it: &Verdict| is_measured(&it.finding.a) && is_measured(&it.finding.b);
    all_verdicts(all).into_iter().filter(of).collect()
}

fn beside(all: &[Results], beside: &Beside) -> Option<f64> {
    match beside {
        Beside::Figure(ours) => figure(all, ours),
        Beside::Quotient(a, b) => Some(figure(all, a)? / figure(all, b)?),
        Beside::Crossing(a, b) => crossing(&curve(all, a, a.series), &curve(all, b, b.series)),
        Beside::TwoEach | Beside::Nothing(_) => None,
    }
}

fn of(all: &[Results], scenario: Scenario) -> Option<&Results> {
    all.iter().find(|results| results.scenario == scenario)
}

fn curve(all: &[Results], ours: &Ours, series: &str) -> Vec<(u64, f64)> {
    of(all, ours.scenario).map_or(Vec::new(), |it| it.curve(series, ours.end, ours.metric))
}

/// Returns the median of the runs, for the configuration with the better result.
fn figure(all: &[Results], ours: &Ours) -> Option<f64> {
    median(figures(all, ours))
}

/// Returns the figure of each run, for the configuration with the better result.
fn figures(all: &[Results], ours: &Ours) -> Vec<f64> {
    let of_series = |series: &str| -> Vec<f64> {
        let Some(results) = of(all, ours.scenario) else { return Vec::new() };
        if !keeps_pace(results, ours, series) {
            return Vec::new();
        }
        let curves = results.curves(series, ours.end, ours.metric);
        curves.iter().filter_map(|curve| pick(curve, ours.pick)).collect()
    };
    let first = of_series(ours.series);
    let Some(second) = ours.or.map(of_series).filter(|values| !values.is_empty()) else {
        return first;
    };
    let less_is_better = ours.metric.unit() != "Mbit/s";
    match (median(first.clone()), median(second.clone())) {
        (Some(a), Some(b)) if (a < b) == less_is_better => first,
        _ => second,
    }
}

/// Returns true if processor time was measured at the papers' pace.
fn keeps_pace(results: &Results, ours: &Ours, series: &str) -> bool {
    let of_processor = [
        Metric::Processor,
        Metric::ProcessorUser,
        Metric::ProcessorSystem,
        Metric::ProcessorPerByte,
    ];
    if !of_processor.contains(&ours.metric) {
        return true;
    }
    let reached = results.curve(series, super::work::End::Requester, Metric::Throughput);
    pick(&reached, ours.pick).is_some_and(|reached| reached >= PACE_KEPT)
}

fn pick(curve: &[(u64, f64)], pick: Pick) -> Option<f64> {
    match pick {
        Pick::At(x) => curve.iter().find(|point| point.0 == x).map(|point| point.1),
        Pick::Last => curve.last().map(|point| point.1),
        Pick::Peak => curve.iter().map(|point| point.1).reduce(f64::max),
    }
}

/// Returns the smallest x from which on `a` is never larger than `b`.
fn crossing(a: &[(u64, f64)], b: &[(u64, f64)]) -> Option<f64> {
    let pays = |&&(x, value): &&(u64, f64)| {
        b.iter().find(|point| point.0 == x).is_some_and(|point| value <= point.1)
    };
    a.iter().rev().take_while(pays).last().map(|point| point.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::made_up;
    use super::super::work::{End, Metric, Reading, Scenario};
    use super::*;

    #[test]
    fn ours_stands_beside_theirs() {
        let reading =
            Reading { end: End::Requester, metric: Metric::RoundTrip, x: 4, off: 0, value: 7.4 };
        let results = [made_up(Scenario::Loops, &[reading])];
        let measured = rows(&results);
        let row = &measured[0];
        assert_eq!((row.ours, row.ratio(), row.better()), (Some(7.4), Some(0.5), Some(2.0)));
        // Facts without a measured figure are listed with the reason.
        let all = all_rows(&results);
        assert!(measured.len() < all.len() && all.len() == facts().count());
        assert!(all.iter().filter(|row| row.ours.is_none()).all(|row| row.why().contains("not m")));
    }

    #[test]
    fn findings_hold_within_their_bounds() {
        let of = |metric, x, value| Reading { end: End::Requester, metric, x, off: 0, value };
        let level = [
            of(Metric::HalfTrip, 1, 5.0),
            of(Metric::HalfTrip, 4, 5.0),
            of(Metric::Throughput, 32768, 5.0),
        ];
        let verdicts = verdicts(&[made_up(Scenario::Hosts, &level)]);
        assert!(verdicts.len() > 15);
        for verdict in &verdicts {
            let (least, most) = verdict.finding.bounds;
            assert_eq!(verdict.ours(), Some(1.0), "{}", verdict.finding.what);
            assert_eq!(verdict.range(), Some((1.0, 1.0)), "within each run");
            assert_eq!(verdict.holds(), Some(least <= 1.0 && most >= 1.0));
        }
        let said: std::collections::BTreeSet<_> = verdicts.iter().map(Verdict::text).collect();
        assert!(said.iter().eq(["does not hold", "holds"].iter()), "{said:?}");
        let unmeasured = all_verdicts(&[]);
        assert_eq!(unmeasured.len(), findings().count());
        assert!(unmeasured.iter().all(|verdict| verdict.text() == "not measured"));
    }

    #[test]
    fn the_better_configuration_counts() {
        let of = |value| Reading {
            end: End::Requester,
            metric: Metric::Throughput,
            x: 64,
            off: 0,
            value,
        };
        let mut results = made_up(Scenario::Sovia, &[]);
        let place = |results: &Results, name: &str| {
            results.parts.iter().position(|part| part.series == name).unwrap()
        };
        let (a, b) = ("bandwidth, TCP with Nagle, sleeping", "bandwidth, TCP, sleeping");
        for (name, value) in [(a, 3.0), (b, 4.0)] {
            let place = place(&results, name);
            results.add(place, vec![of(value)]);
        }
        let ours = Ours {
            scenario: Scenario::Sovia,
            series: a,
            or: Some(b),
            end: End::Requester,
            metric: Metric::Throughput,
            pick: Pick::At(64),
        };
        let all = [results];
        assert_eq!(figure(&all, &ours), Some(4.0));
        assert_eq!(figure(&all, &Ours { or: None, ..ours }), Some(3.0));
        assert_eq!(figure(&all, &Ours { or: Some("none"), ..ours }), Some(3.0));
    }

    #[test]
    fn processor_time_counts_at_the_papers_pace_only() {
        let of = |metric, value| Reading { end: End::Requester, metric, x: 32768, off: 0, value };
        let ours = |all: &[Results]| {
            let what = "32 KB at 780 Mbit/s, COMBINE, sender, user mode";
            all_rows(all).into_iter().find(|row| row.fact.what == what).unwrap().ours
        };
        let user = of(Metric::ProcessorUser, 2.0);
        let kept = [user.clone(), of(Metric::Throughput, 779.0)];
        assert_eq!(ours(&[made_up(Scenario::Sovia, &kept)]), Some(2.0));
        let late = [user, of(Metric::Throughput, 500.0)];
        assert_eq!(ours(&[made_up(Scenario::Sovia, &late)]), None);
    }

    #[test]
    fn curves_cross() {
        let rising = [(1, 1.0), (8, 4.0), (16, 8.0), (64, 30.0)];
        let level = [(1, 5.0), (8, 5.0), (16, 5.0), (64, 5.0)];
        assert_eq!(crossing(&level, &rising), Some(16.0));
        assert_eq!(crossing(&rising, &level), None);
        assert_eq!(crossing(&level, &level), Some(1.0));
        assert_eq!(crossing(&[], &level), None);
    }
}
