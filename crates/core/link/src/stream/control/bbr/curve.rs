//! CUBIC's curve (RFC 9438, section 4.2), in bytes, milliseconds and integers.

use crate::stream::control::proportion;

/// Part of a window that remains after congestion, in 256ths: 0.7 (`Beta`).
const BETA: u64 = 179;
/// Milliseconds after which the curve grows no more. This limit prevents an overflow.
const LONGEST: u64 = 1 << 24;

/// Returns the reduced window after congestion.
pub(super) fn reduced(window: u64) -> u64 {
    (window >> 8) * BETA + (((window & 255) * BETA) >> 8)
}

/// The window as a function of the time since growth began: after the last congestion, or once the sender had enough
/// data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Curve {
    frame: u64,
    /// `most` is the window at which the curve is flat, and `flat_at` the time in milliseconds when the curve is flat.
    most: u64,
    flat_at: u64,
    /// Window of Reno at this time (section 4.3).
    reno: u64,
}

impl Curve {
    /// Creates a curve that starts at `window`. `most` is the window at the last congestion.
    pub(super) fn new(frame: u64, window: u64, most: u64) -> Curve {
        let most = most.max(window);
        // The cube is in milliseconds cubed; C = 0.4 frames per second cubed.
        let cube = u128::from(most - window) * 10_000_000_000 / u128::from(4 * frame);
        Curve { frame, most, flat_at: cube_root(cube), reno: window }
    }

    /// Returns true once the curve has passed the window of the last congestion.
    pub(super) fn is_past(&self, millis: u64) -> bool {
        millis > self.flat_at
    }

    /// Returns the window after `millis` milliseconds.
    fn at(&self, millis: u64) -> u64 {
        let from_flat = i128::from(millis.min(LONGEST)) - i128::from(self.flat_at);
        let cubed = from_flat * from_flat * from_flat;
        let bytes = cubed * 4 * i128::from(self.frame) / 10_000_000_000 + i128::from(self.most);
        u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
    }

    /// Returns the grown window after `acked` bytes of it have arrived, `millis` after the beginning. The target is the
    /// curve one round trip later.
    pub(super) fn grown(&mut self, window: u64, acked: u64, millis: u64, round_trip: u64) -> u64 {
        // Reno's window grows by 3 (1 - Beta) / (1 + Beta) frames each round trip, and by one frame beyond the last
        // congestion.
        let slope = if self.reno < self.most { 136 } else { 256 };
        self.reno += part(self.frame * slope / 256, acked, window);
        let target = self.at(millis + round_trip).clamp(window, window + window / 2);
        (window + part(target - window, acked, window)).max(self.reno)
    }
}

/// Scales `growth` by `acked / window`.
fn part(growth: u64, acked: u64, window: u64) -> u64 {
    proportion(growth, acked.min(window), window.max(1))
}

/// Returns the largest number whose cube is at most `cube`.
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
        fn flat_point_of_the_curve_is_the_last_congestion(most in 10 * FRAME..1 << 40) {
            let curve = Curve::new(FRAME, reduced(most), most);
            prop_assert_eq!(curve.at(curve.flat_at), most);
            let begin = curve.at(0);
            // The root is exact to a millisecond, and the curve is steepest at its beginning.
            let off = most / 1000 + FRAME * 64 + most / 64;
            prop_assert!(begin.abs_diff(reduced(most)) < off, "{} for {}", begin, reduced(most));
        }

        #[test]
        fn growing_window_never_shrinks(
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
