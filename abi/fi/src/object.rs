//! What all objects have in common.

use crate::types::{Fid, FidDomain, Ops, missing};
use core::ffi::{c_int, c_void};
use sovia_fi::{Domain, Error};
use std::sync::Arc;

/// A domain as the program has it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Dom {
    /// Its functions.
    pub(crate) fid: FidDomain,
    /// What is in it. Objects of it have it, too: it cannot be closed before them.
    pub(crate) inner: Arc<Domain>,
    /// Whether peers name memory by its addresses here.
    pub(crate) virtual_addresses: bool,
    /// Whether keys are chosen by the provider.
    pub(crate) own_keys: bool,
}

/// A result as C has it.
#[inline]
pub(crate) fn code(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Error(number)) => -number,
    }
}

/// Likewise, of a data transfer call.
#[inline]
pub(crate) fn long_code(result: Result<(), Error>) -> isize {
    code(result) as isize
}

/// The object that a pointer to its `fid` is a pointer to.
///
/// # Safety
/// The pointer is to the `fid` at the beginning of a live `T`.
#[inline]
pub(crate) unsafe fn of<'a, T>(fid: *const impl Sized) -> &'a T {
    // SAFETY: the caller's contract.
    unsafe { &*fid.cast::<T>() }
}

/// Hands an object to the program.
///
/// # Safety
/// `to` can be written to; `T` begins with a `U`.
pub(crate) unsafe fn hand_out<T, U>(object: T, to: *mut *mut U) -> *mut T {
    let object = Box::into_raw(Box::new(object));
    // SAFETY: the caller's contract.
    unsafe { *to = object.cast() };
    object
}

/// Takes an object back.
///
/// # Safety
/// It was handed out as a `T` and has not been taken back.
pub(crate) unsafe fn take_back<T>(fid: *mut Fid) -> Box<T> {
    // SAFETY: the caller's contract.
    unsafe { Box::from_raw(fid.cast::<T>()) }
}

pub(crate) unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    code(Err(Error::NO_SYSTEM))
}

pub(crate) unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    code(Err(Error::NO_SYSTEM))
}

/// The functions of an object that can be closed, and no more.
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

/// Says an error's number in words.
///
/// # Safety
/// `to` is null or has room for `len` bytes.
pub(crate) unsafe fn strerror(number: c_int, to: *mut i8, len: usize) -> *const i8 {
    // SAFETY: takes a number; the text is libc's.
    let text = unsafe { libc::strerror(number) };
    if to.is_null() || len == 0 {
        return text;
    }
    // SAFETY: the caller's contract; the text ends with a zero.
    unsafe {
        libc::strncpy(to, text, len);
        *to.add(len - 1) = 0;
    }
    to
}
