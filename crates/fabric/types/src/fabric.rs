//! `rdma/fabric.h`: the header of objects, the attributes of a provider, and the fabric.

use crate::domain::FidDomain;
use crate::eq::{EqAttr, FidEq};
use core::ffi::{c_char, c_int, c_void};

/// Type of a function that this provider does not have.
pub type Missing = unsafe extern "C" fn() -> isize;

/// Returns `-FI_ENOSYS`, which means that the function does not exist.
///
/// # Safety
/// May be called as any function with a numeric result, because it reads no argument.
pub unsafe extern "C" fn missing() -> isize {
    -(libc::ENOSYS as isize)
}

#[derive(Debug)]
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *const Ops,
}

#[derive(Debug)]
#[repr(C)]
pub struct Ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub ops_open: Missing,
    pub tostr: Missing,
    pub ops_set: Missing,
}

#[derive(Debug)]
#[repr(C)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[derive(Debug)]
#[repr(C)]
pub struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[derive(Debug)]
#[repr(C)]
pub struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[derive(Debug)]
#[repr(C)]
pub struct DomainAttr {
    pub domain: *mut FidDomain,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

#[derive(Debug)]
#[repr(C)]
pub struct FabricAttr {
    pub fabric: *mut FidFabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[derive(Debug)]
#[repr(C)]
pub struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

#[derive(Debug)]
#[repr(C)]
pub struct FidFabric {
    pub fid: Fid,
    pub ops: *const OpsFabric,
    pub api_version: u32,
}

#[derive(Debug)]
#[repr(C)]
pub struct OpsFabric {
    pub size: usize,
    pub domain:
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
    pub passive_ep: Missing,
    pub eq_open:
        unsafe extern "C" fn(*mut FidFabric, *mut EqAttr, *mut *mut FidEq, *mut c_void) -> c_int,
    pub wait_open: Missing,
    pub trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
    pub domain2: Missing,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

/// `FI_CLASS_…`.
pub mod class {
    pub const FABRIC: usize = 1;
    pub const DOMAIN: usize = 2;
    pub const EP: usize = 3;
    pub const AV: usize = 11;
    pub const MR: usize = 12;
    pub const EQ: usize = 13;
    pub const CQ: usize = 14;
    pub const CNTR: usize = 15;
}
