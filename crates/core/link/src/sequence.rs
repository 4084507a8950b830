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

    #[test]
    fn the_lower_half_wraps() {
        assert_eq!(expand(2, u64::from(u32::MAX) - 1), Some((1 << 32) + 2));
        assert_eq!(expand(u32::MAX, 1 << 32), Some(u64::from(u32::MAX)));
        assert_eq!(expand(u32::MAX, 3), None);
    }
}
