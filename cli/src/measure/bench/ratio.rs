//! How one layer stands to another one that was measured in the same run.

use serde::{Deserialize, Serialize};

use super::series::median;

/// The ratios of several runs. More is better; 1 is as good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ratio {
    /// The median over the runs.
    pub(super) ratio: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Ratio {
    /// What the ratios of single runs come to; `None` if there are none, or one of them is no number.
    pub(super) fn of(ratios: Vec<f64>) -> Option<Self> {
        if !ratios.iter().all(|ratio| ratio.is_finite()) {
            return None;
        }
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some(Self { ratio: median(ratios)?, least, most })
    }

    /// Each of the three numbers changed by `change`, which keeps their order.
    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        let Self { ratio, least, most } = self;
        Self { ratio: change(ratio), least: change(least), most: change(most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_needs_numbers() {
        assert_eq!(Ratio::of(vec![]), None);
        assert_eq!(Ratio::of(vec![1.0, f64::INFINITY]), None);
        let expected = Ratio { ratio: 2.0, least: 1.0, most: 4.0 };
        assert_eq!(Ratio::of(vec![4.0, 1.0, 2.0]), Some(expected));
    }
}
