//! `sovia bench compare`: shows changes since a stored run.
//!
//! Times from two machines, or from one machine at two moments, cannot be compared. Ratios of layers measured in the
//! same run usually can. So this command compares ratios: Sovia to the bare ring and to TCP, in the stored run and in
//! the new one. Each ratio has a spread, from the first to the third quartile of the runs. A ratio counts as changed if
//! the two spreads do not overlap. No difference makes the command fail.

mod read;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use self::read::{Measured, Name, ReadError};
use super::machine::Machine;
use super::ratio::Ratio;
use crate::measure::table::{self, number};
use crate::output::put_line;

/// Runs to compare.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Stored run: a file with the output of an earlier `sovia bench … --json`
    baseline: PathBuf,
    /// New run: a file with the output of `sovia bench … --json` [default: standard input]
    new: Option<PathBuf>,
    /// Show only ratios that have changed
    #[arg(long)]
    changed: bool,
}

/// Output of `sovia bench machine`. A file of figures may contain such a line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MachineLine {
    scenario: MachineScenario,
    machine: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MachineScenario {
    Machine,
}

impl MachineLine {
    pub(super) fn new(machine: &Machine) -> Self {
        Self { scenario: MachineScenario::Machine, machine: machine.describe() }
    }
}

/// Result for a ratio: changed by more than its spread, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Better,
    Worse,
}

impl Verdict {
    fn of(before: Ratio, now: Ratio) -> Self {
        if now.quarter > before.three_quarters {
            Self::Better
        } else if now.three_quarters < before.quarter {
            Self::Worse
        } else {
            Self::Same
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Same => "",
            Self::Better => "better",
            Self::Worse => "worse",
        }
    }
}

/// One ratio in both runs.
#[derive(Debug, PartialEq)]
struct Row {
    name: Name,
    before: Ratio,
    now: Ratio,
}

impl Row {
    fn verdict(&self) -> Verdict {
        Verdict::of(self.before, self.now)
    }
}

/// Ratios that both runs have, in the stored run's order, and the numbers of ratios that only one run has.
#[derive(Debug)]
struct Comparison {
    rows: Vec<Row>,
    only_before: usize,
    only_now: usize,
}

impl Comparison {
    fn of(before: &Measured, now: &Measured) -> Self {
        let rows: Vec<_> = before
            .ratios
            .iter()
            .filter_map(|(name, before)| {
                let (_, now) = now.ratios.iter().find(|(other, _)| other == name)?;
                Some(Row { name: name.clone(), before: *before, now: *now })
            })
            .collect();
        let only_before = before.ratios.len() - rows.len();
        let only_now = now.ratios.len() - rows.len();
        Self { rows, only_before, only_now }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// Returns a summary of one or two sentences.
    fn summary(&self) -> String {
        let mut text = format!(
            "{} ratios: {} better and {} worse than before by more than the runs' spread.",
            self.rows.len(),
            self.count(Verdict::Better),
            self.count(Verdict::Worse)
        );
        for (count, run) in [(self.only_before, "stored"), (self.only_now, "new")] {
            if count > 0 {
                text.push_str(&format!(" Only the {run} run has {count} more."));
            }
        }
        text
    }
}

/// Compares and prints. Returns the exit status, which does not depend on differences.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    let before = read::file(&args.baseline)?;
    let now = match &args.new {
        Some(new) => read::file(new)?,
        None if io::stdin().is_terminal() => return Err(ReadError::NothingNew.into()),
        None => read::lines("standard input", io::stdin().lock())?,
    };
    let comparison = Comparison::of(&before, &now);
    if comparison.rows.is_empty() {
        return Err(ReadError::NothingInCommon.into());
    }
    for (run, measured) in [("stored", &before), ("new", &now)] {
        if let Some(machine) = &measured.machine {
            put_line!("{run}: {machine}")?;
        }
    }
    put_line!(
        "Ratio: how many times as good the first layer is as the second. Spread: the first and the third quartile of the runs.\n{}",
        table(&comparison, args.changed)
    )?;
    put_line!("\n{}", comparison.summary())?;
    Ok(0)
}

fn table(comparison: &Comparison, changed: bool) -> comfy_table::Table {
    let header =
        ["scenario", "size", "metric", "layers", "stored", "spread", "new", "spread", "change", ""];
    let mut table = table::new(header.map(str::to_owned).to_vec(), &[0, 2, 3, 9]);
    let spread = |ratio: Ratio| {
        format!("{} - {}", number(Some(ratio.quarter)), number(Some(ratio.three_quarters)))
    };
    for row in &comparison.rows {
        if changed && row.verdict() == Verdict::Same {
            continue;
        }
        let Row { name, before, now } = row;
        table.add_row(vec![
            name.scenario.clone(),
            name.size.clone(),
            name.metric.clone(),
            name.layers.clone(),
            number(Some(before.ratio)),
            spread(*before),
            number(Some(now.ratio)),
            spread(*now),
            format!("{:+.0} %", (now.ratio / before.ratio - 1.0) * 100.0),
            row.verdict().name().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(ratio: f64, quarter: f64, three_quarters: f64) -> Ratio {
        Ratio { ratio, quarter, three_quarters }
    }

    fn measured(ratios: &[(&str, Ratio)]) -> Measured {
        let name = |size: &str| Name {
            scenario: "latency, poll".to_owned(),
            size: size.to_owned(),
            metric: "half_round_trip".to_owned(),
            layers: "sovia / tcp".to_owned(),
        };
        let ratios = ratios.iter().map(|&(size, ratio)| (name(size), ratio)).collect();
        Measured { machine: None, ratios }
    }

    #[test]
    fn ratio_has_changed_only_where_the_spreads_do_not_touch() {
        let before = ratio(2.0, 1.5, 2.5);
        for (now, verdict) in [
            (ratio(2.6, 2.5, 2.7), Verdict::Same),
            (ratio(2.7, 2.6, 2.9), Verdict::Better),
            (ratio(1.4, 1.3, 1.5), Verdict::Same),
            (ratio(1.0, 0.9, 1.4), Verdict::Worse),
            (ratio(2.0, 0.1, 9.0), Verdict::Same),
        ] {
            assert_eq!(Verdict::of(before, now), verdict, "{now:?}");
        }
    }

    #[test]
    fn what_both_runs_have_is_compared_in_the_stored_order_and_the_rest_is_counted() {
        let one = ratio(1.0, 1.0, 1.0);
        let before = measured(&[("64", one), ("4", ratio(2.0, 2.0, 2.0)), ("1", one)]);
        let now = measured(&[("4", ratio(3.0, 3.0, 3.0)), ("8", one), ("64", one), ("9", one)]);
        let comparison = Comparison::of(&before, &now);
        let sizes: Vec<_> = comparison.rows.iter().map(|row| row.name.size.as_str()).collect();
        assert_eq!(sizes, ["64", "4"]);
        assert_eq!((comparison.only_before, comparison.only_now), (1, 2));
        assert_eq!(
            comparison.summary(),
            "2 ratios: 1 better and 0 worse than before by more than the runs' spread. \
             Only the stored run has 1 more. Only the new run has 2 more."
        );
        let text = table(&comparison, false).to_string();
        assert!(text.contains("+50 %") && text.contains("better"), "{text}");
        assert!(text.contains("+0 %"), "{text}");
        assert!(!table(&comparison, true).to_string().contains("+0 %"));
    }
}
