//! Registered memory: `VipRegisterMem` and what belongs to it.

use crate::boundary::enter;
use crate::first_tag::Held;
use crate::handle::Handle;
use crate::nic::{Core, NICS};
use crate::pointer::{In, Opaque, Out};
use crate::types::{MemAttributesC, Ulong};
use core::ptr::NonNull;
use via::{MemAttributes, MemHandle, Memory, Nic, ReturnCode};

/// What the kernel counts memory by, at least.
const PAGE: usize = 4096;

/// The memory that a program names.
///
/// # Errors
/// `VIP_INVALID_PARAMETER` where there is none, or not all of it.
fn named(address: Opaque, len: Ulong) -> Result<Memory, ReturnCode> {
    let base = address.non_null().ok_or(ReturnCode::InvalidParameter)?;
    let len = usize::try_from(len).map_err(|_| ReturnCode::InvalidParameter)?;
    if len == 0 || !is_mapped(base, len) {
        return Err(ReturnCode::InvalidParameter);
    }
    // SAFETY: the bytes are there, and the program that registers them sees to it that they stay
    // until it has deregistered them: that is what registering means in VIA. No Rust code has
    // them.
    Ok(unsafe { Memory::from_raw(base, len) })
}

/// Whether the program has memory in all of a range. Hardware would have to pin it, and so notice.
fn is_mapped(base: NonNull<u8>, len: usize) -> bool {
    let start = base.as_ptr() as usize;
    let Some(end) = start.checked_add(len) else { return false };
    let mut resident = [0u8; 4096];
    let first = start - start % PAGE;
    (first..end).step_by(resident.len() * PAGE).all(|at| {
        let len = (end - at).min(resident.len() * PAGE);
        // SAFETY: looks at which pages are there, without touching them, and stores a byte for
        // each: at most as many as there is room for.
        unsafe { libc::mincore(at as *mut libc::c_void, len, resident.as_mut_ptr()) == 0 }
    })
}

/// The attributes that a program asks for; the guard is to be kept until the NIC has them.
fn wanted(
    nic: &Core,
    attributes: Option<MemAttributesC>,
) -> Result<(MemAttributes, Held<'_>), ReturnCode> {
    let (ptag, first) = nic.wanted_ptag(attributes.map_or(Handle::NULL, |some| some.ptag))?;
    let own = attributes.map_or_else(MemAttributes::default, |some| some.to_via());
    Ok((MemAttributes { ptag, ..own }, first))
}

/// The region that a handle and its address name.
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

/// Deregisters memory. When it returns, the NIC does not touch it any more under this handle.
#[unsafe(no_mangle)]
pub extern "C" fn VipDeregisterMem(nic: Handle, address: Opaque, handle: u32) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let (handle, _) = region(&nic.core, address, handle)?;
        nic.core.nic.deregister_mem(handle).map_err(|error| error.code())
    })
}

/// Tells what may be done with a region.
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

/// Changes what may be done with a region.
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
