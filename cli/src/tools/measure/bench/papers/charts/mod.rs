//! The pictures of each scenario.

mod companions;
mod grids;
mod hosts;
mod netpipe;
mod sovia;
mod verdicts;

use super::plot::bars::{self, Bars, Row};
use super::plot::lines::{self, Axis, Beside, Chart, Dot, Kind, Line};
use super::plot::{Note, PUBLISHED};
use super::published::{FEATURES, Paper, SOVIA};
use super::results::{Point, Results};
use super::tables::title;
use super::work::{End, Metric, Scenario};
use crate::measure::bench::task::Wait;

pub(super) use self::grids::pictures as grids;
pub(super) use self::verdicts::{picture as findings, states};

/// A picture with the name of its file.
pub(super) struct Picture {
    pub(super) file: String,
    pub(super) svg: String,
    /// Paper that the picture belongs to. Pictures without a paper come last in the report.
    pub(super) paper: Option<&'static Paper>,
}

const BYTES: Axis = Axis { label: "message size in bytes", kind: Kind::Binary };
const GBITS: Axis = Axis { label: "throughput in Gbit/s", kind: Kind::Log };
const HALF_TRIP: Axis = Axis { label: "half a round trip in µs", kind: Kind::Log };

/// Data for the pictures of a scenario.
struct Album<'a> {
    results: &'a Results,
    note: &'a Note,
    paper: Option<&'static Paper>,
}

/// Returns the pictures of a scenario.
pub(super) fn of(results: &Results, note: &Note) -> Vec<Picture> {
    let album = |paper| Album { results, note, paper };
    let features = album(Some(&FEATURES));
    match results.scenario {
        Scenario::Loops => vec![features.loops(false), features.loops(true)],
        Scenario::Throughput => ["one way", "two way"]
            .into_iter()
            .map(|direction| {
                let file = format!("throughput-{}", direction.replace(' ', "-"));
                let title = format!("FGCS 2002, Fig. 5: throughput, {direction}");
                let of = |point: &Point<'_>| point.part.series.starts_with(direction);
                features.picture(&file, &title, (BYTES, GBITS), Metric::Throughput, of)
            })
            .collect(),
        Scenario::Strided => {
            let axes = (Axis { label: "stride in doubles", kind: Kind::Binary }, GBITS);
            let title = "FGCS 2002, Fig. 6: strided copy of 8 KB of doubles";
            vec![features.picture("strided", title, axes, Metric::Throughput, |_| true)]
        }
        Scenario::Scatter => {
            let axes = (Axis { label: "block size in bytes", kind: Kind::Binary }, GBITS);
            let title = "FGCS 2002, Fig. 7: messages scattered over 32 blocks";
            vec![features.picture("scatter", title, axes, Metric::Throughput, |_| true)]
        }
        Scenario::Queues => [1, 2, 5]
            .into_iter()
            .zip(["Fig. 8", "Fig. 9", "Fig. 10"])
            .map(|(outstanding, figure)| {
                let x = Axis { label: "VIs", kind: Kind::Binary };
                let y = Axis { label: "time per message in µs", kind: Kind::Linear };
                let part = format!("{outstanding} outstanding");
                let title =
                    format!("FGCS 2002, {figure}: completion queue and round robin, {part}");
                let of = |point: &Point<'_>| point.part.series.contains(&part);
                let file = format!("queues-{outstanding}");
                features.picture(&file, &title, (x, y), Metric::PerMessage, of)
            })
            .collect(),
        Scenario::Netpipe => netpipe::pictures(results, note),
        Scenario::Buffers => netpipe::buffers(results, note),
        Scenario::Calls => vec![album(None).single("calls", "ns per call", "ns")],
        Scenario::Memory => vec![album(None).single("memory", "bytes per VI", "bytes")],
        Scenario::Registration => {
            let x = Axis { label: "size in bytes", kind: Kind::Binary };
            let y = Axis { label: "time in µs", kind: Kind::Log };
            let title = "ICS 2001, Fig. 6: registering and copying";
            let album = album(Some(&SOVIA));
            let is_simulated = |point: &Point<'_>| point.part.series.starts_with("simulated, ");
            let of = |point: &Point<'_>| !is_simulated(point);
            let mut simulated = album.lines(Metric::Preparing, is_simulated);
            simulated.push(published("M-VIA, 4 bytes", [(4.0, 4.3)].into_iter()));
            simulated.push(published("M-VIA, 4 bytes, 2 MB held", [(4.0, 10.1)].into_iter()));
            let law = "ICS 2001, Sec. 4.1: registering for a send, simulated at the papers' costs";
            vec![
                album.picture("registration", title, (x, y), Metric::Preparing, of),
                album.drawn("registration-simulated", law, (x, y), simulated),
            ]
        }
        Scenario::Sovia => sovia::pictures(results, note),
        Scenario::Hosts => hosts::pictures(results, note),
        Scenario::Rpc | Scenario::Ftp | Scenario::Emp => companions::pictures(results, note),
    }
}

/// Returns a point of a picture. Throughput is in Gbit/s.
fn dot(x: f64, point: &Point<'_>) -> Dot {
    let per = if point.metric == Metric::Throughput { 1e3 } else { 1.0 };
    let summary = point.summary;
    Dot { x, y: summary.median / per, range: (summary.min / per, summary.max / per) }
}

/// Returns a published series, whose points have no spread.
fn published(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Line {
    let points = points.map(|(x, y)| Dot { x, y, range: (y, y) }).collect();
    Line { name: format!("{name}, {PUBLISHED}"), points }
}

/// Returns a series' name without the words that its picture's title contains.
fn short(series: &str) -> String {
    let said = [
        ", a processor each",
        ", both on one",
        "one way, ",
        "two way, ",
        "one processor, ",
        "bandwidth, ",
        "paced, ",
        "latency, ",
        "simulated, ",
        "MTU 1500, ",
        "MTU 9000, ",
    ];
    said.iter().fold(series.to_owned(), |name, part| name.replace(part, ""))
}

impl Album<'_> {
    /// Returns figures of a metric by x, a line for each series.
    fn lines(&self, metric: Metric, of: impl Fn(&Point<'_>) -> bool) -> Vec<Line> {
        let mut lines = Vec::new();
        for part in &self.results.parts {
            let mut points: Vec<Dot> = self
                .results
                .points()
                .filter(|p| p.part.series == part.series && p.metric == metric && of(p))
                .map(|p| dot((p.x as f64) + f64::from(p.off), &p))
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            if !points.is_empty() {
                lines.push(Line { name: short(&part.series), points });
            }
        }
        lines
    }

    fn picture(
        &self,
        file: &str,
        title: &str,
        axes: (Axis, Axis),
        metric: Metric,
        of: impl Fn(&Point<'_>) -> bool,
    ) -> Picture {
        self.drawn(file, title, axes, self.lines(metric, of))
    }

    fn drawn(&self, file: &str, title: &str, axes: (Axis, Axis), lines: Vec<Line>) -> Picture {
        self.drawn_beside(file, title, axes, lines, Vec::new())
    }

    fn drawn_beside(
        &self,
        file: &str,
        title: &str,
        (x, y): (Axis, Axis),
        lines: Vec<Line>,
        beside: Vec<Beside>,
    ) -> Picture {
        let svg = lines::draw(&Chart { title: title.to_owned(), x, y, lines, beside }, self.note);
        Picture { file: format!("{file}.svg"), svg, paper: self.paper }
    }

    fn barred(&self, file: &str, title: &str, label: &'static str, rows: Vec<Row>) -> Picture {
        let svg = bars::draw(&Bars { title: title.to_owned(), label, rows }, self.note);
        Picture { file: format!("{file}.svg"), svg, paper: self.paper }
    }

    /// Returns a picture with a row for each loop and a piece for each call. Loops that sleep have other magnitudes, so
    /// they have a picture of their own.
    fn loops(&self, sleeping: bool) -> Picture {
        let mut rows = Vec::new();
        for part in self.results.parts.iter().filter(|it| (it.wait == Wait::Sleep) == sleeping) {
            for end in [End::Requester, End::Responder] {
                let of = |p: &Point<'_>| {
                    p.part.series == part.series && p.end == end && p.metric != Metric::RoundTrip
                };
                let mut calls: Vec<_> = self.results.points().filter(of).collect();
                calls.sort_by_key(|p| turn(end, p.metric));
                let piece = |p: &Point<'_>| (p.metric.title().to_owned(), p.summary.median);
                let pieces: Vec<_> = calls.iter().map(piece).collect();
                if !pieces.is_empty() {
                    rows.push(Row { name: format!("{}, {}", part.series, end.name()), pieces });
                }
            }
        }
        let (file, which) = if sleeping { ("loops-sleeping", ", asleep") } else { ("loops", "") };
        let title = format!("FGCS 2002, Figs. 2 and 3: time in each call of the loops{which}");
        self.barred(file, &title, "ns of a round, call by call", rows)
    }

    /// Returns a picture with a bar for each figure in the given unit.
    fn single(&self, file: &str, label: &'static str, unit: &str) -> Picture {
        let row = |point: Point<'_>| Row {
            name: match self.results.scenario {
                Scenario::Memory => format!("{}, {}", point.end.name(), point.metric.title()),
                _ => point.metric.title().to_owned(),
            },
            pieces: vec![("median".to_owned(), point.summary.median)],
        };
        let rows = self.results.points().filter(|point| point.metric.unit() == unit).map(row);
        self.barred(file, title(self.results.scenario), label, rows.collect())
    }
}

/// Returns the position of a call in a loop. The responder begins by waiting, and posts its receive last.
fn turn(end: End, call: Metric) -> u8 {
    match (end, call) {
        (End::Responder, Metric::RecvDone | Metric::RecvWait | Metric::Flag) => 0,
        (_, Metric::PostSend) => 1,
        (End::Requester, Metric::PostRecv) => 2,
        (_, Metric::SendDone | Metric::SendWait) => 3,
        (End::Responder, Metric::PostRecv) => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::made_up;
    use super::super::work::Reading;
    use super::*;

    #[test]
    fn every_scenario_has_pictures_with_its_series() {
        let mut files = Vec::new();
        for scenario in Scenario::ALL.into_iter().chain([Scenario::Hosts]) {
            let metrics = [
                Metric::Throughput,
                Metric::HalfTrip,
                Metric::PerMessage,
                Metric::Preparing,
                Metric::PostSend,
                Metric::Processor,
                Metric::ProcessorUser,
                Metric::ProcessorSystem,
                Metric::ProcessorPerByte,
                Metric::Private,
            ];
            let ends = [End::Requester, End::Responder];
            let readings: Vec<_> = metrics
                .into_iter()
                .flat_map(|metric| ends.map(|end| (metric, end)))
                .map(|(metric, end)| Reading { end, metric, x: 64, off: 0, value: 5.0 })
                .collect();
            let results = made_up(scenario, &readings);
            let note = Note { text: "a machine".to_owned(), is_warning: false };
            for picture in of(&results, &note) {
                let shapes = ["<circle", "<rect", "<path"];
                assert!(shapes.iter().any(|shape| picture.svg.contains(shape)), "{scenario}");
                assert!(picture.svg.starts_with("<svg") && !picture.svg.contains("NaN"));
                files.push(picture.file);
            }
        }
        let count = files.len();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), count, "each has a file of its own");
        assert!(count > 40, "{count}");
    }
}
