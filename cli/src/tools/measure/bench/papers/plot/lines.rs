//! Lines with axes: medians, with a bar from the smallest run to the largest.

pub(in crate::measure::bench::papers) use super::scale::Kind;
use super::scale::{Scale, number};
use super::style::{self, PUBLISHED, Style};
use super::svg::{Anchor, FAINT_GRID, GRID, INK, Note, Svg};

/// A picture.
#[derive(Debug)]
pub(in crate::measure::bench::papers) struct Chart {
    pub(in crate::measure::bench::papers) title: String,
    pub(in crate::measure::bench::papers) x: Axis,
    pub(in crate::measure::bench::papers) y: Axis,
    pub(in crate::measure::bench::papers) lines: Vec<Line>,
    pub(in crate::measure::bench::papers) beside: Vec<Beside>,
}

/// Label and scale of an axis.
#[derive(Clone, Copy, Debug)]
pub(in crate::measure::bench::papers) struct Axis {
    pub(in crate::measure::bench::papers) label: &'static str,
    pub(in crate::measure::bench::papers) kind: Kind,
}

/// A series. Its name decides its style.
#[derive(Debug)]
pub(in crate::measure::bench::papers) struct Line {
    pub(in crate::measure::bench::papers) name: String,
    pub(in crate::measure::bench::papers) points: Vec<Dot>,
}

/// A point of a series.
#[derive(Clone, Copy, Debug)]
pub(in crate::measure::bench::papers) struct Dot {
    pub(in crate::measure::bench::papers) x: f64,
    pub(in crate::measure::bench::papers) y: f64,
    /// Smallest and largest value of the runs.
    pub(in crate::measure::bench::papers) range: (f64, f64),
}

/// A point that cannot be compared with others: hollow, not connected, and with words that give the reason.
#[derive(Debug)]
pub(in crate::measure::bench::papers) struct Beside {
    /// Name of the series.
    pub(in crate::measure::bench::papers) name: String,
    pub(in crate::measure::bench::papers) at: (f64, f64),
    pub(in crate::measure::bench::papers) words: String,
}

const WIDTH: f64 = 760.0;
/// Position of the frame and of the legend.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 430.0;
const LEGEND_TOP: f64 = 490.0;
const LEGEND_STEP: f64 = 20.0;
const LEGEND_COLUMNS: usize = 2;
/// Explanation of the line styles.
const DASHES: &str = "solid: polls; dashes: polls for at most 50 µs, then sleeps; dots: sleeps at once; grey, hollow: published";
/// Explanation of the points beside lines.
const LESS: &str =
    "hollow, in a line's colour: carried less than it was to, as many Mbit/s as stand there";
/// Text in a picture without points.
const NOTHING: &str = "no figures: nothing that belongs here was measured, or none of it counts";
/// Height of the words beside a point.
const WORDS: f64 = 10.0;
/// Largest number of points that are drawn with marks and ranges. A line with more points has none.
const MARKED_MAX: usize = 60;

/// Draws the picture as SVG.
pub(in crate::measure::bench::papers) fn draw(chart: &Chart, note: &Note) -> String {
    let rows = chart.lines.len().div_ceil(LEGEND_COLUMNS);
    let mut svg = Svg::new(WIDTH, LEGEND_TOP + rows as f64 * LEGEND_STEP, &chart.title);
    let joined = chart.lines.iter().flat_map(|line| &line.points).map(|dot| (dot.x, dot.y));
    // The scale depends on medians, so that one disturbed run does not compress the other points.
    let all: Vec<_> = joined.chain(chart.beside.iter().map(|it| it.at)).collect();
    let x = Scale::over(chart.x.kind, all.iter().map(|at| at.0));
    let y = Scale::over(chart.y.kind, all.iter().map(|at| at.1));
    svg.heading(LEFT - 50.0, &chart.title, note);
    if all.is_empty() {
        // Without points, the axes' numbers would mean nothing.
        let middle = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        svg.text(middle, Anchor::Middle, 13.0, NOTHING);
        return svg.finish();
    }
    svg.text((LEFT - 50.0, TOP - 8.0), Anchor::Start, 11.0, DASHES);
    axes(&mut svg, chart, &x, &y);
    let mut published = 0;
    for (i, line) in chart.lines.iter().enumerate() {
        let style = if line.name.contains(PUBLISHED) {
            published += 1;
            style::published(published - 1)
        } else {
            style::of(&line.name)
        };
        draw_line(&mut svg, line, style, &x, &y);
        legend(&mut svg, i, line, style);
    }
    if !chart.beside.is_empty() {
        svg.text((LEFT - 50.0, TOP - 22.0), Anchor::Start, 11.0, LESS);
    }
    draw_beside(&mut svg, &chart.beside, &x, &y);
    svg.finish()
}

/// Draws the marks, and their words in a column beside them, from the top down without overlaps.
fn draw_beside(svg: &mut Svg, beside: &[Beside], x: &Scale, y: &Scale) {
    let place = |it: &Beside| {
        let place = (across(x.place(it.at.0)?), up(y.place(it.at.1)?));
        (place.0.is_finite() && place.1.is_finite()).then_some(place)
    };
    let mut all: Vec<_> = beside.iter().filter_map(|it| Some((place(it)?, it))).collect();
    all.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut above: Option<(f64, f64)> = None;
    for (place, it) in all {
        let style = style::of(&it.name);
        let (x, y) = (number(it.at.0), number(it.at.1));
        svg.mark(place, style, true, &format!("{}, {}: {y} at {x}", it.name, it.words));
        let least = above.filter(|above| above.0 == place.0).map_or(TOP, |above| above.1 + WORDS);
        let height = (place.1 + WORDS / 3.0).max(least);
        svg.colored_text((place.0 + 6.0, height), WORDS, style.color, &it.words);
        above = Some((place.0, height));
    }
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
            svg.text((LEFT - 8.0, at + 4.0), Anchor::End, 12.0, &label);
        }
    }
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), INK, 1.2);
    svg.line((LEFT, TOP), (LEFT, BOTTOM), INK, 1.2);
    svg.text(((LEFT + RIGHT) / 2.0, BOTTOM + 40.0), Anchor::Middle, 13.0, chart.x.label);
    svg.upright((16.0, (TOP + BOTTOM) / 2.0), 13.0, chart.y.label);
}

fn draw_line(svg: &mut Svg, line: &Line, style: Style, x: &Scale, y: &Scale) {
    let point = |dot: &Dot| Some((across(x.place(dot.x)?), up(y.place(dot.y)?)));
    let points: Vec<_> = line.points.iter().filter_map(point).collect();
    svg.path(&points, style.color, style.dashes);
    if line.points.len() > MARKED_MAX {
        return;
    }
    for dot in line.points.iter().filter(|dot| dot.range.0 < dot.range.1) {
        let (Some(at), Some(high)) = (x.place(dot.x), y.place(dot.range.1)) else { continue };
        let low = y.place(dot.range.0).unwrap_or(-1.0);
        let at = across(at);
        svg.line((at, up(low.clamp(0.0, 1.0))), (at, up(high.clamp(0.0, 1.0))), style.color, 1.0);
        // A bar that leaves the frame ends there with an arrow head.
        for (end, is_out, back) in [(1.0, high > 1.0, 6.0), (0.0, low < 0.0, -6.0)] {
            if is_out {
                let tip = up(end);
                svg.line((at, tip), (at - 4.0, tip + back), style.color, 1.4);
                svg.line((at, tip), (at + 4.0, tip + back), style.color, 1.4);
            }
        }
    }
    let is_hollow = line.name.contains(PUBLISHED);
    for dot in &line.points {
        if let Some(place) = point(dot) {
            let hint = format!("{}: {} at {}", line.name, number(dot.y), number(dot.x));
            svg.mark(place, style, is_hollow, &hint);
        }
    }
}

fn legend(svg: &mut Svg, i: usize, line: &Line, style: Style) {
    let column = (i % LEGEND_COLUMNS) as f64;
    let at = 20.0 + column * (RIGHT - 20.0) / LEGEND_COLUMNS as f64;
    let height = LEGEND_TOP + (i / LEGEND_COLUMNS) as f64 * LEGEND_STEP;
    svg.path(&[(at, height), (at + 34.0, height)], style.color, style.dashes);
    svg.mark((at + 17.0, height), style, line.name.contains(PUBLISHED), &line.name);
    svg.text((at + 42.0, height + 4.0), Anchor::Start, 12.0, &line.name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<Dot>) -> Chart {
        let line = |name: &str| Line { name: name.to_owned(), points: points.clone() };
        Chart {
            title: "a < b & c".to_owned(),
            x: Axis { label: "bytes", kind: Kind::Binary },
            y: Axis { label: "µs", kind: Kind::Log },
            lines: vec![line("one"), line("two, blocking"), line("one, published")],
            beside: Vec::new(),
        }
    }

    fn note() -> Note {
        Note { text: "a machine".to_owned(), is_warning: false }
    }

    #[test]
    fn a_picture_has_axes_lines_and_legend() {
        let dot = |x: f64, y: f64| Dot { x, y, range: (y * 0.9, y * 1.1) };
        let svg = draw(&chart(vec![dot(1.0, 5.0), dot(64.0, 500.0), dot(4096.0, 0.0)]), &note());
        let parts =
            ["a &lt; b &amp; c", ">bytes<", ">µs<", ">one<", ">4K<", ">100<", ">a machine<"];
        for part in parts {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        // A logarithmic axis has no place for 0. So each line has two points, and the legend has its own lines.
        assert_eq!(svg.matches("<polyline").count(), 6);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn published_lines_of_a_picture_differ_by_their_marks() {
        let dots = vec![Dot { x: 1.0, y: 1.0, range: (1.0, 1.0) }];
        let line = |i| Line { name: format!("{i}, published"), points: dots.clone() };
        let svg =
            draw(&Chart { lines: (0..6).map(line).collect(), ..chart(dots.clone()) }, &note());
        // Each shape occurs once at its point and once in the legend.
        let shapes = [
            "<circle",
            r#"height="5.8""#,
            "l 3.8 6.6",
            "l 3.9 3.9",
            "l 3.8 -6.6",
            r#"height="8.4""#,
        ];
        for shape in shapes {
            assert_eq!(svg.matches(shape).count(), 2, "{shape}");
        }
    }

    #[test]
    fn a_picture_without_points_says_so() {
        let svg = draw(&chart(Vec::new()), &note());
        assert!(svg.contains(NOTHING) && !svg.contains(">bytes<"), "{svg}");
    }

    #[test]
    fn a_point_beside_has_its_words_and_is_joined_to_none() {
        let dot = |x: f64| Dot { x, y: 10.0, range: (10.0, 10.0) };
        let alone = draw(&chart(vec![dot(1.0), dot(2.0)]), &note());
        let beside = vec![Beside { name: "one".to_owned(), at: (4.0, 90.0), words: "12".into() }];
        let svg = draw(&Chart { beside, ..chart(vec![dot(1.0), dot(2.0)]) }, &note());
        assert_eq!(svg.matches("<polyline").count(), alone.matches("<polyline").count());
        assert!(svg.contains(">12<") && svg.contains("one, 12: 90 at 4"), "{svg}");
    }

    #[test]
    fn a_bar_beyond_the_frame_is_cut_and_has_a_head() {
        let lines = |high: f64| {
            let dots = [1.0, 2.0].map(|x| Dot { x, y: 10.0 * x, range: (10.0 * x, high) });
            draw(&chart(dots.to_vec()), &note()).matches("<line").count()
        };
        assert_eq!(lines(1e6), lines(20.5) + 2 * 2 * 3);
    }
}
