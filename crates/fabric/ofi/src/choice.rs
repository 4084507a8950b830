//! Which provider, and what it is like.

use crate::error::Error;
use crate::library::{Library, VERSION};
use core::ffi::{CStr, c_int};
use core::ptr::{null, null_mut};
use sovia_fi_types::Info;
use std::ffi::CString;

const MSG: u64 = 1 << 1;
const TAGGED: u64 = 1 << 3;
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
    /// Bits of a tag that can be used.
    pub tags: u64,
    /// Memory that the endpoint uses has to be registered.
    pub registers: bool,
    /// The provider gives registrations their keys.
    pub(crate) gives_keys: bool,
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
    /// wherever it likes.
    pub(crate) fn of(
        library: &'static Library,
        provider: &str,
        node: Option<&str>,
        service: Option<&str>,
    ) -> Result<Choice, Error> {
        let name = text(provider)?;
        let [node_text, service_text] = [node, service].map(|it| it.map(text).transpose());
        let (node_text, service_text) = (node_text?, service_text?);
        // SAFETY: without an argument it makes an empty one, of which each pointer used here is set.
        let hints = unsafe { (library.dupinfo)(null()) };
        if hints.is_null() {
            return Err(Error::Library("it has no memory".into()));
        }
        let hints = Choice { library, info: hints };
        // SAFETY: as above; the name is allocated as the library frees it.
        unsafe {
            let info = &mut *hints.info;
            info.caps = MSG | TAGGED;
            info.mode = CONTEXT | CONTEXT2;
            (*info.ep_attr).kind = EP_RDM;
            (*info.tx_attr).msg_order = ORDER_SAS;
            (*info.rx_attr).msg_order = ORDER_SAS;
            let domain = &mut *info.domain_attr;
            domain.mr_mode = MR_LOCAL | MR_VIRT_ADDR | MR_ALLOCATED | MR_PROV_KEY;
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
            let mr_mode = (*info.domain_attr).mr_mode;
            Limits {
                inject: tx.inject_size,
                parts: tx.iov_limit.min(rx.iov_limit).max(1),
                longest: ep.max_msg_size,
                sends: tx.size,
                receives: rx.size,
                // Of the bits above the first that the format has, the provider has some for itself.
                tags: u64::MAX.checked_shr(ep.mem_tag_format.leading_zeros()).unwrap_or(u64::MAX),
                registers: mr_mode & MR_LOCAL != 0,
                gives_keys: mr_mode & MR_PROV_KEY != 0,
            }
        }
    }
}
