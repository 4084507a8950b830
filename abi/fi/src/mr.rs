//! Registered memory.

use crate::object::{Dom, code, hand_out, of, ops, take_back};
use crate::types::{Fid, FidMr, MrAttr, Ops, class};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_fi::memory::{Buffer, Piece};
use sovia_fi::region::Region;
use sovia_fi::{Domain, Error};
use std::sync::Arc;

static OPS: Ops = Ops { bind, control, ..ops(close) };

/// `FI_ENABLE` and `FI_REFRESH`.
const ENABLE: c_int = 6;
const REFRESH: c_int = 14;

/// A program's memory region.
#[derive(Debug)]
#[repr(C)]
struct Mr {
    fid: FidMr,
    inner: Arc<Domain>,
}

/// Registers memory; all functions that register end here.
///
/// # Safety
/// The pieces must stay valid memory until the program closes the region.
unsafe fn register(
    domain: *mut Fid,
    pieces: &[Piece],
    access: u64,
    offset: u64,
    requested_key: u64,
    mr: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    static KEYS: AtomicU64 = AtomicU64::new(1);
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let dom = unsafe { of::<Dom>(domain) };
    // SAFETY: this function's contract is that the pieces stay valid memory until the program closes the region.
    let memory = match unsafe { Buffer::new(pieces) } {
        Ok(memory) => memory,
        Err(error) => return code(Err(error)),
    };
    let base = if dom.virtual_addresses { memory.address() as u64 } else { offset };
    let key = if dom.own_keys { KEYS.fetch_add(1, Ordering::Relaxed) } else { requested_key };
    let region = Region { memory, access, base, counter: None };
    if let Err(_taken) = dom.inner.enter().common.regions.insert(key, region) {
        // `FI_ENOKEY`.
        return -266;
    }
    let fid = Fid { class: class::MR, context, ops: &OPS };
    let object = Mr {
        fid: FidMr { fid, mem_desc: core::ptr::null_mut(), key },
        inner: Arc::clone(&dom.inner),
    };
    // SAFETY: C's caller passes a writable `mr`, and `made` is the new object. Local memory needs no descriptor, so any
    // pointer serves as one.
    unsafe {
        let made = hand_out(object, mr);
        (*made).fid.mem_desc = made.cast();
    }
    0
}

/// `fi_mr_reg`.
pub unsafe extern "C" fn reg(
    domain: *mut Fid,
    buffer: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    _: u64,
    mr: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    let piece = Piece { address: buffer.addr(), len };
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { register(domain, &[piece], access, offset, key, mr, context) }
}

/// `fi_mr_regv`.
pub unsafe extern "C" fn regv(
    domain: *mut Fid,
    pieces: *const Piece,
    count: usize,
    access: u64,
    offset: u64,
    key: u64,
    _: u64,
    mr: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let pieces = core::slice::from_raw_parts(pieces, count);
        register(domain, pieces, access, offset, key, mr, context)
    }
}

/// `fi_mr_regattr`.
pub unsafe extern "C" fn regattr(
    domain: *mut Fid,
    attr: *const MrAttr,
    _: u64,
    mr: *mut *mut FidMr,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let attr = &*attr;
        // Registers only host memory: this provider cannot access memory of other devices.
        if attr.iface != 0 {
            return code(Err(Error::NO_SYSTEM));
        }
        let pieces = core::slice::from_raw_parts(attr.mr_iov, attr.iov_count);
        let (offset, key) = (attr.offset, attr.requested_key);
        register(domain, pieces, attr.access, offset, key, mr, attr.context)
    }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let mr = unsafe { take_back::<Mr>(fid) };
    mr.inner.enter().remove_region(mr.fid.key);
    0
}

/// Binds a counter, which counts peers' writes. Accepts an endpoint without effect.
unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, _: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let (mr, kind) = unsafe { (of::<Mr>(fid), (*other).class) };
    match kind {
        class::CNTR => {
            // SAFETY: the class says that `other` is a counter, and C's caller passes an open object.
            let counter = unsafe { of::<crate::cntr::Cntr>(other) }.at;
            code(mr.inner.enter().bind_region(mr.fid.key, counter))
        }
        class::EP => 0,
        _ => code(Err(Error::INVALID)),
    }
}

unsafe extern "C" fn control(_: *mut Fid, command: c_int, _: *mut c_void) -> c_int {
    match command {
        ENABLE | REFRESH => 0,
        _ => code(Err(Error::NO_SYSTEM)),
    }
}
