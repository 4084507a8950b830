//! Which pictures a scenario gets.

mod hosts;
mod sovia;

use super::plot::bars::{self, Bars, Row};
use super::plot::lines::{self, Axis, Chart, Dot, Kind, Line};
use super::results::{Point, Results};
use super::tables::title;
use super::work::{End, Metric, Scenario, Way};
use crate::bench::task::{Cpus, Wait};

/// A picture with the name of its file.
pub(super) struct Picture {
    pub(super) file: String,
    pub(super) svg: String,
}

const BYTES: Axis = Axis { label: "message size in bytes", kind: Kind::Binary };
const MBITS: Axis = Axis { label: "throughput in Mbit/s", kind: Kind::Log };
const HALF_TRIP: Axis = Axis { label: "half a round trip in µs", kind: Kind::Log };

/// The pictures of a scenario.
pub(super) fn of(results: &Results) -> Vec<Picture> {
    let name = title(results.scenario);
    let is_exact = |point: &Point<'_>| point.off == 0;
    match results.scenario {
        Scenario::Loops => vec![loops(results)],
        Scenario::Throughput => ["one way", "two way"]
            .into_iter()
            .map(|direction| {
                let file = format!("throughput-{}", direction.replace(' ', "-"));
                let title = format!("{} throughput", capital(direction));
                let of = |point: &Point<'_>| point.part.series.starts_with(direction);
                picture(results, &file, title, (BYTES, MBITS), Metric::Throughput, of)
            })
            .collect(),
        Scenario::Strided => {
            let x = Axis { label: "stride in doubles", kind: Kind::Binary };
            vec![picture(
                results,
                "strided",
                name.to_owned(),
                (x, MBITS),
                Metric::Throughput,
                |_| true,
            )]
        }
        Scenario::Scatter => {
            let x = Axis { label: "block size in bytes", kind: Kind::Binary };
            vec![picture(
                results,
                "scatter",
                name.to_owned(),
                (x, MBITS),
                Metric::Throughput,
                |_| true,
            )]
        }
        Scenario::Queues => [1, 2, 5]
            .into_iter()
            .map(|outstanding| {
                let x = Axis { label: "VIs", kind: Kind::Binary };
                let y = Axis { label: "time per message in µs", kind: Kind::Linear };
                let part = format!("{outstanding} outstanding");
                let file = format!("queues-{outstanding}");
                let of = |point: &Point<'_>| point.part.series.contains(&part);
                let title = format!("{name}, {part}");
                picture(results, &file, title, (x, y), Metric::PerMessage, of)
            })
            .collect(),
        Scenario::Netpipe => [(Cpus::Apart, "two-processors"), (Cpus::Together, "one-processor")]
            .into_iter()
            .flat_map(|(cpus, place)| {
                let on = format!("{name}, {}", place.replace('-', " "));
                let file = |what: &str| format!("netpipe-{what}-{place}");
                let here = move |point: &Point<'_>| point.part.cpus == cpus;
                [
                    picture(
                        results,
                        &file("latency"),
                        format!("{on}: latency"),
                        (BYTES, HALF_TRIP),
                        Metric::HalfTrip,
                        move |point| here(point) && is_exact(point),
                    ),
                    picture(
                        results,
                        &file("saturation"),
                        format!("{on}: saturation curve"),
                        (BYTES, MBITS),
                        Metric::Throughput,
                        move |point| here(point) && is_exact(point),
                    ),
                    picture(
                        results,
                        &file("perturbed"),
                        format!("{on}: saturation curve with perturbations"),
                        (BYTES, MBITS),
                        Metric::Throughput,
                        here,
                    ),
                    signature(results, &file("signature"), format!("{on}: signature graph"), cpus),
                ]
            })
            .collect(),
        Scenario::Calls => vec![single(results, "calls", "ns per call", "ns")],
        Scenario::Memory => vec![single(results, "memory", "bytes per VI", "bytes")],
        Scenario::Registration => {
            let x = Axis { label: "size in bytes", kind: Kind::Binary };
            let y = Axis { label: "time in µs", kind: Kind::Log };
            let metric = Metric::Preparing;
            vec![picture(results, "registration", name.to_owned(), (x, y), metric, |_| true)]
        }
        Scenario::Sovia => sovia::pictures(results),
        Scenario::Hosts => hosts::pictures(results),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

/// Figures of a metric by x, a line for each series.
fn picture(
    results: &Results,
    file: &str,
    title: String,
    (x, y): (Axis, Axis),
    metric: Metric,
    of: impl Fn(&Point<'_>) -> bool,
) -> Picture {
    let mut lines = Vec::new();
    for part in &results.parts {
        let mut points: Vec<Dot> = results
            .points()
            .filter(|p| p.part.series == part.series && p.metric == metric && of(p))
            .map(|p| dot((p.x as f64) + f64::from(p.off), &p))
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            let dashed = part.wait == Wait::Block && part.way != Way::Tcp;
            lines.push(Line { name: short(&part.series), dashed, points });
        }
    }
    let svg = lines::draw(&Chart { title, x, y, lines });
    Picture { file: format!("{file}.svg"), svg }
}

/// A series without what the title of its picture says.
fn short(series: &str) -> String {
    let said = [
        ", two processors",
        ", one processor",
        "one way, ",
        "two way, ",
        "one processor, ",
        "two processors, ",
        "transfer, ",
        "bandwidth, ",
        "paced, ",
        "latency, ",
        "MTU 1500, ",
        "MTU 9000, ",
    ];
    said.iter().fold(series.to_owned(), |name, part| name.replace(part, ""))
}

fn dot(x: f64, point: &Point<'_>) -> Dot {
    let summary = point.summary;
    Dot { x, y: summary.median, range: (summary.min, summary.max) }
}

/// Throughput by the time that a message takes: how soon what can be reached is reached.
fn signature(results: &Results, file: &str, title: String, cpus: Cpus) -> Picture {
    let mut lines = Vec::new();
    for part in results.parts.iter().filter(|part| part.cpus == cpus) {
        let times = results.curve(&part.series, End::Requester, Metric::HalfTrip);
        let throughput = |x: u64| {
            results.points().find(|p| {
                p.part.series == part.series && (p.x, p.off, p.metric) == (x, 0, Metric::Throughput)
            })
        };
        let points = times.iter().filter_map(|&(x, time)| Some(dot(time, &throughput(x)?)));
        let points: Vec<Dot> = points.collect();
        if !points.is_empty() {
            let dashed = part.wait == Wait::Block && part.way != Way::Tcp;
            lines.push(Line { name: short(&part.series), dashed, points });
        }
    }
    let x = Axis { label: "half a round trip in µs", kind: Kind::Log };
    let svg = lines::draw(&Chart { title, x, y: MBITS, lines });
    Picture { file: format!("{file}.svg"), svg }
}

/// A row for each loop, a piece for each call.
fn loops(results: &Results) -> Picture {
    let mut rows = Vec::new();
    for part in &results.parts {
        for end in [End::Requester, End::Responder] {
            let mut calls: Vec<_> = results
                .points()
                .filter(|p| {
                    p.part.series == part.series && p.end == end && p.metric != Metric::RoundTrip
                })
                .collect();
            calls.sort_by_key(|p| turn(end, p.metric));
            let piece = |p: &Point<'_>| (p.metric.title().to_owned(), p.summary.median);
            let pieces: Vec<_> = calls.iter().map(piece).collect();
            if !pieces.is_empty() {
                rows.push(Row { name: format!("{}, {}", part.series, end.name()), pieces });
            }
        }
    }
    let title = "Time in each call of the eight loops".to_owned();
    let svg = bars::draw(&Bars { title, label: "ns of a round, call by call", rows });
    Picture { file: "loops.svg".to_owned(), svg }
}

/// When in a loop a call has its turn: the responder begins by waiting, and posts its receive last.
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

/// A bar for each figure in that unit.
fn single(results: &Results, file: &str, label: &'static str, unit: &str) -> Picture {
    let rows = results
        .points()
        .filter(|point| point.metric.unit() == unit)
        .map(|point| Row {
            name: match results.scenario {
                Scenario::Memory => format!("{}, {}", point.end.name(), point.metric.title()),
                _ => point.metric.title().to_owned(),
            },
            pieces: vec![("median".to_owned(), point.summary.median)],
        })
        .collect();
    let svg = bars::draw(&Bars { title: title(results.scenario).to_owned(), label, rows });
    Picture { file: format!("{file}.svg"), svg }
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
                Metric::Private,
            ];
            let ends = [End::Requester, End::Responder];
            let readings: Vec<_> = metrics
                .into_iter()
                .flat_map(|metric| ends.map(|end| (metric, end)))
                .map(|(metric, end)| Reading { end, metric, x: 64, off: 0, value: 5.0 })
                .collect();
            let results = made_up(scenario, &readings);
            for picture in of(&results) {
                let shapes = ["<circle", "<rect", "<path"];
                assert!(shapes.iter().any(|shape| picture.svg.contains(shape)), "{scenario}");
                assert!(picture.svg.starts_with("<?xml") && !picture.svg.contains("NaN"));
                files.push(picture.file);
            }
        }
        let count = files.len();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), count, "each has a file of its own");
        assert_eq!(count, 1 + 2 + 1 + 1 + 3 + 8 + 1 + 1 + 1 + 6 + 14);
    }
}
