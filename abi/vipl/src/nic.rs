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

/// All open NICs.
pub(crate) static NICS: Table<OpenNic> = Table::new(Kind::Nic);

/// Longest name of a device in bytes.
const NAME_MAX: usize = 63;

/// A NIC, open.
pub(crate) struct OpenNic {
    pub(crate) core: Arc<Core>,
}

/// The part of a NIC that its VIs, completion queues and requests hold references to. The NIC cannot be closed while
/// these exist.
pub(crate) struct Core {
    pub(crate) nic: AnyNic,
    pub(crate) handle: Handle,
    /// The tag that the null handle stands for.
    first_tag: FirstTag,
    /// Name by which the NIC was opened.
    pub(crate) name: String,
    /// The name service, while it is initialized.
    pub(crate) hosts: Mutex<Option<Hosts>>,
    pub(crate) discovery: OnceLock<Discovery>,
}

impl Core {
    /// Returns the handle of a tag. It contains the NIC too, so that a tag of another NIC is recognized.
    pub(crate) fn ptag_handle(&self, ptag: Option<Ptag>) -> Handle {
        ptag.map_or(Handle::NULL, |ptag| Handle::new(Kind::Ptag, self.mark(), ptag.raw()))
    }

    /// Returns the tag of a handle; `None` for the null handle, which stands for the first tag.
    ///
    /// # Errors
    /// `VIP_INVALID_PTAG` if the tag belongs to another NIC. (The NIC checks whether the tag still exists.)
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

    /// Returns the tag for a region or a VI. The tag of the null handle does not change while the guard exists. Keep
    /// the guard until the NIC has got the tag.
    ///
    /// # Errors
    /// Like [`Core::ptag`].
    pub(crate) fn wanted_ptag(
        &self,
        handle: Handle,
    ) -> Result<(Option<Ptag>, Held<'_>), ReturnCode> {
        let named = self.ptag(handle)?;
        let first = self.first_tag.held();
        Ok((Some(named.unwrap_or(first.tag())), first))
    }

    /// Returns a number that differs between NICs, also from earlier ones. It has as many bits as a generation.
    fn mark(&self) -> u32 {
        let (generation, number) = self.handle.parts(Kind::Nic).unwrap_or_default();
        (generation << 16 | number & 0xffff) & crate::handle::GENERATION_MASK
    }
}

/// Opens a NIC. Each call makes a separate NIC with its own tags, regions, VIs and error handler.
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

/// Closes a NIC, with its remaining regions and tags. Fails if the NIC has VIs, completion queues or unanswered
/// requests.
#[unsafe(no_mangle)]
pub extern "C" fn VipCloseNic(nic: Handle) -> ReturnCode {
    enter(|| {
        // Runs the callbacks that have waited because no thread could be started.
        let core = NICS.find(nic)?.core.clone();
        core.nic.run_callbacks();
        drop(core);
        let core = NICS.remove(nic, |OpenNic { core }| {
            Arc::try_unwrap(core).map_err(|core| (OpenNic { core }, ReturnCode::ErrorResource))
        })?;
        // Later errors would be about objects that the program does not have any more.
        core.nic.set_error_handler(None);
        Ok(())
    })
}

/// Returns a NIC's attributes.
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
        // The default tag cannot be destroyed by the null handle either.
        let ptag = nic.core.ptag(ptag)?.ok_or(ReturnCode::InvalidPtag)?;
        nic.core.first_tag.destroy(&nic.core.nic, ptag).map_err(|error| error.code())
    })
}
