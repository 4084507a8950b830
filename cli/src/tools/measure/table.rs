//! Format of tables of figures.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// Makes a table with this header and a line under it. Columns are aligned to the right, except those in `left`,
/// counted from 0.
pub(crate) fn new(header: Vec<String>, left: &[usize]) -> Table {
    let mut table = Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line));
    let columns = header.len();
    table.set_header(header);
    for place in (0..columns).filter(|place| !left.contains(place)) {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Formats a figure with three significant digits; `-` if there is none or it is not a number.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if !value.is_finite() => "-".to_owned(),
        Some(value) if value >= 1e6 => format!("{} M", number(Some(value / 1e6))),
        Some(value) if value >= 1e4 => format!("{} k", number(Some(value / 1e3))),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        // GB/s of a slow link: two significant digits.
        Some(value) if (1e-9..0.01).contains(&value) => {
            format!("{value:.*}", 1 + -value.log10().floor() as usize)
        }
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0.000"),
            (0.000_512, "0.00051"),
            (0.0097, "0.0097"),
            (0.0581, "0.058"),
            (1.234, "1.23"),
            (23.45, "23.4"),
            (512.3, "512"),
            (1234.0, "1234"),
            (12345.0, "12.3 k"),
            (3.4e6, "3.40 M"),
        ] {
            assert_eq!(number(Some(value)), text);
        }
        assert_eq!((number(None), number(Some(1.0 / 0.0))), ("-".to_owned(), "-".to_owned()));
    }
}
