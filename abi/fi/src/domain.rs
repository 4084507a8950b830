//! Domains.

use crate::av::av_open;
use crate::cntr::cntr_open;
use crate::cq::cq_open;
use crate::endpoint::endpoint;
use crate::info::value::{
    MR_BASIC, MR_PROV_KEY, MR_VIRT_ADDR, PROGRESS_CONTROL_UNIFIED, THREAD_DOMAIN,
};
use crate::object::{Dom, code, hand_out, of, ops, take_back};
use crate::types::{
    AtomicAttr, Fid, FidDomain, FidFabric, Info, Ops, OpsDomain, OpsMr, class, missing,
};
use core::ffi::{c_int, c_void};
use sovia_fi::{Domain, Error};
use std::sync::Arc;

static OPS: Ops = Ops { bind, ..ops(close) };
static DOMAIN: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open,
    cq_open,
    endpoint,
    scalable_ep: missing,
    cntr_open,
    poll_open: missing,
    stx_ctx: missing,
    srx_ctx: missing,
    query_atomic,
    query_collective: missing,
    endpoint2: missing,
};
static MR: OpsMr = OpsMr {
    size: size_of::<OpsMr>(),
    reg: crate::mr::reg,
    regv: crate::mr::regv,
    regattr: crate::mr::regattr,
};

/// First version in which a program declares how its threads serialize control calls (`control_progress`).
const UNIFIED_ASKED: u32 = 2 << 16;

/// `fi_domain`.
pub unsafe extern "C" fn domain(
    fabric: *mut FidFabric,
    info: *mut Info,
    domain: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let Some(attr) = info.as_ref().and_then(|info| info.domain_attr.as_ref()) else {
            return code(Err(Error::INVALID));
        };
        // Since 2.0, `FI_THREAD_DOMAIN` covers only data transfer calls.
        let unified = (*fabric).api_version < UNIFIED_ASKED
            || attr.control_progress == PROGRESS_CONTROL_UNIFIED;
        let exclusive = attr.threading == THREAD_DOMAIN && unified;
        // SAFETY: with this threading model the program promises that its threads never use the domain at the same
        // time.
        let inner = if exclusive { Domain::exclusive() } else { Domain::shared() };
        let has = |mode| attr.mr_mode & mode != 0;
        let fid = Fid { class: class::DOMAIN, context, ops: &OPS };
        let object = Dom {
            fid: FidDomain { fid, ops: &DOMAIN, mr: &MR },
            inner: Arc::new(inner),
            virtual_addresses: has(MR_BASIC) || has(MR_VIRT_ADDR),
            own_keys: has(MR_BASIC) || has(MR_PROV_KEY),
        };
        hand_out(object, domain);
    }
    0
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    if Arc::strong_count(&unsafe { of::<Dom>(fid) }.inner) > 1 {
        return code(Err(Error::BUSY));
    }
    // SAFETY: C's caller passes an open domain, and does not use the domain after this call.
    drop(unsafe { take_back::<Dom>(fid) });
    0
}

/// Accepts an event queue. No event follows, because a registration ends before its call returns.
unsafe extern "C" fn bind(_: *mut Fid, queue: *mut Fid, _: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    match unsafe { (*queue).class } {
        class::EQ => 0,
        _ => code(Err(Error::INVALID)),
    }
}

unsafe extern "C" fn query_atomic(
    _: *mut FidDomain,
    datatype: c_int,
    op: c_int,
    attr: *mut AtomicAttr,
    flags: u64,
) -> c_int {
    const FETCH: u64 = 1 << 58;
    const COMPARE: u64 = 1 << 59;
    let compares = flags & COMPARE != 0;
    let fetches = compares || flags & FETCH != 0;
    match crate::atomic::code_of(datatype, op, fetches, compares) {
        Ok(code) => {
            let (count, size) = crate::atomic::limit(code);
            // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
            unsafe { *attr = AtomicAttr { count, size } };
            0
        }
        Err(error) => code(Err(error)),
    }
}
