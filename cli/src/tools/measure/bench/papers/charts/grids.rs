//! Pictures of the papers' complete tables: published and measured in one picture, absolute and relative to native VIA.

use super::{Album, Axis, BYTES, HALF_TRIP, Kind, Picture, published, short};
use crate::measure::bench::papers::plot::Note;
use crate::measure::bench::papers::plot::lines::{Dot, Line};
use crate::measure::bench::papers::published::{GRIDS, Grid};
use crate::measure::bench::papers::results::Results;
use crate::measure::bench::papers::work::End;

const BY_VIA: Axis = Axis { label: "divided by native VIA of the same size", kind: Kind::Linear };

/// Returns two pictures for each table.
pub(in crate::measure::bench::papers) fn pictures(all: &[Results], note: &Note) -> Vec<Picture> {
    let none = Results::new(crate::measure::bench::papers::work::Scenario::Sovia, Vec::new());
    GRIDS
        .iter()
        .flat_map(|grid| {
            let of = all.iter().find(|results| results.scenario == grid.scenario);
            let album = Album { results: of.unwrap_or(&none), note, paper: Some(grid.paper) };
            [absolute(&album, grid), relative(&album, grid)]
        })
        .collect()
}

fn ours(album: &Album<'_>, grid: &Grid, i: usize) -> Vec<(u64, f64)> {
    album.results.curve(grid.columns[i].series, End::Requester, grid.metric)
}

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Line {
    let points = points.map(|(x, y)| Dot { x, y, range: (y, y) }).collect();
    Line { name: name.to_owned(), points }
}

fn absolute(album: &Album<'_>, grid: &Grid) -> Picture {
    let mut lines = Vec::new();
    for (i, column) in grid.columns.iter().enumerate() {
        let theirs = grid.rows.iter().map(|(x, values)| (*x as f64, values[i]));
        lines.push(published(column.name, theirs));
        let here = ours(album, grid, i);
        if !here.is_empty() {
            let name = short(column.series);
            lines.push(line(&name, here.into_iter().map(|(x, y)| (x as f64, y))));
        }
    }
    let title = format!("{}, {}: {}", grid.paper.name, grid.place, grid.what);
    album.drawn(grid.file, &title, (BYTES, HALF_TRIP), lines)
}

fn relative(album: &Album<'_>, grid: &Grid) -> Picture {
    let mut lines = Vec::new();
    let base = ours(album, grid, 0);
    for (i, column) in grid.columns.iter().enumerate().skip(1) {
        let theirs = grid.rows.iter().map(|(x, values)| (*x as f64, values[i] / values[0]));
        lines.push(published(column.name, theirs));
        let here: Vec<_> = ours(album, grid, i)
            .into_iter()
            .filter_map(|(x, y)| Some((x as f64, y / base.iter().find(|it| it.0 == x)?.1)))
            .collect();
        if !here.is_empty() {
            lines.push(line(&short(column.series), here.into_iter()));
        }
    }
    let title = format!("{}, {} / native VIA: {}", grid.paper.name, grid.place, grid.what);
    album.drawn(&format!("{}-by-via", grid.file), &title, (BYTES, BY_VIA), lines)
}
