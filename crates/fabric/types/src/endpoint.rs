//! `rdma/fi_endpoint.h`: endpoints, and messages without a tag.

use crate::atomic::OpsAtomic;
use crate::cm::OpsCm;
use crate::fabric::{Fid, Missing};
use crate::rma::OpsRma;
use crate::tagged::OpsTagged;
use core::ffi::{c_int, c_void};
use sovia_sys::other_memory::Piece;

#[derive(Debug)]
#[repr(C)]
pub struct FidEp {
    pub fid: Fid,
    pub ops: *const OpsEp,
    pub cm: *const OpsCm,
    pub msg: *const OpsMsg,
    pub rma: *const OpsRma,
    pub tagged: *const OpsTagged,
    pub atomic: *const OpsAtomic,
    pub collective: *const c_void,
}

#[derive(Debug)]
#[repr(C)]
pub struct OpsEp {
    pub size: usize,
    pub cancel: unsafe extern "C" fn(*mut Fid, *mut c_void) -> isize,
    pub getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub tx_ctx: Missing,
    pub rx_ctx: Missing,
    pub rx_size_left: Missing,
    pub tx_size_left: Missing,
}

#[derive(Debug)]
#[repr(C)]
pub struct Msg {
    pub msg_iov: *const Piece,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub context: *mut c_void,
    pub data: u64,
}

pub(crate) type Desc = *mut c_void;
pub(crate) type Descs = *mut *mut c_void;
pub(crate) type Context = *mut c_void;

#[derive(Debug)]
#[repr(C)]
pub struct OpsMsg {
    pub size: usize,
    pub recv: unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, Desc, u64, Context) -> isize,
    pub recvv: unsafe extern "C" fn(*mut FidEp, *const Piece, Descs, usize, u64, Context) -> isize,
    pub recvmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
    pub send: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, Desc, u64, Context) -> isize,
    pub sendv: unsafe extern "C" fn(*mut FidEp, *const Piece, Descs, usize, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
    pub inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64) -> isize,
    pub senddata:
        unsafe extern "C" fn(*mut FidEp, *const c_void, usize, Desc, u64, u64, Context) -> isize,
    pub injectdata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64) -> isize,
}
