//! What every exported function has around it.

use core::ffi::c_int;

/// Runs the body of an exported function and returns 0, or what errno would be. A panic is a defect of this library: it ends the
/// program.
pub(crate) fn enter(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    body().err().unwrap_or(0)
}
