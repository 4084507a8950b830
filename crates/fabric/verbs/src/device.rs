//! A device that is open.

use crate::api::{Api, Error, number};
use crate::manager::Id;
use crate::sys::*;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::sync::Arc;

/// A device, open for as long as an identifier is bound to it.
#[derive(Debug)]
pub struct Device {
    pub(crate) api: &'static Api,
    pub(crate) context: *mut ibv_context,
    port: u8,
    /// Keeps the library's context open.
    id: Id,
}

// SAFETY: the libraries may be called by any thread, with the same objects at once.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What a device offers.
#[derive(Debug, Clone, Copy)]
pub struct Offers {
    /// Work requests of one queue.
    pub work: u32,
    /// Segments of one request.
    pub segments: u32,
    /// Segments of an RDMA read.
    pub read_segments: u32,
    /// Entries of a completion queue.
    pub entries: u32,
    /// Queue pairs.
    pub pairs: u32,
    /// Completion queues.
    pub queues: u32,
    /// Regions.
    pub regions: u32,
    /// Protection domains.
    pub domains: u32,
    /// Bytes of one region.
    pub region: u64,
    /// RDMA reads that a queue pair has under way, as the one that reads and as the one that is read.
    pub reads: u8,
    /// Bytes of one message.
    pub message: u32,
    /// Bytes of one packet.
    pub mtu: u32,
    /// Whether the port is up.
    pub is_up: bool,
}

impl Device {
    /// The device to which an identifier has been bound.
    ///
    /// # Errors
    /// [`Error::Call`]: the identifier's address is not one of a NIC for RDMA.
    pub fn of(id: Id) -> Result<Arc<Device>, Error> {
        let (context, port) = id.bound().ok_or(Error::returned("rdma_bind_addr", libc::ENODEV))?;
        Ok(Arc::new(Device { api: id.api(), context, port, id }))
    }

    /// The identifier that keeps it open: where it listens.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Its name, as of `ibv_devices`.
    pub fn name(&self) -> String {
        // SAFETY: the context is open, so its device exists; the name is a string of the device's.
        unsafe {
            let name = (self.api.ibv_get_device_name)((*self.context).device);
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// What it offers.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn offers(&self) -> Result<Offers, Error> {
        let mut device = MaybeUninit::<ibv_device_attr>::zeroed();
        let mut port = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the context is open; the functions fill in structures of these sizes. All zero is a value of both.
        let (device, port) = unsafe {
            let asked = (self.api.ibv_query_device)(self.context, device.as_mut_ptr());
            number("ibv_query_device", asked)?;
            let asked = (self.api.ibv_query_port)(self.context, self.port, port.as_mut_ptr());
            number("ibv_query_port", asked)?;
            (device.assume_init(), port.assume_init())
        };
        let some = |n: i32| n.max(0) as u32;
        Ok(Offers {
            work: some(device.max_qp_wr),
            segments: some(device.max_sge).max(1),
            read_segments: some(device.max_sge_rd).max(1),
            entries: some(device.max_cqe),
            pairs: some(device.max_qp),
            queues: some(device.max_cq),
            regions: some(device.max_mr),
            domains: some(device.max_pd),
            region: device.max_mr_size,
            reads: device.max_qp_rd_atom.min(device.max_qp_init_rd_atom).clamp(0, 16) as u8,
            message: port.max_msg_sz,
            // The header's numbers for 256 to 4096 bytes are 1 to 5.
            mtu: 128 << port.active_mtu.clamp(1, 5),
            is_up: port.state == 4,
        })
    }

    /// The descriptor that has the device's own events; they are read and dropped by no function here.
    pub fn driver(&self) -> i32 {
        // SAFETY: the context is open.
        unsafe { (*self.context).async_fd }
    }
}

/// A protection domain: queue pairs use registrations of their own domain alone.
#[derive(Debug)]
pub struct Domain {
    pub(crate) device: Arc<Device>,
    pub(crate) raw: *mut ibv_pd,
}

// SAFETY: as for `Device`.
unsafe impl Send for Domain {}
// SAFETY: as for `Device`.
unsafe impl Sync for Domain {}

impl Domain {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(device: &Arc<Device>) -> Result<Arc<Domain>, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { (device.api.ibv_alloc_pd)(device.context) };
        if raw.is_null() {
            return Err(Error::last("ibv_alloc_pd"));
        }
        Ok(Arc::new(Domain { device: device.clone(), raw }))
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: what was made in it holds on to it, so nothing is left in it; this is its last use.
        unsafe { (self.device.api.ibv_dealloc_pd)(self.raw) };
    }
}
