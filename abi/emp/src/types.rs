//! The structures, with the layout of C.

use core::ffi::{c_char, c_int, c_uint};

/// `EMP_ANY_SOURCE`.
pub const ANY_SOURCE: u16 = u16::MAX;
/// `EMP_ANY_TAG`.
pub const ANY_TAG: i64 = -1;
/// `EMP_NIC_THREAD`: the NIC's thread does all work of the NIC.
pub const NIC_THREAD: c_uint = 1;
/// `EMP_LOCK_MEMORY`: locks all memory of the process, as in the paper.
pub const LOCK_MEMORY: c_uint = 2;

/// `struct emp_config`.
#[repr(C)]
#[derive(Debug)]
pub struct Config {
    /// The address of the station, as text.
    pub place: *const c_char,
    /// The addresses of the nodes, as text.
    pub nodes: *const *const c_char,
    /// Number of nodes.
    pub count: c_uint,
    /// The key that all stations of the table share.
    pub key: u64,
    /// A combination of [`NIC_THREAD`] and [`LOCK_MEMORY`].
    pub flags: c_uint,
    /// The processor of the NIC's thread; any processor if negative.
    pub processor: c_int,
    /// Number of frames per acknowledgement; 0 means the paper's 3.
    pub collection: c_uint,
    /// Microseconds that a waiting thread polls before it sleeps; 0 means 50.
    pub spin: c_uint,
}

/// `struct emp_status`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Status {
    /// 0, or an errno value.
    pub error: c_int,
    /// The receiver of a sent message, or the sender of a received message.
    pub node: u16,
    /// The tag of the message.
    pub tag: u32,
    /// The length of the message in bytes.
    pub length: u32,
}
