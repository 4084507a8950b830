//! Choice of a provider, and its limits.

use crate::error::Error;
use crate::library::{Library, VERSION};
use core::ffi::{CStr, c_int};
use core::ptr::{null, null_mut};
use sovia_fi_types::Info;
use std::ffi::CString;

const MSG: u64 = 1 << 1;
const RMA: u64 = 1 << 2;
const SOURCE: u64 = 1 << 57;
const CONTEXT: u64 = 1 << 59;
const CONTEXT2: u64 = 1 << 52;
const ORDER_SAS: u64 = 1 << 8;
const EP_RDM: c_int = 3;
const RM_ENABLED: c_int = 2;
const THREAD_DOMAIN: c_int = 3;
pub(crate) const MR_LOCAL: c_int = 1 << 2;
const MR_VIRT_ADDR: c_int = 1 << 4;
const MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const MR_PROV_KEY: c_int = 1 << 6;
const MR_MODE: c_int = MR_LOCAL | MR_VIRT_ADDR | MR_ALLOCATED;

/// Largest number of memory parts in one move, even if the provider allows more: a peer gets the address of each.
pub const PARTS_MAX: usize = 16;

/// Limits of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message, in bytes, whose buffer is free again when the send returns.
    pub inject: usize,
    /// Largest number of memory parts in one message.
    pub parts: usize,
    /// Largest message in bytes.
    pub longest: usize,
    /// Largest number of operations in progress to peers.
    pub sends: usize,
    /// Largest number of operations in progress from peers.
    pub receives: usize,
    /// True if the provider requires that the endpoint's memory is registered.
    pub registers: bool,
    /// True if the provider chooses the keys of registrations.
    pub(crate) gives_keys: bool,
    /// Mask of the bits that a key may have.
    pub(crate) keys: u64,
    /// True if a remote part of a region is named by its address, false if by its offset in the region.
    pub(crate) by_address: bool,
}

/// A provider's answer to `fi_getinfo`.
#[derive(Debug)]
pub(crate) struct Choice {
    library: &'static Library,
    pub(crate) info: *mut Info,
}

impl Drop for Choice {
    fn drop(&mut self) {
        // SAFETY: the pointer came from this library, and no other value owns it.
        unsafe { (self.library.freeinfo)(self.info) };
    }
}

fn text(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::Name(name.to_owned()))
}

impl Choice {
    /// Asks libfabric for an endpoint of a provider, and returns the first answer. `node` and `service` are an address
    /// of this host and a port or other service. Without them the provider chooses an address. The request prefers keys
    /// that the caller chooses: a peer may guess a provider's keys.
    pub(crate) fn of(
        library: &'static Library,
        provider: &str,
        (node, service): (Option<&str>, Option<&str>),
    ) -> Result<Choice, Error> {
        let ask = |keys| Choice::ask(library, provider, (node, service), MR_MODE | keys);
        ask(0).or_else(|_| ask(MR_PROV_KEY))
    }

    fn ask(
        library: &'static Library,
        provider: &str,
        (node, service): (Option<&str>, Option<&str>),
        mr_mode: c_int,
    ) -> Result<Choice, Error> {
        let name = text(provider)?;
        let [node_text, service_text] = [node, service].map(|it| it.map(text).transpose());
        let (node_text, service_text) = (node_text?, service_text?);
        // SAFETY: with a null argument, fi_dupinfo makes an empty structure. Each pointer in it that is used here is
        // valid.
        let hints = unsafe { (library.dupinfo)(null()) };
        if hints.is_null() {
            return Err(Error::Library("libfabric has no memory".into()));
        }
        let hints = Choice { library, info: hints };
        // SAFETY: fi_dupinfo has made each structure that is written here. The name is allocated with the function that
        // the library's free matches.
        unsafe {
            let info = &mut *hints.info;
            info.caps = MSG | RMA;
            info.mode = CONTEXT | CONTEXT2;
            (*info.ep_attr).kind = EP_RDM;
            (*info.tx_attr).msg_order = ORDER_SAS;
            (*info.rx_attr).msg_order = ORDER_SAS;
            let domain = &mut *info.domain_attr;
            domain.mr_mode = mr_mode;
            domain.threading = THREAD_DOMAIN;
            domain.resource_mgmt = RM_ENABLED;
            (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
        let mut found = null_mut();
        let pointer = |it: &Option<CString>| it.as_ref().map_or(null(), |it| it.as_ptr());
        let flags = if node.is_some() || service.is_some() { SOURCE } else { 0 };
        // SAFETY: all pointers are to live locals, and the strings end with a zero byte.
        let result = unsafe {
            let (node, service) = (pointer(&node_text), pointer(&service_text));
            (library.getinfo)(VERSION, node, service, flags, hints.info, &raw mut found)
        };
        if result != 0 || found.is_null() {
            let at = node.map_or(String::new(), |node| format!(" at {node}"));
            let why = library.explain(result);
            return Err(Error::Provider { provider: provider.to_owned(), at, why });
        }
        Ok(Choice { library, info: found })
    }

    /// Returns the name by which the provider calls itself.
    pub(crate) fn name(&self) -> String {
        // SAFETY: an answer always has fabric attributes. Their name is null or a C string.
        unsafe {
            let name = (*(*self.info).fabric_attr).prov_name;
            if name.is_null() {
                return String::new();
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: libfabric fills in every attribute structure of an answer.
        unsafe {
            let info = &*self.info;
            let (tx, rx, ep) = (&*info.tx_attr, &*info.rx_attr, &*info.ep_attr);
            let domain = &*info.domain_attr;
            let mr_mode = domain.mr_mode;
            let spare = 64_usize.saturating_sub(8 * domain.mr_key_size) as u32;
            Limits {
                inject: tx.inject_size,
                parts: tx.iov_limit.min(tx.rma_iov_limit).clamp(1, PARTS_MAX),
                longest: ep.max_msg_size,
                sends: tx.size,
                receives: rx.size,
                registers: mr_mode & MR_LOCAL != 0,
                gives_keys: mr_mode & MR_PROV_KEY != 0,
                keys: u64::MAX.checked_shr(spare).unwrap_or(u64::MAX),
                by_address: mr_mode & MR_VIRT_ADDR != 0,
            }
        }
    }
}
