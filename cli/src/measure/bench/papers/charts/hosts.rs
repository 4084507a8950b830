//! The pictures of what is measured between two hosts.

use super::{BYTES, HALF_TRIP, MBITS, Picture, picture};
use crate::bench::papers::plan::hosts::groups;
use crate::bench::papers::results::Results;
use crate::bench::papers::work::Metric;

/// One for each group of series that was measured.
pub(super) fn pictures(results: &Results) -> Vec<Picture> {
    let measured = |group: &&_| has_points(results, group);
    groups()
        .iter()
        .filter(measured)
        .map(|group| {
            let y = if group.metric == Metric::HalfTrip { HALF_TRIP } else { MBITS };
            let title = format!("{}: {}", group.title, group.metric.title());
            picture(results, &group.file(), title, (BYTES, y), group.metric, |point| {
                point.off == 0 && group.has(point.part)
            })
        })
        .collect()
}

fn has_points(results: &Results, group: &crate::bench::papers::plan::hosts::Group) -> bool {
    results.points().any(|point| point.metric == group.metric && group.has(point.part))
}
