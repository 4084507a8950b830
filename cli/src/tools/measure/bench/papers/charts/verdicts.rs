//! Pictures of a paper's findings, published and measured; and the states of a stream.

use super::Picture;
use crate::measure::bench::papers::compare::Verdict;
use crate::measure::bench::papers::plot::quotients::{self, Row};
use crate::measure::bench::papers::plot::{Note, states as diagram};
use crate::measure::bench::papers::published::{Paper, SOVIA};

/// Returns a picture of all findings of a paper.
pub(in crate::measure::bench::papers) fn picture(
    paper: &'static Paper,
    verdicts: &[Verdict],
    note: &Note,
) -> Picture {
    let row = |verdict: &Verdict| Row {
        name: format!("{}: {}", verdict.finding.place, verdict.finding.what),
        published: verdict.finding.value,
        bounds: verdict.finding.bounds,
        ours: verdict.ours().zip(verdict.range()).map(|(ours, (least, most))| (ours, least, most)),
    };
    let rows: Vec<Row> = verdicts.iter().filter(|it| it.finding.paper == paper).map(row).collect();
    let title = format!("{}: the findings, and whether they hold here", paper.name);
    let file = format!("findings-{}.svg", paper.name.to_lowercase().replace(' ', "-"));
    Picture { file, svg: quotients::draw(&title, &rows, note), paper: Some(paper) }
}

/// Returns figure 11 of ICS 2001.
pub(in crate::measure::bench::papers) fn states() -> Picture {
    let text = "Drawn from the table of crates/core/proto/src/state.rs".to_owned();
    let note = Note { text, is_warning: false };
    let title = "ICS 2001, Fig. 11: the states of a stream";
    let svg = diagram::draw(title, &note);
    Picture { file: "ics-figure-11.svg".to_owned(), svg, paper: Some(&SOVIA) }
}
