//! Checks that each measured figure that is compared exists, by its name.

use std::collections::BTreeSet;

use super::*;
use crate::measure::bench::papers::plan::{Effort, parts};

#[test]
fn what_stands_beside_a_fact_is_measured() {
    for quick in [true, false] {
        let effort = Effort { quick, seconds: 0.01, perturbation: 3, vis: 10, largest: 8 << 20 };
        let measured = |ours: &Ours, what: &str| {
            if matches!(ours.scenario, Scenario::Rpc | Scenario::Ftp | Scenario::Emp) {
                return;
            }
            let parts = parts(ours.scenario, effort);
            for series in [Some(ours.series), ours.or].into_iter().flatten() {
                let found = parts.iter().any(|part| part.series == series);
                assert!(found, "{what}: no series {series:?}");
            }
        };
        for fact in facts() {
            match &fact.beside {
                Beside::Figure(ours) => measured(ours, fact.what),
                Beside::Quotient(a, b) | Beside::Crossing(a, b) => {
                    [a, b].into_iter().for_each(|ours| measured(ours, fact.what));
                }
                Beside::TwoEach | Beside::Nothing(_) => {}
            }
            assert!(fact.value > 0.0 && PAPERS.contains(&fact.paper));
        }
        for finding in findings() {
            [&finding.a, &finding.b].into_iter().for_each(|ours| measured(ours, finding.what));
            let (least, most) = finding.bounds;
            let value = finding.value.unwrap_or(least);
            let at_odds =
                finding.what.contains("M-VIA's law") || finding.what.contains("cLAN's law");
            assert!((least..=most).contains(&value) || at_odds, "{}", finding.what);
            assert!(PAPERS.contains(&finding.paper));
        }
        for grid in &GRIDS {
            let parts = parts(grid.scenario, effort);
            for column in grid.columns {
                assert!(parts.iter().any(|part| part.series == column.series), "{}", column.name);
            }
        }
    }
}

#[test]
fn nothing_is_said_twice() {
    let mut said = BTreeSet::new();
    for fact in facts() {
        assert!(said.insert((fact.paper.name, fact.place, fact.what)), "{}", fact.what);
    }
    let mut said = BTreeSet::new();
    for finding in findings() {
        assert!(said.insert((finding.paper.name, finding.place, finding.what)), "{}", finding.what);
    }
}
