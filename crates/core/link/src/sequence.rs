//! Sequence numbers: 64 bits inside, of which the lower 32 travel.

/// The number whose lower half is `low` and that lies nearest to `near`: at most 2^31 ahead of it, less than
/// that behind. `None` if it would lie before number 0.
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

    /// Where the lower half wraps, and at the ends of what can be told apart.
    #[test]
    fn every_number_near_a_wrap_is_found_again() {
        let far = [-(1i64 << 31) + 1, -(1 << 31) + 2, (1 << 31) - 1, 1 << 31];
        for lap in 0..3u64 {
            for near in (lap << 32).saturating_sub(150)..(lap << 32) + 150 {
                for ahead in (-150..150).chain(far) {
                    let number = near.checked_add_signed(ahead);
                    let low = (near as u32).wrapping_add(ahead as u32);
                    // At most 2^31 ahead, which as a difference of 32 bits is the same as behind.
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
