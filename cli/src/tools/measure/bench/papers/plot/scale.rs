//! Axes: the position of a value, and the marked values.

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::measure::bench::papers) enum Kind {
    /// Linear, from zero
    Linear,
    /// Logarithmic, by powers of ten
    Log,
    /// Logarithmic, by powers of two, for sizes and counts
    Binary,
}

/// A marked value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Label; `None` for a line without a number.
    pub(super) label: Option<String>,
}

/// An axis that covers all values.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

/// Largest number of labels on an axis.
const LABELS_MAX: usize = 9;

impl Scale {
    /// Makes an axis that covers all values. A logarithmic axis ignores values that it cannot show.
    pub(super) fn over(kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (kind == Kind::Linear || *value > 0.0);
        let (mut low, mut high) = values
            .filter(usable)
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match kind {
            Kind::Linear => {
                low = low.min(0.0);
                if high <= low {
                    high = low + 1.0;
                }
                high += (high - low) * 0.05;
            }
            Kind::Log | Kind::Binary => {
                // The margin keeps points off the frame.
                low /= 1.25;
                high *= 1.25;
            }
        }
        Self { kind, low, high }
    }

    /// Returns the position of a value, from 0 to 1; `None` if the axis cannot show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if self.kind == Kind::Linear {
            return Some((value - self.low) / (self.high - self.low));
        }
        (value > 0.0).then(|| (value / self.low).ln() / (self.high / self.low).ln())
    }

    /// Returns the marked values in ascending order.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self.kind {
            Kind::Linear => self.even(),
            Kind::Binary => self.binary(),
            Kind::Log => self.decades(),
        }
    }

    fn even(&self) -> Vec<Tick> {
        let rough = (self.high - self.low) / (LABELS_MAX - 2) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(power * 10.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        let tick = |i| Tick { value: i as f64 * step, label: Some(number(i as f64 * step)) };
        (first..=last).map(tick).collect()
    }

    fn binary(&self) -> Vec<Tick> {
        let first = self.low.log2().ceil() as i32;
        let last = self.high.log2().floor() as i32;
        let every = ((last - first + 1).max(1) as usize).div_ceil(LABELS_MAX) as i32;
        (first..=last)
            .filter(|bits| bits % every == 0)
            .map(|bits| Tick { value: 2f64.powi(bits), label: Some(size(2f64.powi(bits))) })
            .collect()
    }

    fn decades(&self) -> Vec<Tick> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let decades = (self.high / self.low).log10();
        // With few decades there is room for labels in between.
        let labelled: &[u32] = match decades {
            decades if decades < 2.2 => &[1, 2, 5],
            _ => &[1],
        };
        let mut ticks = Vec::new();
        for power in first..=last {
            for digit in 1..=9u32 {
                let value = f64::from(digit) * 10f64.powi(power);
                if value < self.low || value > self.high || (digit > 1 && decades > 6.0) {
                    continue;
                }
                let label = labelled.contains(&digit).then(|| number(value));
                ticks.push(Tick { value, label });
            }
        }
        ticks
    }
}

/// Formats a number for an axis.
pub(super) fn number(value: f64) -> String {
    let digits = |value: f64, unit: &str| {
        let text = format!("{value:.3}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value.abs() {
        0.0 => "0".to_owned(),
        it if it >= 1e9 => digits(value / 1e9, "G"),
        it if it >= 1e6 => digits(value / 1e6, "M"),
        it if it >= 1e4 => digits(value / 1e3, "k"),
        it if it >= 0.001 => digits(value, ""),
        _ => format!("{value:e}"),
    }
}

/// Formats a size or a count with a binary unit.
fn size(value: f64) -> String {
    match value {
        it if it >= 1048576.0 => format!("{}M", number(it / 1048576.0)),
        it if it >= 1024.0 => format!("{}K", number(it / 1024.0)),
        it => number(it),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: Kind, values: &[f64]) -> Vec<String> {
        let scale = Scale::over(kind, values.iter().copied());
        scale.ticks().into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(labels(Kind::Binary, &[1.0, 64.0]), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(
            labels(Kind::Binary, &[1.0, 8388608.0]),
            ["1", "8", "64", "512", "4K", "32K", "256K", "2M"]
        );
        assert_eq!(labels(Kind::Log, &[0.1, 900.0]), ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(Kind::Log, &[12.0, 70.0]), ["10", "20", "50"]);
        assert_eq!(labels(Kind::Linear, &[3.0, 9.0]), ["0", "2", "4", "6", "8"]);
    }

    #[test]
    fn values_lie_between_0_and_1_in_order() {
        for kind in [Kind::Linear, Kind::Log, Kind::Binary] {
            let scale = Scale::over(kind, [1.0, 10.0, 100.0].into_iter());
            let places: Vec<_> =
                [1.0, 10.0, 100.0].iter().filter_map(|&value| scale.place(value)).collect();
            assert_eq!(places.len(), 3);
            assert!(places.is_sorted() && places[0] >= 0.0 && places[2] <= 1.0, "{places:?}");
        }
    }

    #[test]
    fn nothing_and_what_cannot_be_shown_does_no_harm() {
        let scale = Scale::over(Kind::Log, [0.0, f64::NAN, -1.0].into_iter());
        assert_eq!(scale.place(0.0), None);
        assert!(!scale.ticks().is_empty());
        assert!(!Scale::over(Kind::Linear, [0.0].into_iter()).ticks().is_empty());
    }
}
