//! What every exported function has around it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use via::ReturnCode;

/// What a function of C comes to: nothing, or a code that is not `VIP_SUCCESS`.
pub(crate) type Outcome = Result<(), ReturnCode>;

/// Runs the body of an exported function. A panic, which would be an error of ours, must not
/// unwind into C: it becomes `VIP_ERROR`.
#[inline]
pub(crate) fn enter(body: impl FnOnce() -> Outcome) -> ReturnCode {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ReturnCode::Success,
        Ok(Err(code)) => code,
        Err(_) => ReturnCode::Error,
    }
}

/// Code that C calls outside of a function that returns a code: a callback's.
pub(crate) fn guarded(body: impl FnOnce()) {
    // A panic has been reported on standard error; there is no caller to return it to.
    let _ = catch_unwind(AssertUnwindSafe(body));
}

/// `VIP_INFINITE`.
const INFINITE: u64 = 0xffff_ffff;

/// A timeout in milliseconds as the traits have it. Programs spell forever as `VIP_INFINITE` or,
/// where `VIP_ULONG` has 64 bits, as `(VIP_ULONG)-1`.
#[inline]
pub(crate) fn timeout(ms: u64) -> Option<Duration> {
    (ms < INFINITE).then(|| Duration::from_millis(ms))
}

/// One line on standard error; a program without one misses it.
pub(crate) fn complain(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "libvipl: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(enter(|| panic!("of a test")), ReturnCode::Error);
        assert_eq!(enter(|| Err(ReturnCode::Timeout)), ReturnCode::Timeout);
        assert_eq!(enter(|| Ok(())), ReturnCode::Success);
    }

    #[test]
    fn forever_has_two_spellings() {
        assert_eq!([timeout(INFINITE), timeout(u64::MAX)], [None, None]);
        assert_eq!(timeout(0), Some(Duration::ZERO));
        assert_eq!(timeout(INFINITE - 1), Some(Duration::from_millis(0xffff_fffe)));
    }
}
