//! Registered memory: `VipRegisterMem` and related calls.

use crate::boundary::enter;
use crate::first_tag::Held;
use crate::handle::Handle;
use crate::nic::{Core, NICS};
use crate::pointer::{In, Opaque, Out};
use crate::types::{MemAttributesC, Ulong};
use core::ptr::NonNull;
use via::{MemAttributes, MemHandle, Memory, Nic, ReturnCode};

/// Smallest page size of the kernel.
const PAGE: usize = 4096;

/// Returns the memory that a program names.
///
/// # Errors
/// `VIP_INVALID_PARAMETER` if not all of the range is mapped.
fn named(address: Opaque, len: Ulong) -> Result<Memory, ReturnCode> {
    let base = address.non_null().ok_or(ReturnCode::InvalidParameter)?;
    let len = usize::try_from(len).map_err(|_| ReturnCode::InvalidParameter)?;
    if len == 0 || !is_mapped(base, len) {
        return Err(ReturnCode::InvalidParameter);
    }
    // SAFETY: the range is mapped. VIA requires that a program keeps registered memory until it has deregistered it.
    // Rust code has no references to this memory.
    Ok(unsafe { Memory::from_raw(base, len) })
}

/// Returns true if the whole range is mapped. Hardware would notice a missing page when it pins the memory.
fn is_mapped(base: NonNull<u8>, len: usize) -> bool {
    let start = base.as_ptr() as usize;
    let Some(end) = start.checked_add(len) else { return false };
    let mut resident = [0u8; 4096];
    let first = start - start % PAGE;
    (first..end).step_by(resident.len() * PAGE).all(|at| {
        let len = (end - at).min(resident.len() * PAGE);
        // SAFETY: mincore does not touch the pages. It stores a byte for each page, and the range is cut so that
        // `resident` has room for all bytes.
        unsafe { libc::mincore(at as *mut libc::c_void, len, resident.as_mut_ptr()) == 0 }
    })
}

/// Returns the requested attributes. Keep the guard until the NIC has them.
fn wanted(
    nic: &Core,
    attributes: Option<MemAttributesC>,
) -> Result<(MemAttributes, Held<'_>), ReturnCode> {
    let (ptag, first) = nic.wanted_ptag(attributes.map_or(Handle::NULL, |some| some.ptag))?;
    let own = attributes.map_or_else(MemAttributes::default, |some| some.to_via());
    Ok((MemAttributes { ptag, ..own }, first))
}

/// Returns the region of a handle and an address.
fn region(
    nic: &Core,
    address: Opaque,
    handle: u32,
) -> Result<(MemHandle, MemAttributes), ReturnCode> {
    let handle = MemHandle::from_raw(handle).ok_or(ReturnCode::InvalidParameter)?;
    let (memory, attributes) = nic.nic.query_mem(handle).map_err(|error| error.code())?;
    if memory.address(0) != address.address() {
        return Err(ReturnCode::InvalidParameter);
    }
    Ok((handle, attributes))
}

/// Registers memory, for descriptors and for data.
#[unsafe(no_mangle)]
pub extern "C" fn VipRegisterMem(
    nic: Handle,
    address: Opaque,
    len: Ulong,
    attributes: In<MemAttributesC>,
    handle: Out<u32>,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let handle = handle.required()?;
        let (attributes, _first) = wanted(&nic.core, attributes.get())?;
        let memory = named(address, len)?;
        let made = nic.core.nic.register_mem(&memory, attributes);
        handle.set(made.map_err(|error| error.code())?.raw());
        Ok(())
    })
}

/// Deregisters memory. After this call the NIC does not access the memory by this handle.
#[unsafe(no_mangle)]
pub extern "C" fn VipDeregisterMem(nic: Handle, address: Opaque, handle: u32) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let (handle, _) = region(&nic.core, address, handle)?;
        nic.core.nic.deregister_mem(handle).map_err(|error| error.code())
    })
}

/// Returns the rights to a region.
#[unsafe(no_mangle)]
pub extern "C" fn VipQueryMem(
    nic: Handle,
    address: Opaque,
    handle: u32,
    attributes: Out<MemAttributesC>,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let attributes = attributes.required()?;
        let (_, own) = region(&nic.core, address, handle)?;
        attributes.set(MemAttributesC::from_via(&own, nic.core.ptag_handle(own.ptag)));
        Ok(())
    })
}

/// Changes the rights to a region.
#[unsafe(no_mangle)]
pub extern "C" fn VipSetMemAttributes(
    nic: Handle,
    address: Opaque,
    handle: u32,
    attributes: In<MemAttributesC>,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let (handle, _) = region(&nic.core, address, handle)?;
        let attributes = attributes.get().ok_or(ReturnCode::InvalidParameter)?;
        let (attributes, _first) = wanted(&nic.core, Some(attributes))?;
        nic.core.nic.set_mem_attributes(handle, attributes).map_err(|error| error.code())
    })
}
