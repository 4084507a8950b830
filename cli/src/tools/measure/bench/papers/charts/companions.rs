//! Pictures of figures from other commands: Sun RPC, FTP, EMP.

use super::{Album, Axis, BYTES, GBITS, HALF_TRIP, Kind, Picture, published};
use crate::measure::bench::papers::plot::Note;
use crate::measure::bench::papers::plot::bars::Row;
use crate::measure::bench::papers::plot::lines::Line;
use crate::measure::bench::papers::published::{CLUSTER, EMP};
use crate::measure::bench::papers::results::{Point, Results};
use crate::measure::bench::papers::work::{End, Metric, Scenario};

const CALL: Axis = Axis { label: "a call and its answer in µs", kind: Kind::Log };
const FILE: Axis = Axis { label: "bytes of the file", kind: Kind::Log };
const SHARE: Axis = Axis { label: "% of the processor in the program", kind: Kind::Linear };
/// Computing time between posting and waiting for the paper's table, in µs.
const WORK: u64 = 3200;

pub(super) fn pictures(results: &Results, note: &Note) -> Vec<Picture> {
    let paper = if results.scenario == Scenario::Emp { &EMP } else { &CLUSTER };
    let album = Album { results, note, paper: Some(paper) };
    match results.scenario {
        Scenario::Rpc => {
            let bytes = Axis { label: "bytes of the argument", kind: Kind::Binary };
            let mut lines = album.lines(Metric::CallTime, |point| point.x > 0);
            // A logarithmic axis has no place for size 0, so it is drawn at 1.
            for (name, value) in [
                ("TCP over LANE on cLAN", 149.0),
                ("SOVIA on cLAN", 35.0),
                ("TCP on Fast Ethernet", 200.0),
            ] {
                lines.push(published(&format!("{name}, no argument"), [(1.0, value)].into_iter()));
            }
            let title = "CLUSTER 2001, Fig. 7: a procedure called by Sun RPC";
            vec![album.drawn("rpc", title, (bytes, CALL), lines)]
        }
        Scenario::Ftp => {
            let of = |direction: &'static str| {
                move |point: &Point<'_>| {
                    point.part.series.contains(direction) || point.part.series == "local copy"
                }
            };
            let theirs = |name: &str, points: [(f64, f64); 4]| {
                let points = points.map(|(size, mbits)| (size, mbits / 1e3));
                published(name, points.into_iter())
            };
            let mut lines = album.lines(Metric::Throughput, of(", get,"));
            lines.push(theirs(
                "SOVIA on cLAN",
                [
                    (13_827_767.0, 736.0),
                    (19_090_223.0, 573.0),
                    (65_257_948.0, 552.0),
                    (145_864_380.0, 532.0),
                ],
            ));
            lines.push(theirs(
                "TCP over LANE on cLAN",
                [
                    (13_827_767.0, 288.0),
                    (19_090_223.0, 262.0),
                    (65_257_948.0, 256.0),
                    (145_864_380.0, 254.0),
                ],
            ));
            let title = "ICS 2001, Table 5, and CLUSTER 2001, Table 1: files by FTP, got";
            let put = "Files by FTP, put";
            vec![
                album.drawn("ftp-get", title, (FILE, GBITS), lines),
                album.picture("ftp-put", put, (FILE, GBITS), Metric::Throughput, of(", put,")),
            ]
        }
        _ => emp(&album),
    }
}

fn emp(album: &Album<'_>) -> Vec<Picture> {
    let alone = |point: &Point<'_>| !point.part.series.ends_with("batches");
    let mut latency = album.lines(Metric::HalfTrip, alone);
    latency.push(published("EMP on Tigon2", [(4.0, 23.0), (1500.0, 36.0)].into_iter()));
    let mut bandwidth = album.lines(Metric::Throughput, alone);
    bandwidth.push(published("EMP on Tigon2", [(4096.0, 0.88)].into_iter()));
    let mut pictures = vec![
        album.drawn("emp-latency", "SC 2001, Fig. 5: latency", (BYTES, HALF_TRIP), latency),
        album.drawn("emp-bandwidth", "SC 2001, Fig. 5: bandwidth", (BYTES, GBITS), bandwidth),
    ];
    let mut rows = Vec::new();
    for (name, send, receive, wait) in
        [("TCP", 137.0, 4.0, 126.0), ("GM", 66.0, 1.0, 123.0), ("EMP", 53.0, 9.0, 3.0)]
    {
        rows.push(row(format!("{name}, published"), send, receive, wait));
    }
    for part in &album.results.parts {
        let at = |metric| {
            let curve = album.results.curve(&part.series, End::Requester, metric);
            curve.into_iter().find(|point| point.0 == WORK).map(|point| point.1)
        };
        if let (Some(send), Some(receive), Some(wait)) =
            (at(Metric::Isend), at(Metric::Irecv), at(Metric::Waitall))
        {
            rows.push(row(part.series.replace(", batches", ""), send, receive, wait));
        }
    }
    let title = "SC 2001, Table 2: what the calls of a batch take";
    pictures.push(album.barred("emp-table-2", title, "µs a call, 10 KB x 5", rows));
    let title = "SC 2001, Fig. 6: throughput by the program's share of its processor";
    pictures.push(album.drawn("emp-figure-6", title, (SHARE, LINEAR_GBITS), figure_6(album)));
    pictures
}

const LINEAR_GBITS: Axis = Axis { label: "throughput both ways in Gbit/s", kind: Kind::Linear };

fn row(name: String, send: f64, receive: f64, wait: f64) -> Row {
    let pieces = [("Isend", send), ("Irecv", receive), ("Waitall", wait)];
    Row { name, pieces: pieces.map(|(call, us)| (call.to_owned(), us)).to_vec() }
}

/// Returns throughput by share, both from the same batches.
fn figure_6(album: &Album<'_>) -> Vec<Line> {
    let results = album.results;
    let of = |part: &crate::measure::bench::papers::work::Part| {
        let shares = results.curve(&part.series, End::Requester, Metric::Share);
        let throughput = results.summaries(&part.series, End::Requester, Metric::Throughput);
        let points: Vec<_> = shares
            .iter()
            .filter_map(|&(work, share)| {
                let it = throughput.iter().find(|point| point.0 == work)?.1;
                let range = (it.min / 1e3, it.max / 1e3);
                Some(super::Dot { x: share, y: it.median / 1e3, range })
            })
            .collect();
        let name = part.series.replace(", batches", "");
        (!points.is_empty()).then_some(Line { name, points })
    };
    results.parts.iter().filter_map(of).collect()
}
