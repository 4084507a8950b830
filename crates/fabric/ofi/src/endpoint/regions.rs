//! Registers memory, if the provider requires this.

use super::{Endpoint, RECV, SEND};
use crate::error::Error;
use crate::leaving::enter;
use crate::object::Object;
use core::ffi::c_void;
use core::ptr::null_mut;
use sovia_fi_types::FidMr;
use std::hash::BuildHasher;
use via::Memory;

/// `FI_READ`, `FI_REMOTE_READ`.
const READ: u64 = 1 << 8;
/// Access of a peer to lent memory (`FI_REMOTE_READ`).
pub(super) const LENT: u64 = 1 << 12;
/// Access of the endpoint to its own memory.
pub(super) const LOCAL: u64 = SEND | RECV | READ;

impl Endpoint {
    /// Returns a key that no peer can guess, for providers that leave the choice of keys to the caller.
    fn draw_key(&mut self) -> u64 {
        let (state, count) = &mut self.keys;
        *count += 1;
        state.hash_one(*count) & self.limits.keys
    }

    /// Registers memory. Returns the region and its descriptor.
    pub(super) fn registered(
        &mut self,
        start: *mut u8,
        len: usize,
        access: u64,
    ) -> Result<(Object<FidMr>, *mut c_void), Error> {
        let key = if self.limits.gives_keys { 0 } else { self.draw_key() };
        let mut region = null_mut();
        // SAFETY: the domain is open. The endpoint or the program owns the memory, and keeps it valid while it is
        // registered.
        let (result, region) = unsafe {
            let (reg, domain) = ((*(*self.open.domain.raw()).mr).reg, self.open.domain.fid());
            let start = start.cast_const().cast();
            let made = reg(domain, start, len, access, 0, key, 0, &raw mut region, null_mut());
            (made, if made == 0 { Object::new(region) } else { None })
        };
        let region = region.ok_or_else(|| self.failed("fi_mr_reg", result))?;
        // SAFETY: the region was just registered and is open.
        let desc = unsafe { (*region.raw()).mem_desc };
        Ok((region, desc))
    }

    /// Registers memory if the provider requires this. Returns the key of the registration.
    ///
    /// # Errors
    /// [`Error::Call`], usually because of a system limit; [`Error::Leaving`].
    pub fn register(&mut self, memory: &Memory) -> Result<Option<u64>, Error> {
        if !self.limits.registers {
            return Ok(None);
        }
        let _inside = enter().ok_or(Error::Leaving)?;
        let start = core::ptr::with_exposed_provenance_mut(memory.address(0) as usize);
        let (region, _) = self.registered(start, memory.len(), LOCAL)?;
        let key = region.raw().expose_provenance() as u64;
        self.open.regions.insert(key, region);
        Ok(Some(key))
    }

    /// Removes a registration that [`Endpoint::register`] has made. No move may use the registration any more.
    pub fn deregister(&mut self, key: u64) {
        if let Some(_inside) = enter() {
            self.open.regions.remove(&key);
        }
    }
}
