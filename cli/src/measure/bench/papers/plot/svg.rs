//! Writing SVG: elements and text, escaped.

use std::fmt::Write;

/// A picture that is being drawn.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text stands by its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Colours that people tell from each other, whatever they see (Okabe and Ito), and two more.
const COLORS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f3c8d", "#4d4d4d",
    "#a5aa33",
];
pub(super) const INK: &str = "#222";
pub(super) const GRID: &str = "#ddd";
pub(super) const FAINT_GRID: &str = "#f0f0f0";

/// The colour of series `i`.
pub(super) fn color(i: usize) -> &'static str {
    COLORS[i % COLORS.len()]
}

/// Text as it stands in XML.
pub(in crate::bench::papers) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { body: String::new(), width, height };
        svg.add(format_args!("<title>{}</title>", escaped(title)));
        svg.rect((0.0, 0.0), (width, height), "#fff", None);
        svg
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
        self.add(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{color}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points; `dashes` as SVG has them.
    pub(super) fn path(&mut self, points: &[(f64, f64)], color: &str, dashes: Option<&str>) {
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{x:.1},{y:.1} ");
        }
        let dashes = dashes.map_or(String::new(), |it| format!(r#" stroke-dasharray="{it}""#));
        self.add(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="1.8"{dashes}/>"#,
            list.trim_end()
        ));
    }

    /// A rectangle by its upper left corner and its size; `hint` shows where a pointer rests.
    pub(super) fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        color: &str,
        hint: Option<&str>,
    ) {
        let hint = hint.map_or(String::new(), |it| format!("<title>{}</title>", escaped(it)));
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{color}">{hint}</rect>"#
        ));
    }

    /// The mark of series `i`: a circle, a square, a triangle, a diamond.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), i: usize, hint: &str) {
        let (color, hint) = (color(i), escaped(hint));
        let shape = match i % 4 {
            0 => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.2""#),
            1 => format!(r#"<rect x="{:.1}" y="{:.1}" width="5.8" height="5.8""#, x - 2.9, y - 2.9),
            2 => format!(r#"<path d="M {x:.1} {:.1} l 3.8 6.6 h -7.6 z""#, y - 4.2),
            _ => format!(r#"<path d="M {x:.1} {:.1} l 3.9 3.9 l -3.9 3.9 l -3.9 -3.9 z""#, y - 3.9),
        };
        self.add(format_args!(r#"{shape} fill="{color}"><title>{hint}</title>{}"#, end(i)));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{}</text>"#,
            escaped(text)
        ));
    }

    /// Light text on a coloured ground, its middle at the point.
    pub(super) fn light_text(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        self.add(format_args!(
            r##"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" font-size="{size}" fill="#fff">{}</text>"##,
            escaped(text)
        ));
    }

    /// Text from bottom to top, its middle at the point.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" font-size="{size}" fill="{INK}" transform="rotate(-90 {x:.1} {y:.1})">{}</text>"#,
            escaped(text)
        ));
    }

    /// The whole file.
    pub(super) fn finish(self) -> String {
        let Self { body, width, height } = self;
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans, Helvetica, sans-serif\">\n\
             {body}</svg>\n"
        )
    }
}

/// How the element of mark `i` ends.
fn end(i: usize) -> &'static str {
    match i % 4 {
        0 => "</circle>",
        1 => "</rect>",
        _ => "</path>",
    }
}
