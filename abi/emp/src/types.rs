//! The structures, as C lays them out.

use core::ffi::{c_char, c_int, c_uint};

/// `EMP_ANY_SOURCE`.
pub const ANY_SOURCE: u16 = u16::MAX;
/// `EMP_ANY_TAG`.
pub const ANY_TAG: i64 = -1;
/// `EMP_NIC_THREAD`: the NIC's thread does all of its work.
pub const NIC_THREAD: c_uint = 1;
/// `EMP_LOCK_MEMORY`: all memory of the process is locked, as in the paper.
pub const LOCK_MEMORY: c_uint = 2;

/// `struct emp_config`.
#[repr(C)]
#[derive(Debug)]
pub struct Config {
    /// Where the station is.
    pub place: *const c_char,
    /// The nodes' addresses.
    pub nodes: *const *const c_char,
    /// How many there are.
    pub count: c_uint,
    /// What every station of the table knows.
    pub key: u64,
    /// [`NIC_THREAD`], [`LOCK_MEMORY`].
    pub flags: c_uint,
    /// The processor of the NIC's thread; below 0: any.
    pub processor: c_int,
    /// Frames that are acknowledged together; 0: the paper's 3.
    pub collection: c_uint,
    /// Microseconds for which a thread looks before it sleeps; 0: 50.
    pub spin: c_uint,
}

/// `struct emp_status`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Status {
    /// 0, or what has gone wrong.
    pub error: c_int,
    /// The node that the message was for, or that it came from.
    pub node: u16,
    /// The message's tag.
    pub tag: u32,
    /// Its bytes.
    pub length: u32,
}
