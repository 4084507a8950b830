//! Functions that all objects share.

use crate::types::{Fid, FidDomain, Ops, missing};
use core::ffi::{c_int, c_void};
use sovia_fi::{Domain, Error};
use std::sync::Arc;

/// A program's domain.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Dom {
    /// The function tables of the domain.
    pub(crate) fid: FidDomain,
    /// The domain's contents. The objects of the domain hold references, so the program cannot close the domain before
    /// them.
    pub(crate) inner: Arc<Domain>,
    /// Set if peers use this process's virtual addresses for registered memory.
    pub(crate) virtual_addresses: bool,
    /// Set if the provider chooses the keys.
    pub(crate) own_keys: bool,
}

/// Converts a result into a return value for C.
#[inline]
pub(crate) fn code(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Error(number)) => -number,
    }
}

/// Like [`code`], for data transfer calls.
#[inline]
pub(crate) fn long_code(result: Result<(), Error>) -> isize {
    code(result) as isize
}

/// Converts a pointer to an object's `fid` into a reference to the object.
///
/// # Safety
/// The pointer must point to the `fid` at the beginning of a live `T`.
#[inline]
pub(crate) unsafe fn of<'a, T>(fid: *const impl Sized) -> &'a T {
    // SAFETY: this function's contract is that a live `T` begins at the pointer.
    unsafe { &*fid.cast::<T>() }
}

/// Moves an object to the heap, and passes its pointer to the program.
///
/// # Safety
/// `to` must be writable. `T` must begin with a `U`.
pub(crate) unsafe fn hand_out<T, U>(object: T, to: *mut *mut U) -> *mut T {
    let object = Box::into_raw(Box::new(object));
    // SAFETY: this function's contract is that `to` is writable.
    unsafe { *to = object.cast() };
    object
}

/// Takes an object back from the program.
///
/// # Safety
/// `fid` must come from [`hand_out`] with the same `T`, and must not have been taken back before.
pub(crate) unsafe fn take_back<T>(fid: *mut Fid) -> Box<T> {
    // SAFETY: `hand_out` made the pointer from a box of a `T`, and no call has taken the object back before.
    unsafe { Box::from_raw(fid.cast::<T>()) }
}

pub(crate) unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    code(Err(Error::NO_SYSTEM))
}

pub(crate) unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    code(Err(Error::NO_SYSTEM))
}

/// Returns a function table for an object that supports only `close`.
pub(crate) const fn ops(close: unsafe extern "C" fn(*mut Fid) -> c_int) -> Ops {
    Ops {
        size: size_of::<Ops>(),
        close,
        bind: no_bind,
        control: no_control,
        ops_open: missing,
        tostr: missing,
        ops_set: missing,
    }
}

/// Returns the text of an error number.
///
/// # Safety
/// `to` must be null or have room for `len` bytes.
pub(crate) unsafe fn strerror(number: c_int, to: *mut i8, len: usize) -> *const i8 {
    // SAFETY: `strerror` accepts any number. libc owns the returned text.
    let text = unsafe { libc::strerror(number) };
    if to.is_null() || len == 0 {
        return text;
    }
    // SAFETY: `to` has room for `len` bytes, and `text` ends with a zero byte.
    unsafe {
        libc::strncpy(to, text, len);
        *to.add(len - 1) = 0;
    }
    to
}
