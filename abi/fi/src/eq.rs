//! Event queues. No call of this provider ends later than it returns, so the queues hold only events that the program
//! writes.

use crate::object::{hand_out, long_code, of, ops, strerror, take_back};
use crate::types::{EqAttr, Fid, FidEq, FidFabric, Ops, OpsEq, class};
use core::ffi::{c_char, c_int, c_void};
use sovia_fi::Error;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

static OPS: Ops = ops(close);
static EQ: OpsEq = OpsEq { size: size_of::<OpsEq>(), read, readerr, write, sread, strerror: text };

/// `FI_PEEK`.
const PEEK: u64 = sovia_fi::flag::PEEK;

/// A program's event queue.
#[derive(Debug)]
#[repr(C)]
struct Eq {
    fid: FidEq,
    events: Mutex<VecDeque<(u32, Vec<u8>)>>,
}

/// `fi_eq_open`.
pub unsafe extern "C" fn eq_open(
    _: *mut FidFabric,
    _: *mut EqAttr,
    eq: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    let fid = Fid { class: class::EQ, context, ops: &OPS };
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { hand_out(Eq { fid: FidEq { fid, ops: &EQ }, events: Mutex::default() }, eq) };
    0
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    drop(unsafe { take_back::<Eq>(fid) });
    0
}

unsafe extern "C" fn read(
    eq: *mut FidEq,
    event: *mut u32,
    to: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The buffer has `len` bytes.
    unsafe {
        let mut events = of::<Eq>(eq).events.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((kind, bytes)) = events.front() else { return long_code(Err(Error::AGAIN)) };
        if bytes.len() > len {
            return long_code(Err(Error::TOO_SMALL));
        }
        *event = *kind;
        to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        let n = bytes.len() as isize;
        if flags & PEEK == 0 {
            events.pop_front();
        }
        n
    }
}

unsafe extern "C" fn readerr(_: *mut FidEq, _: *mut c_void, _: u64) -> isize {
    long_code(Err(Error::AGAIN))
}

unsafe extern "C" fn write(
    eq: *mut FidEq,
    event: u32,
    from: *const c_void,
    len: usize,
    _: u64,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The buffer has `len` bytes.
    unsafe {
        let bytes = core::slice::from_raw_parts(from.cast::<u8>(), len).to_vec();
        let mut events = of::<Eq>(eq).events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push_back((event, bytes));
    }
    len as isize
}

unsafe extern "C" fn sread(
    eq: *mut FidEq,
    event: *mut u32,
    to: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let mut wait = crate::wait::Wait::new(timeout);
    loop {
        // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
        let result = unsafe { read(eq, event, to, len, flags) };
        if result != -(libc::EAGAIN as isize) || !wait.go_on() {
            return result;
        }
    }
}

unsafe extern "C" fn text(
    _: *mut FidEq,
    number: c_int,
    _: *const c_void,
    to: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { strerror(number, to, len) }
}
