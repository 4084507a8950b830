//! Lines in columns, as wide as what stands in them.

/// On which side a column begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// The lines with a header, two spaces between columns, and nothing behind the last one.
///
/// All cells lie in one text until it is known how wide the columns are: there may be tens of thousands of lines.
pub(crate) fn columns<const N: usize, T: AsRef<str>>(
    header: [(&str, Side); N],
    lines: impl IntoIterator<Item = [T; N]>,
) -> String {
    let mut cells = Cells { text: String::new(), ends: Vec::new(), widths: [0; N] };
    cells.add(header.map(|(name, _)| name));
    for line in lines {
        cells.add(line);
    }
    let room: usize = cells.widths.iter().map(|width| width + 2).sum();
    let mut out = String::with_capacity(cells.ends.len() * room);
    let mut from = 0;
    for ends in &cells.ends {
        let line: [&str; N] = core::array::from_fn(|at| {
            let from = if at == 0 { from } else { ends[at - 1] };
            &cells.text[from..ends[at]]
        });
        from = ends[N - 1];
        let last = line.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (at, cell) in line.into_iter().enumerate().take(last + 1) {
            if at > 0 {
                out.push_str("  ");
            }
            let gap = || core::iter::repeat_n(' ', cells.widths[at] - width(cell));
            match header[at].1 {
                Side::Right => out.extend(gap()),
                Side::Left => {}
            }
            out.push_str(cell);
            if header[at].1 == Side::Left && at < last {
                out.extend(gap());
            }
        }
        out.push('\n');
    }
    out
}

/// The cells of all lines, one behind the other.
struct Cells<const N: usize> {
    text: String,
    /// Where each ends.
    ends: Vec<[usize; N]>,
    /// Of the widest in each column.
    widths: [usize; N],
}

impl<const N: usize> Cells<N> {
    fn add<T: AsRef<str>>(&mut self, line: [T; N]) {
        let mut ends = [0; N];
        for (at, cell) in line.iter().enumerate() {
            let cell = cell.as_ref();
            self.text.push_str(cell);
            ends[at] = self.text.len();
            self.widths[at] = self.widths[at].max(width(cell));
        }
        self.ends.push(ends);
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
        assert_eq!(columns(header, lines), expected);
    }
}
