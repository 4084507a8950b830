//! State that all handles of an open NIC share.

use crate::pins::Pins;
use core::fmt;
use core::sync::atomic::AtomicU32;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use via::error::ConnectError;
use via::event::{CurrentHandler, Dispatcher, Spawn};
use via::memory::{Limits, MemoryTable};
use via::{Capabilities, MemHandle, NetAddress, NicAttributes, Reliability};

pub(crate) const VI_MAX: u32 = 1 << 16;
pub(crate) const CQ_MAX: u32 = 1 << 12;
pub(crate) const CQ_ENTRIES_MAX: u32 = 1 << 16;
pub(crate) const DESCRIPTORS_MAX: u32 = 1024;
const DISCRIMINATOR_MAX: u16 = 64;
const HOST_MAX: usize = 64;
const NAME_MAX: usize = 63;
const LIMITS: Limits =
    Limits { regions: MemHandle::PLACES, bytes: 1 << 46, block_bytes: 1 << 44, ptags: 1 << 16 };

/// Properties of a NIC that differ between NICs in software.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a> {
    /// Name of the NIC.
    pub name: &'a str,
    /// Address of the NIC, by which others find it ([`crate::Medium::find`]).
    pub address: &'a [u8],
    /// Bytes of the longest message.
    pub transfer_max: u32,
    /// Set if registering memory is so cheap that caching registrations is useless.
    pub registration_is_free: bool,
    /// See [`Capabilities::sends_execute_in_caller`].
    pub sends_execute_in_caller: bool,
    /// Starts the thread for callbacks.
    pub spawn: Spawn,
}

/// State of a NIC that its VIs need.
pub(crate) struct Card<N> {
    pub(crate) attributes: NicAttributes,
    pub(crate) node: N,
    pub(crate) table: MemoryTable,
    pub(crate) pins: Pins,
    /// The medium's keys of regions, by memory handle.
    pub(crate) keys: Mutex<HashMap<u32, u64>>,
    pub(crate) vis: AtomicU32,
    pub(crate) cqs: AtomicU32,
    pub(crate) handler: CurrentHandler,
    pub(crate) dispatcher: Dispatcher,
}

impl<N: fmt::Debug> fmt::Debug for Card<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Card").field("node", &self.node).finish_non_exhaustive()
    }
}

impl<N> Card<N> {
    pub(crate) fn new(node: N, description: &Description<'_>, mtu: u32) -> Card<N> {
        Card {
            attributes: attributes(description, mtu),
            node,
            table: MemoryTable::new(LIMITS),
            pins: Pins::default(),
            keys: Mutex::default(),
            vis: AtomicU32::new(0),
            cqs: AtomicU32::new(0),
            handler: CurrentHandler::default(),
            dispatcher: Dispatcher::new(description.spawn),
        }
    }

    /// Locks and returns the medium's keys.
    pub(crate) fn keys(&self) -> MutexGuard<'_, HashMap<u32, u64>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the medium's key of the region with this handle.
    pub(crate) fn key(&self, handle: u32) -> Option<u64> {
        self.keys().get(&handle).copied()
    }

    /// Checks that an address has valid lengths.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`].
    pub(crate) fn possible(&self, address: &NetAddress) -> Result<(), ConnectError> {
        self.attributes.possible(address)?;
        if address.host.len() > HOST_MAX {
            return Err(ConnectError::InvalidParameter("the host address is too long"));
        }
        Ok(())
    }
}

fn attributes(description: &Description<'_>, mtu: u32) -> NicAttributes {
    let name = description.name;
    let cut = (0..=NAME_MAX.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
    let reliable = Reliability::RELIABLE_DELIVERY | Reliability::RELIABLE_RECEPTION;
    NicAttributes {
        name: name[..cut.unwrap_or(0)].into(),
        hardware_version: 1,
        provider_version: 1,
        local_address: description.address.into(),
        thread_safe: true,
        max_discriminator_len: DISCRIMINATOR_MAX,
        max_register_bytes: LIMITS.bytes,
        max_register_regions: LIMITS.regions,
        max_register_block_bytes: LIMITS.block_bytes,
        max_vi: VI_MAX,
        max_descriptors_per_queue: DESCRIPTORS_MAX,
        max_segments_per_desc: via::descriptor::SEGMENTS_MAX as u16,
        max_cq: CQ_MAX,
        max_cq_entries: CQ_ENTRIES_MAX,
        max_transfer_size: description.transfer_max,
        native_mtu: mtu,
        max_ptags: LIMITS.ptags,
        reliability: Reliability::all(),
        rdma_read: reliable,
        capabilities: Capabilities {
            inline_size: mtu,
            registration_is_free: description.registration_is_free,
            sends_execute_in_caller: description.sends_execute_in_caller,
            rdma_write: true,
        },
    }
}
