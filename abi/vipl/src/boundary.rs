//! Code around every exported function.

use std::time::Duration;

use via::ReturnCode;

/// Result of a C function: success, or a code other than `VIP_SUCCESS`.
pub(crate) type Outcome = Result<(), ReturnCode>;

/// Runs the body of an exported function and returns its code. A panic is a defect of this library, and aborts the
/// program.
#[inline]
pub(crate) fn enter(body: impl FnOnce() -> Outcome) -> ReturnCode {
    match body() {
        Ok(()) => ReturnCode::Success,
        Err(code) => code,
    }
}

/// `VIP_INFINITE`.
const INFINITE: u64 = 0xffff_ffff;

/// Converts a timeout in milliseconds. Programs write infinity as `VIP_INFINITE` or, if `VIP_ULONG` has 64 bits, as
/// `(VIP_ULONG)-1`.
#[inline]
pub(crate) fn timeout(ms: u64) -> Option<Duration> {
    (ms < INFINITE).then(|| Duration::from_millis(ms))
}

/// Prints a line on standard error. Ignores a failure to print.
pub(crate) fn complain(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "libvipl: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forever_has_two_spellings() {
        assert_eq!([timeout(INFINITE), timeout(u64::MAX)], [None, None]);
        assert_eq!(timeout(0), Some(Duration::ZERO));
        assert_eq!(timeout(INFINITE - 1), Some(Duration::from_millis(0xffff_fffe)));
    }
}
