//! Registered memory.

use crate::api::Error;
use crate::device::Domain;
use crate::live;
use crate::sys::{ibv_mr, value};
use std::sync::Arc;
use via::Memory;

/// Rights of peers to memory, through its remote key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// Peers may do RDMA writes.
    pub write: bool,
    /// Peers may do RDMA reads.
    pub read: bool,
}

/// Memory registered in a domain. Dropping this value deregisters the memory. From then on the device does not touch
/// the memory, and requests that need it end in errors.
#[derive(Debug)]
pub struct RegisteredMemory {
    raw: *mut ibv_mr,
    domain: Arc<Domain>,
    /// Keeps the memory allocated.
    memory: Memory,
}

// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Send for RegisteredMemory {}
// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Sync for RegisteredMemory {}

impl RegisteredMemory {
    /// Registers memory. The domain's device may read and write the memory, and peers have the rights `rights`.
    ///
    /// # Errors
    /// [`Error::Call`]: for example, the limit of locked memory is reached.
    pub fn new(
        domain: &Arc<Domain>,
        memory: &Memory,
        rights: Rights,
    ) -> Result<RegisteredMemory, Error> {
        let mut access = value::IBV_ACCESS_LOCAL_WRITE;
        if rights.write {
            access |= value::IBV_ACCESS_REMOTE_WRITE;
        }
        if rights.read {
            access |= value::IBV_ACCESS_REMOTE_READ;
        }
        let start = memory.address(0) as *mut core::ffi::c_void;
        // SAFETY: the domain exists. The range is valid while `memory` lives, and the registration holds a reference to
        // `memory`.
        let raw = unsafe {
            (domain.device.api.ibv_reg_mr)(domain.raw, start, memory.len(), access as i32)
        };
        if raw.is_null() {
            return Err(Error::last("ibv_reg_mr"));
        }
        live::REGIONS.more();
        Ok(RegisteredMemory { raw, domain: domain.clone(), memory: memory.clone() })
    }

    /// Returns the key by which requests of this process name the memory.
    pub fn local_key(&self) -> u32 {
        // SAFETY: the registration exists until `self` is dropped, and its key never changes.
        unsafe { (*self.raw).lkey }
    }

    /// Returns the key by which peers name the memory.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the registration exists until `self` is dropped, and its key never changes.
        unsafe { (*self.raw).rkey }
    }

    /// Returns the registered memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        // SAFETY: the registration exists, and this is its last use. If the call fails, the device may use the memory
        // for ever. So the memory is leaked then.
        if unsafe { (self.domain.device.api.ibv_dereg_mr)(self.raw) } != 0 {
            core::mem::forget(self.memory.clone());
        }
        live::REGIONS.fewer();
    }
}
