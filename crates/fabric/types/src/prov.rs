//! `rdma/providers/fi_prov.h`: the structure that a provider returns to libfabric.

use crate::fabric::{FabricAttr, FidFabric, Info};
use core::ffi::{c_char, c_int, c_void};

#[derive(Debug)]
#[repr(C)]
pub struct Provider {
    pub version: u32,
    pub fi_version: u32,
    pub context: [*mut c_void; 4],
    pub name: *const c_char,
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const Info,
        *mut *mut Info,
    ) -> c_int,
    pub fabric: unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int,
    pub cleanup: unsafe extern "C" fn(),
}
