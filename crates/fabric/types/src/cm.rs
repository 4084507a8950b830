//! `rdma/fi_cm.h`: the addresses of endpoints.

use crate::fabric::{Fid, Missing};
use core::ffi::{c_int, c_void};

#[derive(Debug)]
#[repr(C)]
pub struct OpsCm {
    pub size: usize,
    pub setname: Missing,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    pub getpeer: Missing,
    pub connect: Missing,
    pub listen: Missing,
    pub accept: Missing,
    pub reject: Missing,
    pub shutdown: Missing,
    pub join: Missing,
}
