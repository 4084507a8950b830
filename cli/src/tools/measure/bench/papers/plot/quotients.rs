//! Findings as quotients on one axis, published and measured. Each has a row, and the published one is hollow and grey.

use super::scale::{Kind, Scale};
use super::svg::{Anchor, GRID, INK, Note, Svg};
use crate::measure::table::number;

/// A row with a finding.
#[derive(Debug)]
pub(in crate::measure::bench::papers) struct Row {
    pub(in crate::measure::bench::papers) name: String,
    pub(in crate::measure::bench::papers) published: Option<f64>,
    /// Range in which the finding holds. An infinite upper bound means no upper limit.
    pub(in crate::measure::bench::papers) bounds: (f64, f64),
    /// Median, smallest and largest quotient.
    pub(in crate::measure::bench::papers) ours: Option<(f64, f64, f64)>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 20.0;
const RIGHT: f64 = 610.0;
const TOP: f64 = 112.0;
const STEP: f64 = 36.0;
const HOLDS: &str = "#1b7837";
const FAILS: &str = "#b2182b";
const BAND: &str = "#e5f5e0";
const GREY: &str = "#8a8a8a";

/// Draws the picture as SVG.
pub(in crate::measure::bench::papers) fn draw(title: &str, rows: &[Row], note: &Note) -> String {
    let bottom = TOP + rows.len() as f64 * STEP;
    let mut svg = Svg::new(WIDTH, bottom + 56.0, title);
    svg.heading(LEFT, title, note);
    let key = "hollow and grey: published; filled: here, with the least and the greatest run; green: range in which the finding holds";
    svg.text((LEFT, 92.0), Anchor::Start, 11.0, key);
    let values = rows.iter().flat_map(|row| {
        let ours = row.ours.map(|ours| ours.0);
        [row.published, ours, Some(1.0)].into_iter().flatten()
    });
    let scale = Scale::over(Kind::Log, values);
    let across = |value: f64| {
        let place = scale.place(value).unwrap_or(0.0).clamp(0.0, 1.0);
        LEFT + place * (RIGHT - LEFT)
    };
    for (i, row) in rows.iter().enumerate() {
        let top = TOP + i as f64 * STEP;
        let (from, to) = (across(row.bounds.0), across(row.bounds.1));
        svg.rect((from, top + 18.0), ((to - from).max(1.0), 14.0), BAND, None);
    }
    for tick in scale.ticks() {
        let Some(label) = tick.label else { continue };
        let at = across(tick.value);
        for i in 0..rows.len() {
            let top = TOP + i as f64 * STEP + 18.0;
            svg.line((at, top), (at, top + 14.0), if tick.value == 1.0 { INK } else { GRID }, 1.0);
        }
        svg.text((at, bottom + 18.0), Anchor::Middle, 12.0, &label);
    }
    svg.line((LEFT, bottom), (RIGHT, bottom), INK, 1.2);
    svg.text(
        ((LEFT + RIGHT) / 2.0, bottom + 38.0),
        Anchor::Middle,
        13.0,
        "ratio of the two figures",
    );
    for (i, row) in rows.iter().enumerate() {
        let top = TOP + i as f64 * STEP;
        svg.text((LEFT, top + 13.0), Anchor::Start, 11.5, &row.name);
        let middle = top + 25.0;
        if let Some(value) = row.published {
            let hint = format!("published: {}", number(Some(value)));
            svg.diamond((across(value), middle), GREY, true, &hint);
        }
        let said = match row.ours {
            Some((median, least, greatest)) => {
                let holds = (row.bounds.0..=row.bounds.1).contains(&median);
                let color = if holds { HOLDS } else { FAILS };
                svg.line((across(least), middle), (across(greatest), middle), color, 2.0);
                // A bar that leaves the axis ends there with an arrow head.
                for (end, back) in [(least, 6.0), (greatest, -6.0)] {
                    if scale.place(end).is_none_or(|place| !(0.0..=1.0).contains(&place)) {
                        let tip = (across(end), middle);
                        svg.line(tip, (tip.0 + back, middle - 4.0), color, 1.6);
                        svg.line(tip, (tip.0 + back, middle + 4.0), color, 1.6);
                    }
                }
                svg.diamond((across(median), middle), color, false, &number(Some(median)));
                let verdict = if holds { "holds" } else { "does not hold" };
                format!("{} {verdict}", number(Some(median)))
            }
            None => "not measured".to_owned(),
        };
        svg.text((RIGHT + 8.0, middle + 4.0), Anchor::Start, 11.5, &said);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_says_whether_the_claim_holds() {
        let row = |name: &str, ours| Row {
            name: name.to_owned(),
            published: Some(2.0),
            bounds: (1.5, f64::INFINITY),
            ours,
        };
        let rows = [
            row("a < b", Some((3.0, 2.5, 3.5))),
            row("b", Some((1.0, 0.9, 1.1))),
            Row { published: None, ..row("c", None) },
        ];
        let svg = draw("findings", &rows, &Note { text: String::new(), is_warning: false });
        for part in ["a &lt; b", "3.00 holds", "1.00 does not hold", "not measured"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        // A bar that leaves the axis has an arrow head at that end.
        let bar = |least, greatest| {
            let rows = [row("a", Some((3.0, least, greatest)))];
            let note = Note { text: String::new(), is_warning: false };
            draw("findings", &rows, &note).matches("<line").count()
        };
        assert_eq!(bar(1e-6, 1e6), bar(2.9, 3.1) + 4);
        assert!(
            !draw("none", &[], &Note { text: String::new(), is_warning: false }).contains("NaN")
        );
    }
}
