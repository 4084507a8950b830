//! What every exported function has around it.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function: 0, or what errno would be. A panic, which would be an error of ours, must not
/// unwind into C: it becomes `EIO`.
pub(crate) fn enter(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(errno)) => errno,
        Err(_) => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(enter(|| panic!("of a test")), libc::EIO);
        assert_eq!(enter(|| Err(libc::EAGAIN)), libc::EAGAIN);
        assert_eq!(enter(|| Ok(())), 0);
    }
}
