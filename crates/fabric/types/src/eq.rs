//! `rdma/fi_eq.h`: event queues, completion queues, and counters.

use crate::fabric::Fid;
use core::ffi::{c_char, c_int, c_void};

#[derive(Debug)]
#[repr(C)]
pub struct EqAttr {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_set: *mut c_void,
}

#[derive(Debug)]
#[repr(C)]
pub struct FidEq {
    pub fid: Fid,
    pub ops: *const OpsEq,
}

#[derive(Debug)]
#[repr(C)]
pub struct OpsEq {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, u64) -> isize,
    pub readerr: unsafe extern "C" fn(*mut FidEq, *mut c_void, u64) -> isize,
    pub write: unsafe extern "C" fn(*mut FidEq, u32, *const c_void, usize, u64) -> isize,
    pub sread: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
    pub strerror:
        unsafe extern "C" fn(*mut FidEq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

#[derive(Debug)]
#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

/// `fi_cq_tagged_entry`. The shorter formats are prefixes of this structure.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CqEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

#[derive(Debug)]
#[repr(C)]
pub struct CqErrEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[derive(Debug)]
#[repr(C)]
pub struct FidCq {
    pub fid: Fid,
    pub ops: *const OpsCq,
}

#[derive(Debug)]
#[repr(C)]
pub struct OpsCq {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
    pub readfrom: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *mut u64) -> isize,
    pub readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
    pub sread: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *const c_void, c_int) -> isize,
    pub sreadfrom: unsafe extern "C" fn(
        *mut FidCq,
        *mut c_void,
        usize,
        *mut u64,
        *const c_void,
        c_int,
    ) -> isize,
    pub signal: unsafe extern "C" fn(*mut FidCq) -> c_int,
    pub strerror:
        unsafe extern "C" fn(*mut FidCq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

#[derive(Debug)]
#[repr(C)]
pub struct CntrAttr {
    pub events: c_int,
    pub wait_obj: c_int,
    pub wait_set: *mut c_void,
    pub flags: u64,
}

#[derive(Debug)]
#[repr(C)]
pub struct FidCntr {
    pub fid: Fid,
    pub ops: *const OpsCntr,
}

#[derive(Debug)]
#[repr(C)]
pub struct OpsCntr {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidCntr) -> u64,
    pub readerr: unsafe extern "C" fn(*mut FidCntr) -> u64,
    pub add: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub set: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub wait: unsafe extern "C" fn(*mut FidCntr, u64, c_int) -> c_int,
    pub adderr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub seterr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
}
