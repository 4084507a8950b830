//! Ratio of one layer to another layer of the same run.

use serde::{Deserialize, Serialize};

use super::series::median;

/// The ratios of several runs. A larger ratio is better, and 1 means equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ratio {
    /// Median of the runs.
    pub(super) ratio: f64,
    /// First quartile of the runs. Minimum and maximum would depend more on other programs.
    pub(super) quarter: f64,
    /// Third quartile.
    pub(super) three_quarters: f64,
}

impl Ratio {
    /// Summarizes the ratios of single runs. Returns `None` if there are none, or if one is not a number.
    pub(super) fn of(mut ratios: Vec<f64>) -> Option<Self> {
        if !ratios.iter().all(|ratio| ratio.is_finite()) {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        let outer = ratios.len().saturating_sub(1) / 4;
        let (quarter, three_quarters) = (*ratios.get(outer)?, *ratios.iter().rev().nth(outer)?);
        Some(Self { ratio: median(ratios)?, quarter, three_quarters })
    }

    /// Applies `change` to each of the three numbers. `change` must keep their order.
    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        let Self { ratio, quarter, three_quarters } = self;
        Self {
            ratio: change(ratio),
            quarter: change(quarter),
            three_quarters: change(three_quarters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_needs_numbers() {
        assert_eq!(Ratio::of(vec![]), None);
        assert_eq!(Ratio::of(vec![1.0, f64::INFINITY]), None);
        let expected = Ratio { ratio: 2.0, quarter: 1.0, three_quarters: 4.0 };
        assert_eq!(Ratio::of(vec![4.0, 1.0, 2.0]), Some(expected));
    }

    #[test]
    fn quarters_leave_out_as_many_at_either_end() {
        for (runs, quarter, three_quarters) in [(1, 0.0, 0.0), (5, 1.0, 3.0), (9, 2.0, 6.0)] {
            let ratio = Ratio::of((0..runs).rev().map(f64::from).collect()).unwrap();
            assert_eq!((ratio.quarter, ratio.three_quarters), (quarter, three_quarters));
        }
    }
}
