//! Sequence numbers: 64 bits in memory, with the lower 32 bits in frames.

/// Returns the number nearest to `near` whose lower half is `low`: at most 2^31 - 1 ahead, and at most 2^31 behind.
/// Returns `None` if the number would be negative.
pub(crate) fn expand(low: u32, near: u64) -> Option<u64> {
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(ahead.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nearby_numbers_survive_their_upper_half(near in 0u64..1 << 40, ahead in -1000i64..1000) {
            let number = near.checked_add_signed(ahead);
            let low = (near as u32).wrapping_add_signed(ahead as i32);
            prop_assert_eq!(expand(low, near), number);
        }
    }

    /// Numbers near a wrap of the lower half, and at the limits of the range.
    #[test]
    fn every_number_near_a_wrap_is_found_again() {
        let far = [-(1i64 << 31) + 1, -(1 << 31) + 2, (1 << 31) - 1, 1 << 31];
        for lap in 0..3u64 {
            for near in (lap << 32).saturating_sub(150)..(lap << 32) + 150 {
                for ahead in (-150..150).chain(far) {
                    let number = near.checked_add_signed(ahead);
                    let low = (near as u32).wrapping_add(ahead as u32);
                    // A distance of exactly 2^31 counts as behind, because its 32-bit difference is negative.
                    let told = if ahead == 1 << 31 { near.checked_sub(1 << 31) } else { number };
                    assert_eq!(expand(low, near), told, "{near} {ahead}");
                }
            }
        }
    }

    #[test]
    fn the_lower_half_wraps() {
        assert_eq!(expand(2, u64::from(u32::MAX) - 1), Some((1 << 32) + 2));
        assert_eq!(expand(u32::MAX, 1 << 32), Some(u64::from(u32::MAX)));
        assert_eq!(expand(u32::MAX, 3), None);
    }
}
