//! Lines over an axis: medians, with a bar from the least run to the greatest.

pub(in crate::bench::papers) use super::scale::Kind;
use super::scale::{Scale, number};
use super::svg::{Anchor, FAINT_GRID, GRID, INK, Svg, color};

/// A picture.
#[derive(Debug)]
pub(in crate::bench::papers) struct Chart {
    pub(in crate::bench::papers) title: String,
    pub(in crate::bench::papers) x: Axis,
    pub(in crate::bench::papers) y: Axis,
    pub(in crate::bench::papers) lines: Vec<Line>,
}

/// What an axis is called and counts in.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench::papers) struct Axis {
    pub(in crate::bench::papers) label: &'static str,
    pub(in crate::bench::papers) kind: Kind,
}

/// A series.
#[derive(Debug)]
pub(in crate::bench::papers) struct Line {
    pub(in crate::bench::papers) name: String,
    /// Drawn with dashes.
    pub(in crate::bench::papers) dashed: bool,
    pub(in crate::bench::papers) points: Vec<Dot>,
}

/// A point of a series.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench::papers) struct Dot {
    pub(in crate::bench::papers) x: f64,
    pub(in crate::bench::papers) y: f64,
    /// Least and greatest of the runs.
    pub(in crate::bench::papers) range: (f64, f64),
}

const WIDTH: f64 = 900.0;
/// Of the frame: its corners and what lies outside.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 870.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 430.0;
const LEGEND_TOP: f64 = 488.0;
const LEGEND_STEP: f64 = 20.0;
const LEGEND_COLUMNS: usize = 2;
/// More points than this are drawn as a line alone, without marks and ranges.
const MARKED_MAX: usize = 60;

/// The picture as SVG.
pub(in crate::bench::papers) fn draw(chart: &Chart) -> String {
    let rows = chart.lines.len().div_ceil(LEGEND_COLUMNS);
    let mut svg = Svg::new(WIDTH, LEGEND_TOP + rows as f64 * LEGEND_STEP, &chart.title);
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let x = Scale::over(chart.x.kind, all().map(|dot| dot.x));
    let y = Scale::over(chart.y.kind, all().flat_map(|dot| [dot.y, dot.range.0, dot.range.1]));
    svg.text((LEFT, 26.0), Anchor::Start, 16.0, &chart.title);
    axes(&mut svg, chart, &x, &y);
    for (i, line) in chart.lines.iter().enumerate() {
        draw_line(&mut svg, i, line, &x, &y);
        legend(&mut svg, i, line);
    }
    svg.finish()
}

fn across(place: f64) -> f64 {
    LEFT + place * (RIGHT - LEFT)
}

fn up(place: f64) -> f64 {
    BOTTOM - place * (BOTTOM - TOP)
}

fn axes(svg: &mut Svg, chart: &Chart, x: &Scale, y: &Scale) {
    for tick in x.ticks() {
        let Some(at) = x.place(tick.value).map(across) else { continue };
        let grid = if tick.label.is_some() { GRID } else { FAINT_GRID };
        svg.line((at, TOP), (at, BOTTOM), grid, 1.0);
        if let Some(label) = tick.label {
            svg.text((at, BOTTOM + 18.0), Anchor::Middle, 12.0, &label);
        }
    }
    for tick in y.ticks() {
        let Some(at) = y.place(tick.value).map(up) else { continue };
        let grid = if tick.label.is_some() { GRID } else { FAINT_GRID };
        svg.line((LEFT, at), (RIGHT, at), grid, 1.0);
        if let Some(label) = tick.label {
            svg.text((LEFT - 7.0, at + 4.0), Anchor::End, 12.0, &label);
        }
    }
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), INK, 1.2);
    svg.line((LEFT, TOP), (LEFT, BOTTOM), INK, 1.2);
    svg.text(((LEFT + RIGHT) / 2.0, BOTTOM + 40.0), Anchor::Middle, 13.0, chart.x.label);
    svg.upright((20.0, (TOP + BOTTOM) / 2.0), 13.0, chart.y.label);
}

fn draw_line(svg: &mut Svg, i: usize, line: &Line, x: &Scale, y: &Scale) {
    let point = |dot: &Dot| Some((across(x.place(dot.x)?), up(y.place(dot.y)?)));
    let points: Vec<_> = line.points.iter().filter_map(point).collect();
    svg.path(&points, color(i), dashes(line));
    if line.points.len() > MARKED_MAX {
        return;
    }
    for dot in &line.points {
        let (Some(at), Some(low), Some(high)) =
            (x.place(dot.x), y.place(dot.range.0), y.place(dot.range.1))
        else {
            continue;
        };
        let at = across(at);
        svg.line((at, up(low)), (at, up(high)), color(i), 1.0);
    }
    for dot in &line.points {
        if let Some(place) = point(dot) {
            let hint = format!("{}: {} at {}", line.name, number(dot.y), number(dot.x));
            svg.mark(place, i, &hint);
        }
    }
}

fn legend(svg: &mut Svg, i: usize, line: &Line) {
    let column = (i % LEGEND_COLUMNS) as f64;
    let at = LEFT + column * (RIGHT - LEFT) / LEGEND_COLUMNS as f64;
    let height = LEGEND_TOP + (i / LEGEND_COLUMNS) as f64 * LEGEND_STEP;
    svg.path(&[(at, height), (at + 34.0, height)], color(i), dashes(line));
    svg.mark((at + 17.0, height), i, &line.name);
    svg.text((at + 42.0, height + 4.0), Anchor::Start, 12.0, &line.name);
}

fn dashes(line: &Line) -> Option<&'static str> {
    line.dashed.then_some("6 3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_axes_lines_and_legend() {
        let dot = |x: f64, y: f64| Dot { x, y, range: (y * 0.9, y * 1.1) };
        let line = |name: &str, dashed| Line {
            name: name.to_owned(),
            dashed,
            points: vec![dot(1.0, 5.0), dot(64.0, 500.0), dot(4096.0, 0.0)],
        };
        let chart = Chart {
            title: "a < b & c".to_owned(),
            x: Axis { label: "bytes", kind: Kind::Binary },
            y: Axis { label: "µs", kind: Kind::Log },
            lines: vec![line("one", false), line("two", true)],
        };
        let svg = draw(&chart);
        for part in ["a &lt; b &amp; c", ">bytes<", ">µs<", ">one<", ">two<", ">4K<", ">100<"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        // Zero has no place on a logarithmic axis: two points of each line, and the legend's.
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
