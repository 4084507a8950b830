//! The report: one page that contains its pictures and needs no network, and data files beside the page.

mod about;
mod style;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use self::about::{about, caveats};
use super::attributes;
use super::charts::{self, Picture};
use super::compare::{self, Row, Verdict};
use super::plot::{Note, escaped};
use super::published::{CLUSTER, EMP, FEATURES, GRIDS, NETPIPE, PAPERS, Paper, SOVIA};
use super::results::Results;
use super::tables::{self, Table};
use super::work::Scenario;
use crate::measure::bench::machine::Machine;

/// Names of the page and of the data files beside it.
const PAGE: &str = "index.html";
const FIGURES: &str = "figures.jsonl";
const COMPARISON: &str = "published.jsonl";
const FINDINGS: &str = "findings.jsonl";
const MACHINE: &str = "machine.json";

/// First words in the pictures of an emulated machine.
const EMULATED: &str = "EMULATED: ratios hold for this machine alone. ";

/// Description of the measurement: the machine, the date and the options.
pub(super) struct Setting<'a> {
    pub(super) machine: &'a Machine,
    pub(super) how: &'a str,
}

impl Setting<'_> {
    /// Returns the note below each picture's title.
    pub(super) fn note(&self) -> Note {
        let busy = format!("MEASURED ON A BUSY MACHINE: {}. ", self.machine.busy_text());
        let busy = if self.machine.is_busy() { &busy } else { "" };
        let emulated = if self.machine.is_emulated() { EMULATED } else { "" };
        let text = format!("{emulated}{busy}{}", self.machine.short());
        Note { text, is_warning: self.machine.is_busy() || self.machine.is_emulated() }
    }
}

/// Returns the scenarios in a paper's chapter.
fn scenarios(paper: &Paper) -> &'static [Scenario] {
    if *paper == FEATURES {
        &[
            Scenario::Loops,
            Scenario::Throughput,
            Scenario::Strided,
            Scenario::Scatter,
            Scenario::Queues,
        ]
    } else if *paper == NETPIPE {
        &[Scenario::Netpipe, Scenario::Buffers, Scenario::Hosts]
    } else if *paper == SOVIA {
        &[Scenario::Sovia, Scenario::Registration, Scenario::Hosts]
    } else if *paper == CLUSTER {
        &[Scenario::Ftp, Scenario::Rpc]
    } else if *paper == EMP {
        &[Scenario::Emp]
    } else {
        &[]
    }
}

/// Scenarios that belong to no paper.
const BEYOND: [Scenario; 2] = [Scenario::Calls, Scenario::Memory];

/// Writes all files into a folder, and returns their names.
pub(super) fn write(
    folder: &Path,
    setting: &Setting<'_>,
    all: &[Results],
) -> anyhow::Result<Vec<String>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (rows, verdicts) = (compare::all_rows(all), compare::all_verdicts(all));
    let note = setting.note();
    let mut pictures: Vec<Picture> =
        PAPERS.iter().map(|paper| charts::findings(paper, &verdicts, &note)).collect();
    pictures.extend(charts::grids(all, &note));
    pictures.extend(all.iter().flat_map(|results| charts::of(results, &note)));
    pictures.push(charts::states());
    let mut figures = String::new();
    for results in all {
        figures.push_str(&results.json()?);
    }
    let mut files = vec![
        (PAGE.to_owned(), page(setting, all, &rows, &verdicts, &pictures)),
        (FIGURES.to_owned(), figures),
        (COMPARISON.to_owned(), comparison_json(&rows)?),
        (FINDINGS.to_owned(), findings_json(&verdicts)?),
        (MACHINE.to_owned(), serde_json::to_string_pretty(setting.machine)? + "\n"),
    ];
    let declared = |svg: &str| format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}");
    files.extend(pictures.iter().map(|it| (it.file.clone(), declared(&it.svg))));
    for (name, text) in &files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}

/// Returns a paper's name in addresses within the page.
fn anchor(paper: &Paper) -> String {
    paper.name.to_lowercase().replace(' ', "-")
}

fn page(
    setting: &Setting<'_>,
    all: &[Results],
    rows: &[Row],
    verdicts: &[Verdict],
    pictures: &[Picture],
) -> String {
    let machine = setting.machine;
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Virtual Interfaces, measured as the papers did</title>\
         <style>{}</style></head><body>\n\
         <h1>Virtual Interfaces, measured as the papers did</h1>\n\
         <p><b>Machine:</b> {}</p>\n<p><b>How:</b> {} {}</p>\n",
        style::STYLE,
        escaped(&machine.describe()),
        escaped(setting.how),
        escaped(tables::SPREAD),
    );
    if machine.is_busy() {
        let _ = writeln!(
            text,
            "<p class=\"failed\">The machine was busy: {}. Other programs took processor time from ends that spin, so figures are worse than on \
             an idle machine, and spread more.</p>",
            escaped(&machine.busy_text())
        );
    }
    contents(&mut text, verdicts);
    text.push_str(
        "<p>The papers measured two machines of about 2000, each with an adapter. We measure two processes of one machine. So a time or a \
         throughput of ours shows only how far apart the two systems are. A ratio of two figures shows whether a finding of the paper also \
         holds here.</p>\n\
         <ul><li>Rows for one processor are compared with our ends on two processors. Rows for machines with two processors each are not \
         measured.</li>\n\
         <li>The TCP that we compare with a row depends on the row: its calls sleep or poll, it has Nagle's algorithm or not, and it runs over \
         loopback, veth or LANE. Rows name this where it matters.</li>\n\
         <li>If both figures of a ratio are from one scenario, they are from the same runs. Figures of two scenarios are measured minutes \
         apart.</li>\n\
         <li>If a finding's bounds have no upper end, or begin at 0, no ratio can be outside them on that side.</li></ul>\n",
    );
    for paper in PAPERS {
        of_paper(&mut text, paper, all, (rows, verdicts), pictures);
    }
    let _ = writeln!(text, "<h2 id=\"beyond\">Beyond the papers</h2>");
    for results in all.iter().filter(|it| BEYOND.contains(&it.scenario)) {
        figures(&mut text, results);
    }
    pictures.iter().filter(|it| it.paper.is_none()).for_each(|it| picture(&mut text, it));
    let _ = writeln!(
        text,
        "<h3>MPI</h3>\n<p>SC 2001 has figures of MPI: its table 2 and figure 6 are of a synthetic MPI application over EMP. The chapter on that \
         paper compares these figures with the same calls of EMP without MPI. This report does not measure Open MPI over Sovia: \
         <code>scripts/bench-mpi</code> does (docs/research/mpi.md).</p>\n<h2 id=\"data\">Data</h2>\n<p>The folder of this page has \
         {FIGURES} (every figure), {COMPARISON}, {FINDINGS}, {MACHINE}, and each picture as an SVG file.</p>\n</body></html>"
    );
    text
}

/// Writes the list of papers, with the numbers of findings that hold or not.
fn contents(text: &mut String, verdicts: &[Verdict]) {
    text.push_str("<nav><ol>\n");
    for paper in PAPERS {
        let of = |holds: Option<bool>| {
            verdicts.iter().filter(|it| it.finding.paper == paper && it.holds() == holds).count()
        };
        let _ = writeln!(
            text,
            "<li><a href=\"#{}\">{}</a>: {}. Findings: <b>{}</b> hold, <b>{}</b> do not hold, {} not measured</li>",
            anchor(paper),
            escaped(paper.name),
            escaped(paper.title),
            of(Some(true)),
            of(Some(false)),
            of(None)
        );
    }
    text.push_str(
        "<li><a href=\"#beyond\">Beyond the papers</a></li><li><a href=\"#data\">Data</a></li></ol></nav>\n",
    );
}

fn of_paper(
    text: &mut String,
    paper: &'static Paper,
    all: &[Results],
    (rows, verdicts): (&[Row], &[Verdict]),
    pictures: &[Picture],
) {
    let _ = writeln!(
        text,
        "<h2 id=\"{}\">{}: {}</h2>\n<p>{}</p>\n<p><b>Their platform:</b> {}</p>",
        anchor(paper),
        escaped(paper.name),
        escaped(paper.title),
        escaped(paper.reference),
        escaped(paper.platform)
    );
    let of: Vec<_> = pictures.iter().filter(|it| it.paper == Some(paper)).collect();
    let is_findings = |it: &&&Picture| it.file.starts_with("findings-");
    of.iter().filter(is_findings).for_each(|it| picture(text, it));
    details(text, &tables::findings(verdicts.iter().filter(|it| it.finding.paper == paper)));
    let unlike = caveats(paper).iter().map(|it| format!("<li>{}</li>", escaped(it)));
    let _ = writeln!(
        text,
        "<p>What these verdicts and figures are worth:</p><ul>{}</ul>",
        unlike.collect::<String>()
    );
    table(text, &tables::comparison(rows.iter().filter(|row| row.fact.paper == paper)));
    if *paper == SOVIA {
        table(text, &attributes::table());
    }
    for grid in GRIDS.iter().filter(|grid| grid.paper == paper) {
        table(text, &tables::grid(grid, all));
    }
    for &scenario in scenarios(paper) {
        let _ = writeln!(text, "<h3>{}</h3>", escaped(tables::title(scenario)));
        let results = all.iter().find(|results| results.scenario == scenario);
        match results.filter(|it| !it.is_empty() || !it.failures.is_empty()) {
            Some(results) => figures(text, results),
            None => {
                let _ = writeln!(text, "<p class=\"failed\">Not measured.</p>");
                if let Some(why) = results.and_then(|it| it.left_out.first()) {
                    let _ = writeln!(text, "<p>{}</p>", escaped(why));
                }
            }
        }
    }
    of.iter().filter(|it| !is_findings(it)).for_each(|it| picture(text, it));
}

fn picture(text: &mut String, picture: &Picture) {
    let _ = writeln!(text, "<figure class=\"wide\">{}</figure>", picture.svg);
}

/// Writes a scenario's introduction and figures.
fn figures(text: &mut String, results: &Results) {
    let _ = writeln!(text, "<p>{}</p>", escaped(about(results.scenario)));
    for failure in &results.failures {
        let _ = writeln!(text, "<p class=\"failed\">Not measured: {}</p>", escaped(failure));
    }
    for why in &results.left_out {
        let _ = writeln!(text, "<p>Left out: {}</p>", escaped(why));
    }
    tables::of(results).iter().for_each(|it| details(text, it));
    if matches!(results.scenario, Scenario::Netpipe | Scenario::Hosts)
        && let Some(losses) = tables::perturbations(results)
    {
        details(text, &losses);
    }
}

/// Writes a table that the reader opens.
fn details(text: &mut String, it: &Table) {
    let _ = writeln!(text, "<details><summary>{}</summary>", escaped(&it.title));
    rows_of(text, it);
    text.push_str("</details>\n");
}

fn table(text: &mut String, table: &Table) {
    let _ = writeln!(text, "<h4>{}</h4>", escaped(&table.title));
    rows_of(text, table);
}

fn rows_of(text: &mut String, table: &Table) {
    text.push_str("<div class=\"wide\"><table><thead><tr>");
    let class = |i: usize| if table.left.contains(&i) { " class=\"l\"" } else { "" };
    for (i, name) in table.header.iter().enumerate() {
        let _ = write!(text, "<th{}>{}</th>", class(i), escaped(name));
    }
    text.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let _ = write!(text, "<td{}>{}</td>", class(i), escaped(cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
}

/// Returns a line of JSON for each finding.
pub(super) fn findings_json(verdicts: &[Verdict]) -> anyhow::Result<String> {
    let mut text = String::new();
    for verdict in verdicts {
        let (least, most) = verdict.finding.bounds;
        let line = serde_json::json!({
            "paper": verdict.finding.paper.title,
            "place": verdict.finding.place,
            "what": verdict.finding.what,
            "published": verdict.finding.value,
            "least": least,
            "most": most.is_finite().then_some(most),
            "ours": verdict.ours(),
            "min": verdict.range().map(|range| range.0),
            "max": verdict.range().map(|range| range.1),
            "holds": verdict.holds(),
        });
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    Ok(text)
}

fn comparison_json(rows: &[Row]) -> anyhow::Result<String> {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::json!({
            "paper": row.fact.paper.title,
            "place": row.fact.place,
            "what": row.fact.what,
            "unit": row.fact.unit,
            "published": row.fact.value,
            "ours": row.ours,
            "ratio": row.ratio(),
            "why_not": row.ours.is_none().then(|| row.why()),
        });
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    Ok(text)
}
