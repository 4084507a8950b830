//! Pictures of measurements between two hosts.

use super::{Album, BYTES, GBITS, HALF_TRIP, Picture, published};
use crate::measure::bench::papers::plan::hosts::{Group, groups};
use crate::measure::bench::papers::plot::Note;
use crate::measure::bench::papers::published::{NETPIPE, SOVIA};
use crate::measure::bench::papers::results::Results;
use crate::measure::bench::papers::work::Metric;

/// Returns a picture for each measured group of series.
pub(super) fn pictures(results: &Results, note: &Note) -> Vec<Picture> {
    let measured = |group: &&_| has_points(results, group);
    groups()
        .iter()
        .filter(measured)
        .map(|group| {
            let is_netpipe = group.title.starts_with("NetPIPE");
            let paper = if is_netpipe { &NETPIPE } else { &SOVIA };
            let album = Album { results, note, paper: Some(paper) };
            let y = if group.metric == Metric::HalfTrip { HALF_TRIP } else { GBITS };
            let figure = match (is_netpipe, group.metric) {
                (true, _) if group.title.contains("9000") => "Fig. 5",
                (true, _) => "Figs. 3, 4",
                (false, Metric::HalfTrip) => "Fig. 5 and Table 2, M-VIA",
                _ => "Fig. 8, M-VIA",
            };
            let what = if group.metric == Metric::HalfTrip { "latency" } else { "throughput" };
            let title = format!("{}, {figure}: {}, {what}", paper.name, group.title);
            let mut lines =
                album.lines(group.metric, |point| point.off == 0 && group.has(point.part));
            lines.extend(
                points(group).iter().map(|&(name, x, y)| published(name, [(x, y)].into_iter())),
            );
            album.drawn(&group.file(), &title, (BYTES, y), lines)
        })
        .collect()
}

/// Returns a group's published points: bytes, and µs or Gbit/s.
fn points(group: &Group) -> &'static [(&'static str, f64, f64)] {
    match (&group.title[..], group.metric) {
        ("NetPIPE MTU 1500 polling" | "NetPIPE MTU 1500 waiting", Metric::HalfTrip) => {
            &[("VIA on SK-9821", 1.0, 29.0), ("TCP on SK-9821", 1.0, 63.0)]
        }
        ("NetPIPE MTU 9000 polling" | "NetPIPE MTU 9000 waiting", Metric::HalfTrip) => {
            &[("VIA on SK-9821", 1.0, 24.0), ("TCP on SK-9821", 1.0, 54.0)]
        }
        ("SOVIA latency eth", _) => &[
            ("native VIA on M-VIA", 4.0, 43.3),
            ("TCP on Fast Ethernet", 4.0, 75.6),
            ("SOVIA_NOTIFY on M-VIA", 4.0, 88.5),
            ("SOVIA_HANDLER on M-VIA", 4.0, 83.3),
            ("SOVIA_SINGLE on M-VIA", 4.0, 57.6),
        ],
        ("SOVIA bandwidth eth", _) => &[("SOVIA_DACKS on M-VIA", 32768.0, 0.096)],
        _ => &[],
    }
}

fn has_points(results: &Results, group: &Group) -> bool {
    results.points().any(|point| point.metric == group.metric && group.has(point.part))
}
