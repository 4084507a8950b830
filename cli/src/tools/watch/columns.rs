//! Formats lines in columns for readers, and lines of JSON for scripts.

use serde::Serialize;
use sovia_stats_page::in_parts;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Number of lines that a thread formats before it takes more.
const LINES: usize = 2000;

/// Returns a header and a line for each item. Columns are separated by two spaces, and lines have no trailing spaces.
///
/// There may be tens of thousands of lines. So several threads format the cells, and all cells are stored in a few
/// strings until the columns' widths are known.
pub(crate) fn columns<'a, const N: usize, S: Sync, T: AsRef<str>>(
    header: [(&str, Side); N],
    items: &'a [S],
    line: impl Fn(&'a S) -> [T; N] + Sync,
) -> String {
    let sides = header.map(|(_, side)| side);
    let mut parts = vec![Cells::of([header.map(|(name, _)| name)])];
    parts.extend(in_parts(items, LINES, |items| Cells::of(items.iter().map(&line))));
    let widths = core::array::from_fn(|at| {
        parts.iter().map(|part| part.widths[at]).max().unwrap_or_default()
    });
    let texts = in_parts(&parts, 1, |parts| {
        parts.iter().map(|part| part.text_of(&sides, &widths)).collect::<String>()
    });
    texts.concat()
}

/// Returns a line with a JSON object for each item.
pub(crate) fn json_lines<T: Serialize>(objects: impl Iterator<Item = T>) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for object in objects {
        serde_json::to_writer(&mut lines, &object)?;
        lines.push(b'\n');
    }
    Ok(String::from_utf8(lines)?)
}

/// Cells of several lines, one after the other.
struct Cells<const N: usize> {
    text: String,
    /// End of each cell in `text`.
    ends: Vec<[usize; N]>,
    /// Widest cell of each column.
    widths: [usize; N],
}

impl<const N: usize> Cells<N> {
    fn of<T: AsRef<str>>(lines: impl IntoIterator<Item = [T; N]>) -> Cells<N> {
        let mut cells = Cells { text: String::new(), ends: Vec::new(), widths: [0; N] };
        for line in lines {
            let mut ends = [0; N];
            for (at, cell) in line.iter().enumerate() {
                let cell = cell.as_ref();
                cells.text.push_str(cell);
                ends[at] = cells.text.len();
                cells.widths[at] = cells.widths[at].max(width(cell));
            }
            cells.ends.push(ends);
        }
        cells
    }

    fn text_of(&self, sides: &[Side; N], widths: &[usize; N]) -> String {
        let room: usize = widths.iter().map(|width| width + 2).sum();
        let mut out = String::with_capacity(self.ends.len() * room);
        let mut from = 0;
        for ends in &self.ends {
            let line: [&str; N] = core::array::from_fn(|at| {
                let from = if at == 0 { from } else { ends[at - 1] };
                &self.text[from..ends[at]]
            });
            from = ends[N - 1];
            let last = line.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
            for (at, cell) in line.into_iter().enumerate().take(last + 1) {
                if at > 0 {
                    out.push_str("  ");
                }
                let gap = || core::iter::repeat_n(' ', widths[at] - width(cell));
                match sides[at] {
                    Side::Right => out.extend(gap()),
                    Side::Left => {}
                }
                out.push_str(cell);
                if sides[at] == Side::Left && at < last {
                    out.extend(gap());
                }
            }
            out.push('\n');
        }
        out
    }
}

fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [["a", "1", "x y"], ["bcd", "2000", ""], ["é", "", "ü"]];
        let header = [("NAME", Side::Left), ("N", Side::Right), ("WHY", Side::Left)];
        let expected = "NAME     N  WHY\na        1  x y\nbcd   2000\né           ü\n";
        assert_eq!(columns(header, &lines, |line| *line), expected);
        assert_eq!(columns(header, &[], |line: &[&str; 3]| *line), "NAME  N  WHY\n");
    }

    #[test]
    fn many_lines_keep_their_order_and_share_their_widths() {
        let numbers: Vec<usize> = (0..LINES * 4 + 1).collect();
        let text = columns([("N", Side::Right)], &numbers, |n| [n.to_string()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), numbers.len() + 1);
        for (n, line) in numbers.iter().zip(&lines[1..]) {
            assert_eq!(line.len(), lines[0].len());
            assert_eq!(line.trim_start(), n.to_string());
        }
    }
}
