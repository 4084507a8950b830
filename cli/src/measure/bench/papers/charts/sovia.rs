//! The pictures of the papers on SOVIA.

use super::{Axis, BYTES, HALF_TRIP, Kind, MBITS, Picture, picture};
use crate::bench::papers::results::{Point, Results};
use crate::bench::papers::work::{End, Metric};

const PERCENT: Axis = Axis { label: "processor time in % of the time", kind: Kind::Linear };

/// Latency and bandwidth, and each end's processor time at the papers' pace.
pub(super) fn pictures(results: &Results) -> Vec<Picture> {
    let of_speed = [
        ("one processor", Metric::HalfTrip, HALF_TRIP),
        ("two processors", Metric::HalfTrip, HALF_TRIP),
        ("transfer", Metric::HalfTrip, HALF_TRIP),
        ("bandwidth", Metric::Throughput, MBITS),
    ]
    .into_iter()
    .map(|(what, metric, y)| {
        let file = format!("sovia-{}", what.replace(' ', "-"));
        let of = |point: &Point<'_>| point.part.series.starts_with(what);
        picture(results, &file, format!("SOVIA, {what}"), (BYTES, y), metric, of)
    });
    let of_load = [(End::Requester, "sender"), (End::Responder, "receiver")].map(|(end, name)| {
        let file = format!("sovia-processor-{name}");
        let title = format!("SOVIA, at the papers' pace: processor time of the {name}");
        let of = |point: &Point<'_>| point.end == end;
        picture(results, &file, title, (BYTES, PERCENT), Metric::Processor, of)
    });
    of_speed.chain(of_load).collect()
}
