//! The fabric, from which programs open domains and event queues.

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
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
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
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    drop(unsafe { take_back::<FidFabric>(fid) });
    0
}

/// Returns 0 if a thread may sleep on the objects' descriptors: no completion queue has an entry to read.
unsafe extern "C" fn trywait(_: *mut FidFabric, fids: *mut *mut Fid, count: c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    for i in 0..count {
        // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
        let fid = unsafe { *fids.add(i) };
        // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
        if unsafe { (*fid).class } == class::CQ && !unsafe { crate::cq::may_sleep(fid) } {
            return code(Err(Error::AGAIN));
        }
    }
    0
}
