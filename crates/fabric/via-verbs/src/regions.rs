//! Registered memory: regions by handle, with the device's keys.

use crate::slot::lock;
use sovia_verbs::{Device, Domain, RegisteredMemory, Rights};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use via::error::{MemError, RegisterError};
use via::memory::{Limits, MemoryTable, Region};
use via::{MemAttributes, MemHandle, Memory, Ptag};

/// Registrations of a region.
pub(crate) struct Held {
    region: Arc<Region>,
    /// Registration for this process's own requests.
    local: RegisteredMemory,
    /// Registrations for peers' RDMA writes and reads, made when a peer first asks for a key.
    write: Option<RegisteredMemory>,
    read: Option<RegisteredMemory>,
}

/// Memory that the NIC's programs have registered.
pub(crate) struct Regions {
    pub(crate) table: MemoryTable,
    device: Arc<Device>,
    domains: Mutex<HashMap<Ptag, Arc<Domain>>>,
    held: Mutex<HashMap<u32, Held>>,
}

impl Regions {
    pub(crate) fn new(device: Arc<Device>, limits: Limits) -> Regions {
        let table = MemoryTable::new(limits);
        Regions { table, device, domains: Mutex::default(), held: Mutex::default() }
    }

    /// Returns the protection domain of a tag, and makes it if necessary.
    pub(crate) fn domain(&self, ptag: Ptag) -> Result<Arc<Domain>, sovia_verbs::Error> {
        let mut domains = lock(&self.domains);
        if let Some(domain) = domains.get(&ptag) {
            return Ok(domain.clone());
        }
        let domain = Domain::new(&self.device)?;
        domains.insert(ptag, domain.clone());
        Ok(domain)
    }

    /// Forgets the domain of a destroyed tag.
    pub(crate) fn forget(&self, ptag: Ptag) {
        lock(&self.domains).remove(&ptag);
    }

    fn registered(
        &self,
        region: &Region,
        rights: Rights,
    ) -> Result<RegisteredMemory, sovia_verbs::Error> {
        RegisteredMemory::new(&self.domain(region.ptag())?, region.memory(), rights)
    }

    /// Registers memory with the device.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub(crate) fn register(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        let handle = self.table.register(memory, attributes)?;
        let Some(region) = self.table.find(handle.raw()) else { return Ok(handle) };
        match self.registered(&region, Rights::default()) {
            Ok(local) => {
                let held = Held { region, local, write: None, read: None };
                lock(&self.held).insert(handle.raw(), held);
                Ok(handle)
            }
            Err(error) => {
                let _ = self.table.deregister(handle);
                Err(refused(&error))
            }
        }
    }

    /// Removes a region from the table. Drop the result only when no VI uses the region any more: the drop deregisters
    /// the memory.
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    pub(crate) fn remove(&self, handle: MemHandle) -> Result<Option<Held>, MemError> {
        self.table.deregister(handle)?;
        Ok(lock(&self.held).remove(&handle.raw()))
    }

    /// Changes a region's attributes.
    ///
    /// # Errors
    /// [`MemError`].
    pub(crate) fn set_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        let old = self.table.set_attributes(handle, attributes)?;
        let mut keys = lock(&self.held);
        let Some(region) = self.table.find(handle.raw()) else { return Ok(()) };
        if let Some(held) = keys.get_mut(&handle.raw()) {
            let same = region.ptag() == old.ptag();
            held.write =
                held.write.take().filter(|_| same && region.attributes().enable_rdma_write);
            held.read = held.read.take().filter(|_| same && region.attributes().enable_rdma_read);
            held.region = region;
            if !same {
                match self.registered(&held.region, Rights::default()) {
                    Ok(local) => held.local = local,
                    // The region has no registration now. Its users get errors, as for unusable memory.
                    Err(_) => drop(keys.remove(&handle.raw())),
                }
            }
        }
        Ok(())
    }

    /// Returns the live region of a handle, and its local key.
    pub(crate) fn local(&self, handle: u32) -> Option<(Arc<Region>, u32)> {
        let keys = lock(&self.held);
        let held = keys.get(&handle)?;
        held.region.is_live().then(|| (held.region.clone(), held.local.local_key()))
    }

    /// Returns the key by which the peer of a VI with this tag may write or read these bytes; `None` if the peer may
    /// not.
    pub(crate) fn remote(
        &self,
        ptag: Ptag,
        handle: u32,
        (address, length): (u64, u32),
        write: bool,
    ) -> Option<u32> {
        let mut keys = lock(&self.held);
        let held = keys.get_mut(&handle)?;
        let region = held.region.clone();
        let attributes = region.attributes();
        let allowed =
            if write { attributes.enable_rdma_write } else { attributes.enable_rdma_read };
        if !allowed || !region.is_live() || region.ptag() != ptag {
            return None;
        }
        region.memory().range(address, length)?;
        let place = if write { &mut held.write } else { &mut held.read };
        if place.is_none() {
            *place = Some(self.registered(&region, Rights { write, read: !write }).ok()?);
        }
        place.as_ref().map(RegisteredMemory::remote_key)
    }
}

/// Converts the error of a failed registration.
fn refused(error: &sovia_verbs::Error) -> RegisterError {
    const ENOMEM: i32 = 12;
    const EAGAIN: i32 = 11;
    match (error, error.errno()) {
        (_, Some(ENOMEM | EAGAIN)) => RegisterError::LockedMemory,
        (sovia_verbs::Error::Call { call, .. }, errno) => {
            RegisterError::System { call, errno: errno.unwrap_or(0) }
        }
        (sovia_verbs::Error::Library(_), _) => RegisterError::System { call: "dlopen", errno: 0 },
    }
}
