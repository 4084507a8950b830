//! Pictures of NetPIPE's sweeps within a host.

use super::{Album, BYTES, GBITS, HALF_TRIP, Picture, dot, published, short};
use crate::measure::bench::papers::plot::Note;
use crate::measure::bench::papers::plot::lines::{Axis, Dot, Kind, Line};
use crate::measure::bench::papers::published::NETPIPE;
use crate::measure::bench::papers::results::{Point, Results};
use crate::measure::bench::papers::work::{End, Metric};
use crate::measure::bench::task::Cpus;

const TIME: Axis = Axis { label: "half a round trip in µs", kind: Kind::Log };
const SHARE: Axis = Axis { label: "throughput by that of the size itself", kind: Kind::Linear };

/// Returns latency, saturation, signature and perturbation, with a processor for each end and with a shared one.
pub(super) fn pictures(results: &Results, note: &Note) -> Vec<Picture> {
    let places =
        [(Cpus::Apart, "a processor each", "apart"), (Cpus::Together, "both on one", "together")];
    let mut pictures = Vec::new();
    for (cpus, place, file) in places {
        // In the papers, each end had a processor. So the pictures with a shared one belong to no paper.
        let paper = (cpus == Cpus::Apart).then_some(&NETPIPE);
        let album = Album { results, note, paper };
        let figure = if cpus == Cpus::Apart { "Euro-Par 2001, Fig. 2" } else { "NetPIPE" };
        let exact = |point: &Point<'_>| point.part.cpus == cpus && point.off == 0;
        let mut latency = album.lines(Metric::HalfTrip, exact);
        if cpus == Cpus::Apart {
            for (name, value) in [("VIA on cLAN", 9.0), ("TCP over LANE on cLAN", 58.0)] {
                latency.push(published(name, [(1.0, value)].into_iter()));
            }
        }
        let title = |what: &str| format!("{figure}, {place}: {what}");
        pictures.push(album.drawn(
            &format!("netpipe-latency-{file}"),
            &title("latency"),
            (BYTES, HALF_TRIP),
            latency,
        ));
        pictures.push(album.picture(
            &format!("netpipe-saturation-{file}"),
            &title("saturation curve"),
            (BYTES, GBITS),
            Metric::Throughput,
            exact,
        ));
        pictures.push(album.drawn(
            &format!("netpipe-signature-{file}"),
            &title("signature graph"),
            (TIME, GBITS),
            signature(results, cpus),
        ));
        pictures.push(album.drawn(
            &format!("netpipe-perturbed-{file}"),
            &title("three bytes off"),
            (BYTES, SHARE),
            perturbed(results, cpus),
        ));
    }
    pictures
}

/// Returns throughput by the time of a message, which shows how soon the highest throughput is reached.
fn signature(results: &Results, cpus: Cpus) -> Vec<Line> {
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
            lines.push(Line { name: short(&part.series), points });
        }
    }
    lines
}

/// Returns the throughput of messages that are a few bytes off, relative to that of the exact size. Values below 1 show
/// an alignment problem.
fn perturbed(results: &Results, cpus: Cpus) -> Vec<Line> {
    let mut lines = Vec::new();
    for part in results.parts.iter().filter(|part| part.cpus == cpus) {
        let base = results.curve(&part.series, End::Requester, Metric::Throughput);
        let of = |x: u64| base.iter().find(|point| point.0 == x).map(|point| point.1);
        let mut points: Vec<Dot> = results
            .points()
            .filter(|p| {
                p.part.series == part.series && p.off != 0 && p.metric == Metric::Throughput
            })
            .filter_map(|p| {
                let (base, it) = (of(p.x)?, p.summary);
                let range = (it.min / base, it.max / base);
                Some(Dot { x: p.x as f64 + f64::from(p.off), y: it.median / base, range })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            lines.push(Line { name: short(&part.series), points });
        }
    }
    lines
}

/// Returns pictures of messages to and from memory that is in no cache.
pub(super) fn buffers(results: &Results, note: &Note) -> Vec<Picture> {
    let album = Album { results, note, paper: Some(&NETPIPE) };
    let title = "NetPIPE -I: other memory each time, and a receiver that reads";
    vec![
        album.picture("buffers-latency", title, (BYTES, HALF_TRIP), Metric::HalfTrip, |_| true),
        album.picture("buffers-throughput", title, (BYTES, GBITS), Metric::Throughput, |_| true),
    ]
}
