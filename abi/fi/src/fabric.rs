//! The fabric: what domains and event queues are opened from.

use crate::domain::domain;
use crate::eq::eq_open;
use crate::object::{code, hand_out, ops, take_back};
use crate::types::{FabricAttr, Fid, FidFabric, Ops, OpsFabric, class, missing};
use core::ffi::{CStr, c_int, c_void};
use sovia_fi::Error;

static OPS: Ops = ops(close);
static FABRIC: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain,
    passive_ep: missing,
    eq_open,
    wait_open: missing,
    trywait,
    domain2: missing,
};

/// `fi_fabric`.
pub unsafe extern "C" fn fabric(
    attr: *mut FabricAttr,
    fabric: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the contract of C's callers.
    unsafe {
        let name = (*attr).name;
        if !name.is_null() && CStr::from_ptr(name) != c"sovia" {
            return code(Err(Error::NO_DATA));
        }
        let fid = Fid { class: class::FABRIC, context, ops: &OPS };
        let api_version = (*attr).api_version;
        hand_out(FidFabric { fid, ops: &FABRIC, api_version }, fabric);
    }
    0
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: the contract of C's callers.
    drop(unsafe { take_back::<FidFabric>(fid) });
    0
}

/// Whether a thread may sleep on what it has got of each object: not while there is something to read.
unsafe extern "C" fn trywait(_: *mut FidFabric, fids: *mut *mut Fid, count: c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    for i in 0..count {
        // SAFETY: the contract of C's callers.
        let fid = unsafe { *fids.add(i) };
        // SAFETY: as above.
        if unsafe { (*fid).class } == class::CQ && !unsafe { crate::cq::may_sleep(fid) } {
            return code(Err(Error::AGAIN));
        }
    }
    0
}
