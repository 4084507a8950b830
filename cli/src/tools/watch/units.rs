//! Formats numbers for people.

/// Formats three significant digits and a decimal unit: `1.23 k`.
pub(crate) fn short(value: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut unit = 0;
    // A value that would be rounded to 1000 gets the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 && value.fract() == 0.0 => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{}", UNITS[unit])
}

/// Formats a count in the same way.
pub(crate) fn count(value: u64) -> String {
    // Most values are small.
    if value < 1000 { value.to_string() } else { short(value as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_matter() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (0.5, "0.50"),
            (999.0, "999"),
            (999.7, "1.00k"),
            (1234.0, "1.23k"),
            (12_345.0, "12.3k"),
            (999_950.0, "1.00M"),
            (123_456_789.0, "123M"),
            (1e18, "1000P"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
