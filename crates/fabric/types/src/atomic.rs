//! `rdma/fi_atomic.h`: atomic operations on remote memory.

use crate::endpoint::{Context, Desc, Descs, FidEp};
use crate::fabric::Ioc;
use crate::rma::RmaIoc;
use core::ffi::{c_int, c_void};

#[derive(Debug)]
#[repr(C)]
pub struct MsgAtomic {
    pub msg_iov: *const Ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIoc,
    pub rma_iov_count: usize,
    pub datatype: c_int,
    pub op: c_int,
    pub context: *mut c_void,
    pub data: u64,
}

#[derive(Debug)]
#[repr(C)]
pub struct AtomicAttr {
    pub count: usize,
    pub size: usize,
}

type Valid = unsafe extern "C" fn(*mut FidEp, c_int, c_int, *mut usize) -> c_int;

#[derive(Debug)]
#[repr(C)]
pub struct OpsAtomic {
    pub size: usize,
    pub write: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        Desc,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Context,
    ) -> isize,
    pub writev: unsafe extern "C" fn(
        *mut FidEp,
        *const Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Context,
    ) -> isize,
    pub writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgAtomic, u64) -> isize,
    pub inject: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        c_int,
        c_int,
    ) -> isize,
    pub readwrite: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        Desc,
        *mut c_void,
        Desc,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Context,
    ) -> isize,
    pub readwritev: unsafe extern "C" fn(
        *mut FidEp,
        *const Ioc,
        Descs,
        usize,
        *mut Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Context,
    ) -> isize,
    pub readwritemsg:
        unsafe extern "C" fn(*mut FidEp, *const MsgAtomic, *mut Ioc, Descs, usize, u64) -> isize,
    pub compwrite: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        Desc,
        *const c_void,
        Desc,
        *mut c_void,
        Desc,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Context,
    ) -> isize,
    pub compwritev: unsafe extern "C" fn(
        *mut FidEp,
        *const Ioc,
        Descs,
        usize,
        *const Ioc,
        Descs,
        usize,
        *mut Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Context,
    ) -> isize,
    pub compwritemsg: unsafe extern "C" fn(
        *mut FidEp,
        *const MsgAtomic,
        *const Ioc,
        Descs,
        usize,
        *mut Ioc,
        Descs,
        usize,
        u64,
    ) -> isize,
    pub writevalid: Valid,
    pub readwritevalid: Valid,
    pub compwritevalid: Valid,
}
