//! Lines in columns, as wide as what stands in them.

use std::fmt::Write;

/// On which side a column begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// The lines with a header, two spaces between columns, and nothing behind the last one.
pub(crate) fn columns<const N: usize>(header: [(&str, Side); N], lines: &[[String; N]]) -> String {
    let width = |text: &str| text.chars().count();
    let widest = |column: usize| {
        let cells = lines.iter().map(|line| width(&line[column]));
        cells.max().unwrap_or(0).max(width(header[column].0))
    };
    let widths: [usize; N] = core::array::from_fn(widest);
    let mut out = String::new();
    let mut put = |cells: [&str; N]| {
        let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (at, cell) in cells.into_iter().enumerate().take(last + 1) {
            let gap = widths[at] - width(cell);
            if at > 0 {
                out.push_str("  ");
            }
            match header[at].1 {
                Side::Right => write!(out, "{:gap$}{cell}", "").unwrap_or_default(),
                Side::Left if at == last => out.push_str(cell),
                Side::Left => write!(out, "{cell}{:gap$}", "").unwrap_or_default(),
            }
        }
        out.push('\n');
    };
    put(header.map(|(name, _)| name));
    for line in lines {
        put(core::array::from_fn(|at| line[at].as_str()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines =
            [["a".into(), "1".into(), "x y".into()], ["bcd".into(), "2000".into(), "".into()]];
        let header = [("NAME", Side::Left), ("N", Side::Right), ("WHY", Side::Left)];
        let expected = "NAME     N  WHY\na        1  x y\nbcd   2000\n";
        assert_eq!(columns(header, &lines), expected);
    }
}
