//! Writes SVG: elements and escaped text.

use std::fmt::Write;

use super::style::Style;

/// A picture in progress.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Note below a picture's title: the machine and the date.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) text: String,
    /// True for figures of a busy machine. The note is red then.
    pub(crate) is_warning: bool,
}

/// Alignment of a text at its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Colours that colour-blind people can distinguish (Okabe and Ito), and two more.
const COLORS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f3c8d", "#4d4d4d",
    "#a5aa33",
];
/// Number of different marks.
const MARKS: usize = 6;
/// Largest number of characters in a note's first line.
const NOTE_LETTERS: usize = 112;
const WARNING: &str = "#b2182b";
const FAINT: &str = "#666";
pub(super) const INK: &str = "#222";
pub(super) const GRID: &str = "#ddd";
pub(super) const FAINT_GRID: &str = "#f0f0f0";

/// Returns the colour of series `i`.
pub(super) fn color(i: usize) -> &'static str {
    COLORS[i % COLORS.len()]
}

/// Escapes text for XML.
pub(crate) fn escaped(text: &str) -> String {
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

    /// Draws a line through points. `dashes` has SVG's form.
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

    /// Draws a rectangle, by its upper left corner and its size. A pointer over it shows `hint`.
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

    /// Draws title and note at the top.
    pub(super) fn heading(&mut self, left: f64, title: &str, note: &Note) {
        self.text((left, 26.0), Anchor::Start, 15.0, title);
        let color = if note.is_warning { WARNING } else { FAINT };
        // A long note has two lines.
        let (first, second) = broken(&note.text, NOTE_LETTERS);
        for (i, line) in [first, second].into_iter().filter(|line| !line.is_empty()).enumerate() {
            self.colored((left, 46.0 + 15.0 * i as f64), 11.0, color, line);
        }
    }

    fn colored(&mut self, (x, y): (f64, f64), size: f64, color: &str, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{color}">{}</text>"#,
            escaped(text)
        ));
    }

    /// Draws a box with an edge.
    pub(super) fn frame(&mut self, (x, y): (f64, f64), size: (f64, f64), fill: &str, edge: &str) {
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" rx="5" fill="{fill}" stroke="{edge}"/>"#,
            size.0, size.1
        ));
    }

    /// Draws a line with an arrow head.
    pub(super) fn arrow(&mut self, from: (f64, f64), to: (f64, f64), color: &str) {
        self.line(from, to, color, 1.2);
        let turn = (to.1 - from.1).atan2(to.0 - from.0);
        for side in [2.7, -2.7] {
            let end = (to.0 + 8.0 * (turn + side).cos(), to.1 + 8.0 * (turn + side).sin());
            self.line(to, end, color, 1.2);
        }
    }

    /// Draws text on white, centred at the point.
    pub(super) fn label(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        let width = text.chars().count() as f64 * size * 0.62;
        self.rect((x - width / 2.0, y - size + 1.0), (width, size + 2.0), "#fff", None);
        self.text((x, y), Anchor::Middle, size, text);
    }

    /// Draws a diamond, hollow or filled.
    pub(super) fn diamond(&mut self, (x, y): (f64, f64), color: &str, is_hollow: bool, hint: &str) {
        let (fill, hint) = (if is_hollow { "#fff" } else { color }, escaped(hint));
        self.add(format_args!(
            r#"<path d="M {x:.1} {:.1} l 5.5 5.5 l -5.5 5.5 l -5.5 -5.5 z" fill="{fill}" stroke="{color}" stroke-width="1.6"><title>{hint}</title></path>"#,
            y - 5.5
        ));
    }

    /// Draws a series' mark: circle, square, triangle, diamond, inverted triangle, or bar.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), style: Style, is_hollow: bool, hint: &str) {
        let (color, i, hint) = (style.color, style.mark, escaped(hint));
        let fill = if is_hollow { "#fff" } else { color };
        let shape = match i % MARKS {
            0 => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.2""#),
            1 => format!(r#"<rect x="{:.1}" y="{:.1}" width="5.8" height="5.8""#, x - 2.9, y - 2.9),
            2 => format!(r#"<path d="M {x:.1} {:.1} l 3.8 6.6 h -7.6 z""#, y - 4.2),
            3 => format!(r#"<path d="M {x:.1} {:.1} l 3.9 3.9 l -3.9 3.9 l -3.9 -3.9 z""#, y - 3.9),
            4 => format!(r#"<path d="M {x:.1} {:.1} l 3.8 -6.6 h -7.6 z""#, y + 4.2),
            _ => format!(r#"<rect x="{:.1}" y="{:.1}" width="2.8" height="8.4""#, x - 1.4, y - 4.2),
        };
        self.add(format_args!(
            r#"{shape} fill="{fill}" stroke="{color}"><title>{hint}</title>{}"#,
            end(i)
        ));
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

    /// Draws coloured text that begins at the point.
    pub(super) fn colored_text(&mut self, (x, y): (f64, f64), size: f64, color: &str, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="start" font-size="{size}" fill="{color}">{}</text>"#,
            escaped(text)
        ));
    }

    /// Draws white text for a coloured background, centred at the point.
    pub(super) fn light_text(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        self.add(format_args!(
            r##"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" font-size="{size}" fill="#fff">{}</text>"##,
            escaped(text)
        ));
    }

    /// Draws vertical text, centred at the point.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle" font-size="{size}" fill="{INK}" transform="rotate(-90 {x:.1} {y:.1})">{}</text>"#,
            escaped(text)
        ));
    }

    /// Returns the whole file.
    pub(super) fn finish(self) -> String {
        let Self { body, width, height } = self;
        format!(
            "\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans, Helvetica, sans-serif\">\n\
             {body}</svg>\n"
        )
    }
}

/// Splits a text into two lines. The first has at most `letters` characters.
fn broken(text: &str, letters: usize) -> (&str, &str) {
    let Some((end, _)) = text.char_indices().nth(letters) else { return (text, "") };
    match text[..end].rfind(' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (text, ""),
    }
}

/// Returns the end tag of mark `i`.
fn end(i: usize) -> &'static str {
    match i % MARKS {
        0 => "</circle>",
        1 | 5 => "</rect>",
        _ => "</path>",
    }
}
