//! The report: a page with the pictures, the tables and the published figures; the data beside it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::charts::{self, Picture};
use super::compare::{self, Row, Verdict};
use super::plot::escaped;
use super::published::PAPERS;
use super::results::Results;
use super::tables::{self, Table};
use super::work::Scenario;
use crate::bench::machine::Machine;

/// The page, and the data beside it.
const PAGE: &str = "index.html";
const FIGURES: &str = "figures.jsonl";
const COMPARISON: &str = "published.jsonl";
const FINDINGS: &str = "findings.jsonl";
const MACHINE: &str = "machine.json";

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;\
padding:0 1rem;color:#222}h2{margin-top:2.5rem;border-bottom:1px solid #ddd}\
table{border-collapse:collapse;margin:1rem 0;font-size:13px}\
th,td{padding:.2rem .6rem;border-bottom:1px solid #eee;text-align:right;vertical-align:top}\
th.l,td.l{text-align:left}img{max-width:100%;border:1px solid #eee;margin:.5rem 0}\
.wide{overflow-x:auto}details{margin:1rem 0}.failed{color:#a00}";

/// What is said of a scenario before its pictures.
fn about(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Loops => {
            "Four bytes there and back by the eight loops of the first paper's Table 1. The round \
             trip is of the loop as it is; the calls are of the same loop with a look at the time \
             stamp counter between two calls, the look taken off. There is always one receive more \
             posted than the loop needs, because here a message may be there before the next call."
        }
        Scenario::Throughput => {
            "One way: as fast as possible, confirmed by one message at the end of each round of up \
             to 4 MB. Two way: the ping-pong loop; the size by half a round trip. RDMA writes of \
             these loops tell their target by immediate data that they are there."
        }
        Scenario::Strided => {
            "1008 doubles stored a stride apart: copied within the process; sent as one block and \
             then copied; received by descriptors with a segment for each double, 252 a message."
        }
        Scenario::Scatter => {
            "Messages of 32 blocks, stored two block lengths apart, by 32 segments of the receive; \
             beside them the same bytes in one piece, and in one piece and then copied."
        }
        Scenario::Queues => {
            "Requests on VIs at random and replies of 4 bytes on the same. Both ends find the VI \
             with news by a completion queue, or by looking at one VI after the other; the \
             requester leaves out those on which it waits for nothing."
        }
        Scenario::Netpipe => {
            "The ping-pong loop by NetPIPE's sizes, each also 3 bytes shorter and longer unless \
             told otherwise. Saturation curve: throughput by size. Signature graph: throughput by \
             time. On one processor both ends share it, where the paper's ends had one each of \
             their own; ends that poll are not measured there."
        }
        Scenario::Calls => {
            "Calls many of a kind at a time, with the other end silent. Beside them the bare ring, \
             which is the hardware's limit, and what one VI carries."
        }
        Scenario::Memory => {
            "What the pages of two processes grew by when they connected idle VIs, by VI: pages \
             that one of them touches alone, pages that both touch, and each end's share of all."
        }
        Scenario::Registration => {
            "What a send costs before it is posted, if its bytes are registered for it and deregistered \
             after it, or copied (SOVIA's figure 6, in ICS 2001). The NIC in shared memory pins nothing; \
             beside it, what the kernel takes to lock pages and unlock them, which a NIC that pins costs \
             at least. Copies go to one place, and come from one (cached), or from ever other places of \
             256 MB (uncached): from caches that processors share, where those are larger."
        }
        Scenario::Sovia => {
            "Streams over a VI by the configurations of SOVIA's Table 4. One and two processors: which \
             thread handles messages (Figs. 5 and 9). Transfer: bytes registered, copied or either, on two \
             processors, and the handshake by request and leave (Tables 2 and 3). Bandwidth: no flow \
             control, the window, delayed acknowledgements, combining (Figs. 7 and 8). All block, \
             after spinning for a while; so does the native VI beside them. Processor time (Fig. 10): \
             the sender offers the 780 Mbit/s that the paper's adapter carried with blocking calls, \
             in bursts, and sleeps in between; an end that cannot keep that pace is always busy. TCP combines \
             small messages there, as the paper's did."
        }
        Scenario::Hosts => {
            "Two network namespaces, joined by a pair of veth devices of MTU 1500 or 9000; each end has a \
             processor, for its NIC in software too. Native VIs by NetPIPE's module (a ring of descriptors with \
             registered buffers of MaxTransferSize, fragments, and a continue message when the receiver's \
             descriptors are used up), over UDP, packet sockets (eth) and AF_XDP; TCP over the same devices, \
             which hand it segments of up to 64 KB to cut, and over devices without that, as the papers' cards were. \
             Blocking calls of a NIC look for a while before they sleep; those that sleep do so at once, as TCP's. \
             SOVIA's streams block, at MTU 1500. Published figures stand beside eth, which has M-VIA's place, and \
             beside TCP without offloads; those of ends with two processors each stand alone."
        }
    }
}

/// Writes everything into a folder; returns the names of the files.
pub(super) fn write(
    folder: &Path,
    machine: &Machine,
    how: &str,
    all: &[Results],
) -> anyhow::Result<Vec<String>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let rows = compare::rows(all);
    let verdicts = compare::verdicts(all);
    let mut files = vec![
        (PAGE.to_owned(), String::new()),
        (FIGURES.to_owned(), String::new()),
        (COMPARISON.to_owned(), comparison_json(&rows)?),
        (MACHINE.to_owned(), serde_json::to_string_pretty(machine)? + "\n"),
    ];
    let mut chapters = String::new();
    for results in all {
        files[1].1.push_str(&results.json()?);
        let pictures = charts::of(results);
        chapter(&mut chapters, results, &pictures);
        files.extend(pictures.into_iter().map(|picture| (picture.file, picture.svg)));
    }
    files[0].1 = page(machine, how, &rows, &verdicts, &chapters);
    if !verdicts.is_empty() {
        files.push((FINDINGS.to_owned(), findings_json(&verdicts)?));
    }
    for (name, text) in &files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}

fn page(
    machine: &Machine,
    how: &str,
    rows: &[Row],
    verdicts: &[Verdict],
    chapters: &str,
) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Virtual Interfaces, measured as the papers did</title>\
         <style>{STYLE}</style></head><body>\n\
         <h1>Virtual Interfaces, measured as the papers did</h1>\n\
         <p><b>Machine:</b> {}</p>\n<p><b>How:</b> {} {}</p>\n\
         <p><b>Data:</b> <a href=\"{FIGURES}\">{FIGURES}</a>, \
         <a href=\"{COMPARISON}\">{COMPARISON}</a>, <a href=\"{MACHINE}\">{MACHINE}</a>{}</p>\n",
        escaped(&machine.describe()),
        escaped(how),
        escaped(tables::SPREAD),
        if verdicts.is_empty() {
            String::new()
        } else {
            format!(", <a href=\"{FINDINGS}\">{FINDINGS}</a>")
        },
    );
    text.push_str(
        "<h2>Published and ours</h2>\n<p>Their ends are two machines of 2000 with an adapter each, \
         ours are two processes of one machine, so a time or a throughput says how far apart the \
         two are. Lines without a unit are one way of doing it by another: whether what was learnt \
         then holds here. Their TCP over LANE is IP over the adapter's VIs. Beside it stands the \
         kernel's TCP over loopback, which is no LANE and crosses no VI; what stands for LANE here is \
         <code>sovia lane</code>, measured by itself (docs/lane.md).</p>\n",
    );
    for paper in PAPERS {
        let of: Vec<_> = rows
            .iter()
            .filter(|row| row.fact.paper == paper)
            .map(|row| Row { fact: row.fact, ours: row.ours })
            .collect();
        if !of.is_empty() {
            let (title, reference) = (escaped(paper.title), escaped(paper.reference));
            let _ = writeln!(text, "<h3>{title}</h3>\n<p>{reference}</p>");
            table(&mut text, &tables::comparison(&of));
        }
    }
    if !verdicts.is_empty() {
        table(&mut text, &tables::findings(verdicts));
    }
    text.push_str(chapters);
    text.push_str("</body></html>\n");
    text
}

fn chapter(text: &mut String, results: &Results, pictures: &[Picture]) {
    let name = tables::title(results.scenario);
    let _ = writeln!(text, "<h2 id=\"{}\">{}</h2>", results.scenario, escaped(name));
    let _ = writeln!(text, "<p>{}</p>", escaped(about(results.scenario)));
    for failure in &results.failures {
        let _ = writeln!(text, "<p class=\"failed\">Not measured: {}</p>", escaped(failure));
    }
    for why in &results.left_out {
        let _ = writeln!(text, "<p>Left out: {}</p>", escaped(why));
    }
    for picture in pictures {
        let _ = writeln!(text, "<p><img src=\"{0}\" alt=\"{0}\"></p>", escaped(&picture.file));
    }
    let _ = writeln!(text, "<details><summary>Figures</summary>");
    tables::of(results).iter().for_each(|it| table(text, it));
    let _ = writeln!(text, "</details>");
    if matches!(results.scenario, Scenario::Netpipe | Scenario::Hosts)
        && let Some(losses) = tables::perturbations(results)
    {
        table(text, &losses);
    }
}

fn table(text: &mut String, table: &Table) {
    let _ = writeln!(text, "<h4>{}</h4>\n<div class=\"wide\"><table><tr>", escaped(&table.title));
    let class = |i: usize| if table.left.contains(&i) { " class=\"l\"" } else { "" };
    for (i, name) in table.header.iter().enumerate() {
        let _ = write!(text, "<th{}>{}</th>", class(i), escaped(name));
    }
    let _ = writeln!(text, "</tr>");
    for row in &table.rows {
        let _ = write!(text, "<tr>");
        for (i, cell) in row.iter().enumerate() {
            let _ = write!(text, "<td{}>{}</td>", class(i), escaped(cell));
        }
        let _ = writeln!(text, "</tr>");
    }
    let _ = writeln!(text, "</table></div>");
}

/// A line for each finding.
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
        });
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    Ok(text)
}
