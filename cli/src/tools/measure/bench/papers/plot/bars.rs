//! Bars of several pieces, one row each, which show the parts of a loop's time.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, GRID, INK, Note, Svg, color};
use crate::measure::table::number;

/// A picture.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// Meaning of the pieces' lengths.
    pub(crate) label: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// A row, whose pieces follow each other.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) pieces: Vec<(String, f64)>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 84.0;
const STEP: f64 = 34.0;
const BAR: f64 = 22.0;
const LEGEND_STEP: f64 = 20.0;
const LEGEND_COLUMNS: usize = 3;
/// Smallest width of a piece with its figure on it. A row's sum is at its end.
const NUMBER_WIDTH: f64 = 34.0;

/// Draws the picture as SVG.
pub(crate) fn draw(bars: &Bars, note: &Note) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for (kind, _) in bars.rows.iter().flat_map(|row| &row.pieces) {
        if !kinds.contains(&kind.as_str()) {
            kinds.push(kind);
        }
    }
    let bottom = TOP + bars.rows.len() as f64 * STEP;
    let legend_top = bottom + 62.0;
    let legend_rows = kinds.len().div_ceil(LEGEND_COLUMNS) as f64;
    let mut svg = Svg::new(WIDTH, legend_top + legend_rows * LEGEND_STEP, &bars.title);
    svg.heading(20.0, &bars.title, note);
    let sums = bars.rows.iter().map(|row| row.pieces.iter().map(|piece| piece.1).sum());
    let scale = Scale::over(Kind::Linear, sums);
    let across = |value| LEFT + scale.place(value).unwrap_or(0.0) * (RIGHT - LEFT);
    for tick in scale.ticks() {
        let at = across(tick.value);
        svg.line((at, TOP), (at, bottom), GRID, 1.0);
        let label = tick.label.unwrap_or_default();
        svg.text((at, bottom + 18.0), Anchor::Middle, 12.0, &label);
    }
    svg.line((LEFT, bottom), (RIGHT, bottom), INK, 1.2);
    svg.text(((LEFT + RIGHT) / 2.0, bottom + 38.0), Anchor::Middle, 13.0, bars.label);
    for (i, row) in bars.rows.iter().enumerate() {
        let top = TOP + i as f64 * STEP + (STEP - BAR) / 2.0;
        svg.text((LEFT - 8.0, top + BAR / 2.0 + 4.0), Anchor::End, 12.0, &row.name);
        let mut from = 0.0;
        for (kind, value) in &row.pieces {
            let place = kinds.iter().position(|it| it == kind).unwrap_or(0);
            let (start, end) = (across(from), across(from + value));
            let hint = format!("{}, {kind}: {}", row.name, number(Some(*value)));
            svg.rect((start, top), (end - start, BAR), color(place), Some(&hint));
            if row.pieces.len() > 1 && end - start >= NUMBER_WIDTH {
                let middle = ((start + end) / 2.0, top + BAR / 2.0 + 4.0);
                svg.light_text(middle, 11.0, &number(Some(*value)));
            }
            from += value;
        }
        let end = (across(from) + 6.0, top + BAR / 2.0 + 4.0);
        svg.text(end, Anchor::Start, 11.0, &number(Some(from)));
    }
    // A single kind needs no legend.
    for (i, kind) in kinds.iter().enumerate().filter(|_| kinds.len() > 1) {
        let at = 20.0 + (i % LEGEND_COLUMNS) as f64 * (RIGHT - 20.0) / LEGEND_COLUMNS as f64;
        let height = legend_top + (i / LEGEND_COLUMNS) as f64 * LEGEND_STEP;
        svg.rect((at, height - 9.0), (14.0, 12.0), color(i), None);
        svg.text((at + 20.0, height + 1.0), Anchor::Start, 12.0, kind);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_and_kind_is_there() {
        let row = |name: &str| Row {
            name: name.to_owned(),
            pieces: vec![("post".to_owned(), 10.0), ("wait".to_owned(), 0.0)],
        };
        let bars = Bars { title: "t".to_owned(), label: "ns", rows: vec![row("a"), row("b")] };
        let note = Note { text: String::new(), is_warning: false };
        let svg = draw(&bars, &note);
        // The background, two pieces in each row, and two in the legend.
        assert_eq!(svg.matches("<rect").count(), 7);
        assert!(svg.contains(">post<") && svg.contains(">wait<") && svg.contains(">10.0<"));
        assert!(!draw(&Bars { rows: Vec::new(), ..bars }, &note).contains("NaN"));
    }
}
