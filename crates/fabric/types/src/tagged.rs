//! `rdma/fi_tagged.h`: messages with a tag.

use crate::endpoint::{Context, Desc, Descs, FidEp};
use core::ffi::c_void;
use sovia_sys::other_memory::Piece;

#[derive(Debug)]
#[repr(C)]
pub struct MsgTagged {
    pub msg_iov: *const Piece,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

#[derive(Debug)]
#[repr(C)]
pub struct OpsTagged {
    pub size: usize,
    pub recv:
        unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, Desc, u64, u64, u64, Context) -> isize,
    pub recvv: unsafe extern "C" fn(
        *mut FidEp,
        *const Piece,
        Descs,
        usize,
        u64,
        u64,
        u64,
        Context,
    ) -> isize,
    pub recvmsg: unsafe extern "C" fn(*mut FidEp, *const MsgTagged, u64) -> isize,
    pub send:
        unsafe extern "C" fn(*mut FidEp, *const c_void, usize, Desc, u64, u64, Context) -> isize,
    pub sendv:
        unsafe extern "C" fn(*mut FidEp, *const Piece, Descs, usize, u64, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(*mut FidEp, *const MsgTagged, u64) -> isize,
    pub inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64) -> isize,
    pub senddata: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        Desc,
        u64,
        u64,
        u64,
        Context,
    ) -> isize,
    pub injectdata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64) -> isize,
}
