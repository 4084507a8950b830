//! Registered memory.

use crate::api::Error;
use crate::device::Domain;
use crate::live;
use crate::sys::{ibv_mr, value};
use std::sync::Arc;
use via::Memory;

/// What peers may do with memory, by its remote key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// RDMA writes.
    pub write: bool,
    /// RDMA reads.
    pub read: bool,
}

/// Memory that is registered in a domain. Dropping it deregisters: then the device touches the memory no more, and requests that need
/// it end in errors.
#[derive(Debug)]
pub struct RegisteredMemory {
    raw: *mut ibv_mr,
    domain: Arc<Domain>,
    /// Keeps it valid.
    memory: Memory,
}

// SAFETY: as for `Device`.
unsafe impl Send for RegisteredMemory {}
// SAFETY: as for `Device`.
unsafe impl Sync for RegisteredMemory {}

impl RegisteredMemory {
    /// Registers memory; the device of the domain may read and write it, and peers what `rights` say.
    ///
    /// # Errors
    /// [`Error::Call`]: the limit of locked memory is reached, for example.
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
        // SAFETY: the domain exists; the range is valid for as long as `memory`, which outlives the registration.
        let raw = unsafe {
            (domain.device.api.ibv_reg_mr)(domain.raw, start, memory.len(), access as i32)
        };
        if raw.is_null() {
            return Err(Error::last("ibv_reg_mr"));
        }
        live::REGIONS.more();
        Ok(RegisteredMemory { raw, domain: domain.clone(), memory: memory.clone() })
    }

    /// The key by which this process's requests name it.
    pub fn local_key(&self) -> u32 {
        // SAFETY: the registration exists; the key never changes.
        unsafe { (*self.raw).lkey }
    }

    /// The key by which peers name it.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw).rkey }
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        // SAFETY: it exists, and this is its last use. Its failure would leave the memory with the device for good: then it must
        // not be freed.
        if unsafe { (self.domain.device.api.ibv_dereg_mr)(self.raw) } != 0 {
            core::mem::forget(self.memory.clone());
        }
        live::REGIONS.fewer();
    }
}
