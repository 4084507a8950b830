//! The wrapper of every exported function.

use core::ffi::c_int;

/// Runs the body of an exported function. Returns 0 or an errno value. A panic is a defect of this library and ends the
/// program.
pub(crate) fn enter(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    body().err().unwrap_or(0)
}
