use super::*;

#[test]
fn time_outs_in_milliseconds_are_without_end_if_negative() {
    for (timeout, wanted) in [
        (0, Some(0)),
        (1, Some(1_000_000)),
        (c_int::MAX, Some(2_147_483_647_000_000)),
        (-1, None),
        (c_int::MIN, None),
    ] {
        assert_eq!(ms(timeout), wanted, "{timeout}");
    }
}

#[test]
fn time_outs_in_seconds_and_nanoseconds_are_einval_if_out_of_range() {
    for (tv_sec, tv_nsec, wanted) in [
        (0, 0, Some(0)),
        (1, 5, Some(1_000_000_005)),
        (0, 999_999_999, Some(999_999_999)),
        (0, 1_000_000_000, None),
        (0, -1, None),
        (-1, 0, None),
        (i64::MIN, i64::MIN, None),
        (i64::MAX, 0, Some(u64::MAX)),
        (20_000_000_000, 999_999_999, Some(u64::MAX)),
    ] {
        let time = timespec { tv_sec, tv_nsec };
        assert_eq!(ns(&time), wanted, "{tv_sec}, {tv_nsec}");
        // SAFETY: the pointer is to a variable of this function.
        let found = unsafe { limit(&raw const time) };
        assert_eq!(found, wanted.map(Some).ok_or(libc::EINVAL), "{tv_sec}, {tv_nsec}");
    }
    // SAFETY: a null pointer is allowed, and nothing is mapped at the other address.
    unsafe {
        assert_eq!(limit(core::ptr::null()), Ok(None));
        assert_eq!(limit(16 as *const timespec), Err(libc::EFAULT));
    }
}
