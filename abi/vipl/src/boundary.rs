//! What every exported function has around it.

use std::time::Duration;

use via::ReturnCode;

/// What a function of C comes to: nothing, or a code that is not `VIP_SUCCESS`.
pub(crate) type Outcome = Result<(), ReturnCode>;

/// Runs the body of an exported function and returns its code. A panic is a defect of this library: it ends the program.
#[inline]
pub(crate) fn enter(body: impl FnOnce() -> Outcome) -> ReturnCode {
    match body() {
        Ok(()) => ReturnCode::Success,
        Err(code) => code,
    }
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
    fn forever_has_two_spellings() {
        assert_eq!([timeout(INFINITE), timeout(u64::MAX)], [None, None]);
        assert_eq!(timeout(0), Some(Duration::ZERO));
        assert_eq!(timeout(INFINITE - 1), Some(Duration::from_millis(0xffff_fffe)));
    }
}
