//! CUBIC's curve (RFC 9438, section 4.2), in bytes, milliseconds and integers.

use crate::stream::control::proportion;

/// What is left of a window after congestion, in 256ths: 0.7 (`Beta`).
const BETA: u64 = 179;
/// A time after which the curve is as high as it can be.
const LONGEST: u64 = 1 << 24;

/// A window after congestion.
pub(super) fn reduced(window: u64) -> u64 {
    (window >> 8) * BETA + (((window & 255) * BETA) >> 8)
}

/// The window as a function of the time since the last congestion, or since what there was to send began to suffice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Curve {
    frame: u64,
    /// The window at which it is flat, and when it is.
    most: u64,
    flat_at: u64,
    /// What Reno's window would be (section 4.3).
    reno: u64,
}

impl Curve {
    /// From that window on; `most` was that of the last congestion.
    pub(super) fn new(frame: u64, window: u64, most: u64) -> Curve {
        let most = most.max(window);
        // In frames a second cubed: C = 0.4.
        let cube = u128::from(most - window) * 10_000_000_000 / u128::from(4 * frame);
        Curve { frame, most, flat_at: cube_root(cube), reno: window }
    }

    /// The time at which the window is what it was at the last congestion.
    pub(super) fn is_past(&self, millis: u64) -> bool {
        millis > self.flat_at
    }

    /// The window after so long.
    fn at(&self, millis: u64) -> u64 {
        let from_flat = i128::from(millis.min(LONGEST)) - i128::from(self.flat_at);
        let cubed = from_flat * from_flat * from_flat;
        let bytes = cubed * 4 * i128::from(self.frame) / 10_000_000_000 + i128::from(self.most);
        u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
    }

    /// What becomes of a window when `acked` bytes of it have arrived: `millis` after the beginning, and a round trip later.
    pub(super) fn grown(&mut self, window: u64, acked: u64, millis: u64, round_trip: u64) -> u64 {
        // Reno's grows by 3 (1 - Beta) / (1 + Beta) frames each round trip, and by one where it is past the last congestion.
        let slope = if self.reno < self.most { 136 } else { 256 };
        self.reno += part(self.frame * slope / 256, acked, window);
        let target = self.at(millis + round_trip).clamp(window, window + window / 2);
        (window + part(target - window, acked, window)).max(self.reno)
    }
}

/// As much of a growth as `acked` is of a window.
fn part(growth: u64, acked: u64, window: u64) -> u64 {
    proportion(growth, acked.min(window), window.max(1))
}

/// The largest number whose cube is no more than that.
fn cube_root(cube: u128) -> u64 {
    let mut root = 0u64;
    for bit in (0..42).rev() {
        let more = root | 1 << bit;
        if u128::from(more).pow(3) <= cube {
            root = more;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: u64 = 1500;

    proptest! {
        #[test]
        fn cube_root_is_the_largest_whose_cube_is_no_more(cube in 0..u128::pow(1 << 41, 3)) {
            let root = u128::from(cube_root(cube));
            prop_assert!(root.pow(3) <= cube && (root + 1).pow(3) > cube);
        }

        #[test]
        fn curve_is_at_the_last_congestion_when_it_is_flat(most in 10 * FRAME..1 << 40) {
            let curve = Curve::new(FRAME, reduced(most), most);
            prop_assert_eq!(curve.at(curve.flat_at), most);
            let begin = curve.at(0);
            // A root is right to a millisecond, and the curve is steepest at its beginning.
            let off = most / 1000 + FRAME * 64 + most / 64;
            prop_assert!(begin.abs_diff(reduced(most)) < off, "{} for {}", begin, reduced(most));
        }

        #[test]
        fn window_never_shrinks_as_it_grows(
            window in FRAME..1 << 40, most in FRAME..1 << 40, steps in proptest::collection::vec((0u64..1 << 40, 0u64..10_000), 1..40),
        ) {
            let mut curve = Curve::new(FRAME, window, most);
            let (mut window, mut millis) = (window, 0);
            for (acked, later) in steps {
                millis += later;
                let grown = curve.grown(window, acked, millis, 10);
                prop_assert!(grown >= window);
                prop_assert!(grown <= (window + window / 2).max(curve.reno));
                window = grown;
            }
        }
    }
}
