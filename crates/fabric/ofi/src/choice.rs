//! Which provider, and what it is like.

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

/// Parts of memory that one move has at most, whatever the provider takes: a peer is told of each.
pub const PARTS_MAX: usize = 16;

/// What a provider allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that go without the buffer being needed any more.
    pub inject: usize,
    /// Parts of memory of one message.
    pub parts: usize,
    /// Bytes of the longest message.
    pub longest: usize,
    /// Operations that may be under way to others.
    pub sends: usize,
    /// And from others.
    pub receives: usize,
    /// Memory that the endpoint uses has to be registered.
    pub registers: bool,
    /// The provider gives registrations their keys.
    pub(crate) gives_keys: bool,
    /// Bits that a key may have.
    pub(crate) keys: u64,
    /// A part of a region is named by its address, and not by where in the region it begins.
    pub(crate) by_address: bool,
}

/// A provider's answer.
#[derive(Debug)]
pub(crate) struct Choice {
    library: &'static Library,
    pub(crate) info: *mut Info,
}

impl Drop for Choice {
    fn drop(&mut self) {
        // SAFETY: it came from the library, and nothing else has it.
        unsafe { (self.library.freeinfo)(self.info) };
    }
}

fn text(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::Name(name.to_owned()))
}

impl Choice {
    /// A provider's first answer: its endpoint at that address of this host's, with a port or another service, or
    /// wherever it likes. Where it can leave the keys of registrations to its user it is to do that: its own may be guessed.
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
        // SAFETY: without an argument it makes an empty one, of which each pointer used here is set.
        let hints = unsafe { (library.dupinfo)(null()) };
        if hints.is_null() {
            return Err(Error::Library("libfabric has no memory".into()));
        }
        let hints = Choice { library, info: hints };
        // SAFETY: as above; the name is allocated as the library frees it.
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
        // SAFETY: all pointers are good for the call.
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

    /// The provider's own name.
    pub(crate) fn name(&self) -> String {
        // SAFETY: answers name their provider.
        unsafe {
            let name = (*(*self.info).fabric_attr).prov_name;
            if name.is_null() {
                return String::new();
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: all parts of an answer are there.
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
