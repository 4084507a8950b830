//! NICs: `VipOpenNic`, `VipCloseNic`, `VipQueryNic`, and protection tags.

use crate::boundary::enter;
use crate::callback::default_error_handler;
use crate::discovery::Discovery;
use crate::first_tag::{FirstTag, Held};
use crate::handle::{Handle, Kind, Table};
use crate::hosts::Hosts;
use crate::pointer::{Opaque, Out, Text};
use crate::provider::AnyNic;
use crate::types::NicAttributes;
use std::sync::{Arc, Mutex, OnceLock};
use via::{Nic, Ptag, ReturnCode};

/// Every open NIC.
pub(crate) static NICS: Table<OpenNic> = Table::new(Kind::Nic);

/// Bytes of a device's name.
const NAME_MAX: usize = 63;

/// A NIC, open.
pub(crate) struct OpenNic {
    pub(crate) core: Arc<Core>,
}

/// What a NIC's VIs, completion queues and requests hold on to: while there are any it is not
/// closed.
pub(crate) struct Core {
    pub(crate) nic: AnyNic,
    pub(crate) handle: Handle,
    /// What the null handle stands for where a tag is meant.
    first_tag: FirstTag,
    /// The name it was opened by.
    pub(crate) name: String,
    /// The name service, while it is initialized.
    pub(crate) hosts: Mutex<Option<Hosts>>,
    pub(crate) discovery: OnceLock<Discovery>,
}

impl Core {
    /// The handle of a tag. It names the NIC too, so that another NIC's tag is noticed.
    pub(crate) fn ptag_handle(&self, ptag: Option<Ptag>) -> Handle {
        ptag.map_or(Handle::NULL, |ptag| Handle::new(Kind::Ptag, self.mark(), ptag.raw()))
    }

    /// The tag under a handle; none for the null handle, which stands for the first one.
    ///
    /// # Errors
    /// `VIP_INVALID_PTAG` if it is not of this NIC. (Whether it still exists, the NIC knows.)
    fn ptag(&self, handle: Handle) -> Result<Option<Ptag>, ReturnCode> {
        if handle.is_null() {
            return Ok(None);
        }
        match handle.parts(Kind::Ptag) {
            Some((mark, raw)) if mark == self.mark() => {
                Ptag::from_raw(raw).map(Some).ok_or(ReturnCode::InvalidPtag)
            }
            _ => Err(ReturnCode::InvalidPtag),
        }
    }

    /// The tag that a region or a VI shall have. What the null handle stands for does not change
    /// until the guard goes: keep it until the NIC has been told.
    ///
    /// # Errors
    /// As for [`Core::ptag`].
    pub(crate) fn wanted_ptag(
        &self,
        handle: Handle,
    ) -> Result<(Option<Ptag>, Held<'_>), ReturnCode> {
        let named = self.ptag(handle)?;
        let first = self.first_tag.held();
        Ok((Some(named.unwrap_or(first.tag())), first))
    }

    /// Tells this NIC from the others, and from earlier ones; as many bits as a generation has.
    fn mark(&self) -> u32 {
        let (generation, number) = self.handle.parts(Kind::Nic).unwrap_or_default();
        (generation << 16 | number & 0xffff) & crate::handle::GENERATION_MASK
    }
}

/// Opens a NIC. Every call gives a NIC of its own: its tags, regions, VIs and error handler are not
/// the others'.
#[unsafe(no_mangle)]
pub extern "C" fn VipOpenNic(name: Text, nic: Out<Handle>) -> ReturnCode {
    enter(|| {
        let nic = nic.required()?;
        let name = name.get(NAME_MAX)?;
        let place = NICS.reserve()?;
        let own = crate::provider::open(&name)?;
        let first_tag = FirstTag::new(&own).map_err(|error| error.code())?;
        let core = Arc::new(Core {
            nic: own,
            handle: place.handle(),
            first_tag,
            name,
            hosts: Mutex::default(),
            discovery: OnceLock::new(),
        });
        core.nic.set_error_handler(Some(default_error_handler(core.name.clone())));
        nic.set(place.fill(OpenNic { core }));
        Ok(())
    })
}

/// Closes a NIC. Regions that are still registered and tags go with it; with VIs, completion queues
/// or unanswered requests it is in use.
#[unsafe(no_mangle)]
pub extern "C" fn VipCloseNic(nic: Handle) -> ReturnCode {
    enter(|| {
        // What has happened is told, if it was for want of a thread that it was not.
        let core = NICS.find(nic)?.core.clone();
        core.nic.run_callbacks();
        drop(core);
        let core = NICS.remove(nic, |OpenNic { core }| {
            Arc::try_unwrap(core).map_err(|core| (OpenNic { core }, ReturnCode::ErrorResource))
        })?;
        // What is reported from now on is of nothing that the program has.
        core.nic.set_error_handler(None);
        Ok(())
    })
}

/// Tells what a NIC is.
#[unsafe(no_mangle)]
pub extern "C" fn VipQueryNic(nic: Handle, attributes: Out<NicAttributes>) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        attributes.required()?.set(describe(&nic.core));
        Ok(())
    })
}

fn describe(core: &Core) -> NicAttributes {
    let own = core.nic.attributes();
    let mut name = [0; 64];
    let len = core.name.len().min(NAME_MAX);
    name[..len].copy_from_slice(&core.name.as_bytes()[..len]);
    NicAttributes {
        name,
        hardware_version: own.hardware_version.into(),
        provider_version: own.provider_version.into(),
        nic_address_len: own.local_address.len() as u16,
        local_nic_address: Opaque(own.local_address.as_ptr().cast_mut().cast()),
        thread_safe: own.thread_safe.into(),
        max_discriminator_len: own.max_discriminator_len,
        max_register_bytes: own.max_register_bytes,
        max_register_regions: own.max_register_regions.into(),
        max_register_block_bytes: own.max_register_block_bytes,
        max_vi: own.max_vi.into(),
        max_descriptors_per_queue: own.max_descriptors_per_queue.into(),
        max_segments_per_desc: own.max_segments_per_desc.into(),
        max_cq: own.max_cq.into(),
        max_cq_entries: own.max_cq_entries.into(),
        max_transfer_size: own.max_transfer_size.into(),
        native_mtu: own.native_mtu.into(),
        max_ptags: own.max_ptags.into(),
        reliability_level_support: own.reliability.bits(),
        rdma_read_support: own.rdma_read.bits(),
    }
}

/// Creates a protection tag.
#[unsafe(no_mangle)]
pub extern "C" fn VipCreatePtag(nic: Handle, ptag: Out<Handle>) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let ptag = ptag.required()?;
        let made = nic.core.first_tag.create(&nic.core.nic).map_err(|error| error.code())?;
        ptag.set(nic.core.ptag_handle(Some(made)));
        Ok(())
    })
}

/// Destroys a protection tag that no region and no VI has.
#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyPtag(nic: Handle, ptag: Handle) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        // The default tag cannot be destroyed, by its short name either.
        let ptag = nic.core.ptag(ptag)?.ok_or(ReturnCode::InvalidPtag)?;
        nic.core.first_tag.destroy(&nic.core.nic, ptag).map_err(|error| error.code())
    })
}
