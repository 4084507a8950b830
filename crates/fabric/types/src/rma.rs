//! `rdma/fi_rma.h`: reads and writes of remote memory.

use crate::endpoint::{Context, Desc, Descs, FidEp};
use core::ffi::c_void;
use sovia_sys::other_memory::Piece;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RmaIov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RmaIoc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

#[derive(Debug)]
#[repr(C)]
pub struct MsgRma {
    pub msg_iov: *const Piece,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

type ReadOrWrite =
    unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, Desc, u64, u64, u64, Context) -> isize;
type ReadvOrWritev =
    unsafe extern "C" fn(*mut FidEp, *const Piece, Descs, usize, u64, u64, u64, Context) -> isize;

#[derive(Debug)]
#[repr(C)]
pub struct OpsRma {
    pub size: usize,
    pub read: ReadOrWrite,
    pub readv: ReadvOrWritev,
    pub readmsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
    pub write: ReadOrWrite,
    pub writev: ReadvOrWritev,
    pub writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
    pub inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64) -> isize,
    pub writedata: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        Desc,
        u64,
        u64,
        u64,
        u64,
        Context,
    ) -> isize,
    pub injectdata:
        unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64, u64) -> isize,
}
