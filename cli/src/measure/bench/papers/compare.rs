//! Published figures beside ours.

use super::published::{Beside, FACTS, FINDINGS, Fact, Finding, Ours, Pick};
use super::results::Results;
use crate::bench::series::median;

/// A published figure with what stands beside it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) fact: &'static Fact,
    /// Ours in the fact's unit; `None` where it was not measured, or there is none.
    pub(super) ours: Option<f64>,
}

impl Row {
    /// Ours by theirs.
    pub(super) fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| ours / self.fact.value)
    }

    /// How much better ours is than theirs, where that is a question: quotients of two figures
    /// and counts are not better or worse.
    pub(super) fn better(&self) -> Option<f64> {
        match self.fact.unit {
            // Of times, and of processor time at the same pace, less is better.
            "us" | "ns" | "%" => self.ratio().map(|ratio| 1.0 / ratio),
            "Mbit/s" => self.ratio(),
            _ => None,
        }
    }
}

/// Every fact of which the scenario was measured.
pub(super) fn rows(all: &[Results]) -> Vec<Row> {
    let is_measured = |ours: &Ours| all.iter().any(|results| results.scenario == ours.scenario);
    FACTS
        .iter()
        .filter(|fact| match &fact.beside {
            Beside::Figure(ours) => is_measured(ours),
            Beside::Quotient(a, b) | Beside::Crossing(a, b) => is_measured(a) && is_measured(b),
            Beside::Nothing(scenario) => all.iter().any(|results| results.scenario == *scenario),
        })
        .map(|fact| Row { fact, ours: beside(all, &fact.beside) })
        .collect()
}

/// A finding with what was found here.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) finding: &'static Finding,
    /// The quotient here, in each run; none if one of the two was not measured.
    quotients: Vec<f64>,
}

impl Verdict {
    /// The quotient here: the median over the runs, of which each measures both figures.
    pub(super) fn ours(&self) -> Option<f64> {
        median(self.quotients.clone())
    }

    /// From the least run to the greatest.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let all = || self.quotients.iter().copied();
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }

    /// Whether it holds here.
    pub(super) fn holds(&self) -> Option<bool> {
        let (least, most) = self.finding.bounds;
        self.ours().map(|ours| (least..=most).contains(&ours))
    }

    /// That, for people.
    pub(super) fn text(&self) -> &'static str {
        match self.holds() {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not measured",
        }
    }
}

/// Every finding of which the scenario was measured.
pub(super) fn verdicts(all: &[Results]) -> Vec<Verdict> {
    let is_measured = |ours: &Ours| all.iter().any(|results| results.scenario == ours.scenario);
    FINDINGS
        .iter()
        .filter(|finding| is_measured(&finding.a) && is_measured(&finding.b))
        .map(|finding| {
            let (a, b) = (figures(all, &finding.a), figures(all, &finding.b));
            let quotients = a.iter().zip(&b).map(|(a, b)| a / b).collect();
            Verdict { finding, quotients }
        })
        .collect()
}

fn beside(all: &[Results], beside: &Beside) -> Option<f64> {
    match beside {
        Beside::Figure(ours) => figure(all, ours),
        Beside::Quotient(a, b) => Some(figure(all, a)? / figure(all, b)?),
        Beside::Crossing(a, b) => crossing(&curve(all, a), &curve(all, b)),
        Beside::Nothing(_) => None,
    }
}

fn curve(all: &[Results], ours: &Ours) -> Vec<(u64, f64)> {
    let results = all.iter().find(|results| results.scenario == ours.scenario);
    results.map_or(Vec::new(), |results| results.curve(ours.series, ours.end, ours.metric))
}

fn figure(all: &[Results], ours: &Ours) -> Option<f64> {
    pick(&curve(all, ours), ours.pick)
}

/// The figure in each run.
fn figures(all: &[Results], ours: &Ours) -> Vec<f64> {
    let results = all.iter().find(|results| results.scenario == ours.scenario);
    let curves = results.map_or(Vec::new(), |it| it.curves(ours.series, ours.end, ours.metric));
    curves.iter().filter_map(|curve| pick(curve, ours.pick)).collect()
}

fn pick(curve: &[(u64, f64)], pick: Pick) -> Option<f64> {
    match pick {
        Pick::At(x) => curve.iter().find(|point| point.0 == x).map(|point| point.1),
        Pick::Last => curve.last().map(|point| point.1),
        Pick::Peak => curve.iter().map(|point| point.1).reduce(f64::max),
    }
}

/// The least x from which on `a` takes no more than `b`.
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
        let rows = rows(&[made_up(Scenario::Loops, &[reading])]);
        let row = &rows[0];
        assert_eq!((row.ours, row.ratio(), row.better()), (Some(7.4), Some(0.5), Some(2.0)));
        let quotient = rows.iter().find(|row| row.fact.unit.is_empty()).unwrap();
        assert_eq!((quotient.ours, quotient.better()), (Some(1.0), None));
        // Of calls that were not measured there is nothing to say, and of other scenarios no row.
        assert!(rows.iter().any(|row| row.ours.is_none()));
        assert!(rows.len() < FACTS.len());
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
        assert_eq!(verdicts.len(), FINDINGS.len());
        for verdict in &verdicts {
            let (least, most) = verdict.finding.bounds;
            assert_eq!(verdict.ours(), Some(1.0), "{}", verdict.finding.what);
            assert_eq!(verdict.range(), Some((1.0, 1.0)), "within each run");
            assert_eq!(verdict.holds(), Some(least <= 1.0 && most >= 1.0));
        }
        let said: std::collections::BTreeSet<_> = verdicts.iter().map(Verdict::text).collect();
        assert!(said.iter().eq(["does not hold", "holds"].iter()), "{said:?}");
        let unmeasured = super::verdicts(&[made_up(Scenario::Hosts, &[])]);
        assert!(unmeasured.iter().all(|verdict| verdict.text() == "not measured"));
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
