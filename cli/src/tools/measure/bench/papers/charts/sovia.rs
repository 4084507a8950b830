//! Pictures of the papers on SOVIA.

use super::{Album, Axis, BYTES, GBITS, HALF_TRIP, Kind, Picture, published, short};
use crate::measure::bench::papers::plot::Note;
use crate::measure::bench::papers::plot::bars::Row;
use crate::measure::bench::papers::plot::lines::{Beside, Dot, Line};
use crate::measure::bench::papers::published::SOVIA;
use crate::measure::bench::papers::results::{Point, Results};
use crate::measure::bench::papers::work::{End, Metric, Way};

const PERCENT: Axis = Axis { label: "processor time in % of the time", kind: Kind::Linear };
const PER_MB: Axis = Axis { label: "processor time in µs per MB", kind: Kind::Log };
const BY_VIA: Axis = Axis { label: "divided by native VIA of the same size", kind: Kind::Log };
/// Lowest throughput, in Mbit/s, that counts as keeping the papers' pace.
const KEPT: f64 = 0.95 * 780.0;

/// Series of figure 5, and of figures 7 and 8.
const HANDLING: [&str; 5] = ["native VIA", "TCP", "SOVIA_NOTIFY", "SOVIA_HANDLER", "SOVIA_SINGLE"];
const FLOW: [&str; 7] = [
    "native VIA",
    "TCP",
    "TCP with Nagle",
    "SOVIA_BASE",
    "SOVIA_FLOWCNTL",
    "SOVIA_DACKS",
    "SOVIA_COMBINE",
];

/// RDMA writes, and the series that they are compared with.
const WRITING: [&str; 5] = ["native VIA", "SOVIA_REG", "SOVIA_3WAY", "SOVIA_RDMA", "SOVIA_DACKS"];

/// Returns true if a series is one of `names`, with any way of waiting.
fn is_one_of(series: &str, what: &str, names: &[&str]) -> bool {
    let Some(name) = series.strip_prefix(what).and_then(|it| it.strip_prefix(", ")) else {
        return false;
    };
    names.iter().any(|known| {
        name.strip_prefix(known)
            .is_some_and(|rest| matches!(rest, ", polling" | ", blocking" | ", sleeping"))
    })
}

fn is_socket(point: &Point<'_>, what: &str) -> bool {
    let series = &point.part.series;
    let beside = ["native VIA", "TCP", "TCP with Nagle", "SOVIA_SINGLE", "SOVIA_COMBINE"];
    series.starts_with(what)
        && (matches!(point.part.way, Way::Run | Way::Native) || is_one_of(series, what, &beside))
        && !series.ends_with("sleeping")
}

/// Returns pictures of latency and bandwidth, and of each end's processor time at the papers' pace.
pub(super) fn pictures(results: &Results, note: &Note) -> Vec<Picture> {
    let album = Album { results, note, paper: Some(&SOVIA) };
    let of = |what: &'static str, names: &'static [&'static str]| {
        move |point: &Point<'_>| is_one_of(&point.part.series, what, names)
    };
    let four = |name: &str, value: f64| published(name, [(4.0, value)].into_iter());
    let full = |name: &str, value: f64| published(name, [(32768.0, value)].into_iter());
    let mut latency = album.lines(Metric::HalfTrip, of("latency", &HANDLING));
    latency.extend([
        four("native VIA on cLAN", 8.3),
        four("SOVIA_SINGLE on cLAN", 12.3),
        four("SOVIA_HANDLER on cLAN", 29.9),
        four("TCP over LANE on cLAN", 54.9),
    ]);
    let mut flow = album.lines(Metric::Throughput, of("bandwidth", &FLOW));
    flow.extend([
        full("native VIA on cLAN", 0.815),
        full("SOVIA_DACKS on cLAN", 0.814),
        full("TCP over LANE on cLAN", 0.45),
    ]);
    let figure_5 = "ICS 2001, Fig. 5, and CLUSTER 2001, Fig. 6a: latency";
    let figure_8 = "ICS 2001, Figs. 7, 8, and CLUSTER 2001, Fig. 6b: bandwidth";
    let mut pictures = vec![
        album.drawn("sovia-latency", figure_5, (BYTES, HALF_TRIP), latency),
        normalised(&album, "latency", Metric::HalfTrip, &HANDLING),
        album.drawn("sovia-bandwidth", figure_8, (BYTES, GBITS), flow),
        normalised(&album, "bandwidth", Metric::Throughput, &FLOW),
    ];
    for (what, metric, y) in
        [("latency", Metric::HalfTrip, HALF_TRIP), ("bandwidth", Metric::Throughput, GBITS)]
    {
        let title = format!("Sockets of sovia run and libsovia beside the streams: {what}");
        let file = format!("sovia-sockets-{what}");
        let of = |point: &Point<'_>| is_socket(point, what);
        pictures.push(album.picture(&file, &title, (BYTES, y), metric, of));
    }
    for (what, metric, y) in
        [("latency", Metric::HalfTrip, HALF_TRIP), ("bandwidth", Metric::Throughput, GBITS)]
    {
        let title = format!("ICS 2001, Sec. 4.3: RDMA writes beside the window, {what}");
        let file = format!("sovia-rdma-{what}");
        pictures.push(album.picture(&file, &title, (BYTES, y), metric, of(what, &WRITING)));
    }
    let together = Album { paper: None, ..album };
    let of_one = |point: &Point<'_>| point.part.series.starts_with("one processor");
    let title = "SOVIA, both ends on one processor: latency";
    let axes = (BYTES, HALF_TRIP);
    pictures.push(together.picture("sovia-together", title, axes, Metric::HalfTrip, of_one));
    pictures.extend(processor(&album));
    pictures
}

/// Returns a picture of series relative to native VIA that waits in the same way. TCP's calls sleep, so TCP is compared
/// with the blocking one.
fn normalised(album: &Album<'_>, what: &str, metric: Metric, names: &[&str]) -> Picture {
    let results = album.results;
    let mut lines = Vec::new();
    let base = results.curve(&format!("{what}, native VIA, blocking"), End::Requester, metric);
    for part in results.parts.iter().filter(|part| is_one_of(&part.series, what, names)) {
        if part.series.ends_with("sleeping") && part.way != Way::Tcp {
            continue;
        }
        let points: Vec<Dot> = results
            .summaries(&part.series, End::Requester, metric)
            .into_iter()
            .filter_map(|(x, it)| {
                let base = base.iter().find(|point| point.0 == x)?.1;
                let range = (it.min / base, it.max / base);
                Some(Dot { x: x as f64, y: it.median / base, range })
            })
            .collect();
        if !points.is_empty() {
            lines.push(Line { name: short(&part.series), points });
        }
    }
    let of: &[(&str, f64, f64)] = if metric == Metric::HalfTrip {
        &[
            ("SOVIA_SINGLE on cLAN", 4.0, 12.3 / 8.3),
            ("SOVIA_HANDLER on cLAN", 4.0, 3.6),
            ("TCP over LANE on cLAN", 4.0, 54.9 / 8.3),
        ]
    } else {
        &[
            ("SOVIA_DACKS on cLAN", 32768.0, 814.0 / 815.0),
            ("TCP over LANE on cLAN", 32768.0, 450.0 / 815.0),
        ]
    };
    lines.extend(of.iter().map(|&(name, x, y)| published(name, [(x, y)].into_iter())));
    let title = format!("ICS 2001: {what} / native VIA's, published and here");
    album.drawn(&format!("sovia-{what}-by-via"), &title, (BYTES, BY_VIA), lines)
}

/// Returns the pictures of figure 10 for each end, with marks where the pace was not kept. Another picture shows the
/// user and system time for 32 KB.
fn processor(album: &Album<'_>) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for (end, name, part) in [(End::Requester, "sender", "a"), (End::Responder, "receiver", "b")] {
        for (metric, y, what) in
            [(Metric::Processor, PERCENT, "share"), (Metric::ProcessorPerByte, PER_MB, "per-mb")]
        {
            let title = format!(
                "ICS 2001, Fig. 10{part}: processor time of the {name} at 780 Mbit/s (hollow: at less)"
            );
            let of = |point: &Point<'_>| point.end == end && point.metric == metric;
            let file = format!("sovia-processor-{name}-{what}");
            let mut lines = album.lines(metric, |p| of(p) && is_kept(album.results, p));
            let beside = beside(album.results, of);
            for it in &beside {
                if lines.iter().all(|line| line.name != it.name) {
                    lines.push(Line { name: it.name.clone(), points: Vec::new() });
                }
            }
            pictures.push(album.drawn_beside(&file, &title, (BYTES, y), lines, beside));
        }
    }
    pictures.push(divided(album));
    pictures
}

/// Returns the stream's throughput at a size, in Mbit/s.
fn reached(results: &Results, point: &Point<'_>) -> Option<f64> {
    let curve = results.curve(&point.part.series, End::Requester, Metric::Throughput);
    curve.into_iter().find(|&(x, _)| x == point.x).map(|(_, mbits)| mbits)
}

/// Returns true if the stream kept the pace at a size.
fn is_kept(results: &Results, point: &Point<'_>) -> bool {
    reached(results, point).is_some_and(|mbits| mbits >= KEPT)
}

/// Returns the points where a stream did not keep the pace, with its throughput. Its processor time there cannot be
/// compared with others'.
fn beside(results: &Results, of: impl Fn(&Point<'_>) -> bool) -> Vec<Beside> {
    let less = |point: Point<'_>| {
        let mbits = reached(results, &point).filter(|mbits| of(&point) && *mbits < KEPT)?;
        let words = format!("{mbits:.0}");
        let (name, at) = (short(&point.part.series), (point.x as f64, point.summary.median));
        Some(Beside { name, at, words })
    };
    results.points().filter_map(less).collect()
}

/// Returns the picture of each end's user and system time for messages of 32 KB, published and measured.
fn divided(album: &Album<'_>) -> Picture {
    let row = |name: String, user: f64, system: f64| Row {
        name,
        pieces: vec![("in the program".to_owned(), user), ("in the kernel".to_owned(), system)],
    };
    let mut rows = vec![row("COMBINE on cLAN, sender, published".to_owned(), 1.4, 8.7)];
    for part in album.results.parts.iter().filter(|part| part.series.starts_with("paced")) {
        for end in [End::Requester, End::Responder] {
            let at = |metric| {
                let of = |p: &Point<'_>| {
                    (p.x, p.end, p.metric) == (32768, end, metric)
                        && p.part.series == part.series
                        && is_kept(album.results, p)
                };
                album.results.points().find(of).map(|point| point.summary.median)
            };
            if let (Some(user), Some(system)) =
                (at(Metric::ProcessorUser), at(Metric::ProcessorSystem))
            {
                let end = if end == End::Requester { "sender" } else { "receiver" };
                rows.push(row(format!("{}, {end}", short(&part.series)), user, system));
            }
        }
    }
    let title = "ICS 2001, Fig. 10: 32 KB at 780 Mbit/s, in the program and in the kernel";
    album.barred("sovia-processor-divided", title, "% of the time", rows)
}
