//! An open device.

use crate::api::{Api, Error, number};
use crate::manager::Id;
use crate::sys::*;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::sync::Arc;

/// A device, which stays open while an identifier is bound to it.
#[derive(Debug)]
pub struct Device {
    pub(crate) api: &'static Api,
    pub(crate) context: *mut ibv_context,
    port: u8,
    /// Keeps the library's context open.
    id: Id,
}

// SAFETY: libibverbs and librdmacm are thread-safe: any threads may call them with the same objects at once.
unsafe impl Send for Device {}
// SAFETY: libibverbs and librdmacm are thread-safe: any threads may call them with the same objects at once.
unsafe impl Sync for Device {}

/// Limits and state of a device and its port.
#[derive(Debug, Clone, Copy)]
pub struct Offers {
    /// Largest number of work requests in one queue.
    pub work: u32,
    /// Largest number of segments in one request.
    pub segments: u32,
    /// Largest number of segments in an RDMA read.
    pub read_segments: u32,
    /// Largest number of entries in a completion queue.
    pub entries: u32,
    /// Largest number of queue pairs.
    pub pairs: u32,
    /// Largest number of completion queues.
    pub queues: u32,
    /// Largest number of registered regions.
    pub regions: u32,
    /// Largest number of protection domains.
    pub domains: u32,
    /// Largest size of a region, in bytes.
    pub region: u64,
    /// Largest number of RDMA reads in progress on a queue pair, as reader and as target.
    pub reads: u8,
    /// Largest size of a message, in bytes.
    pub message: u32,
    /// Largest size of a packet, in bytes.
    pub mtu: u32,
    /// True if the port is up.
    pub is_up: bool,
}

impl Device {
    /// Returns the device to which an identifier is bound.
    ///
    /// # Errors
    /// [`Error::Call`]: the identifier's address does not belong to an RDMA NIC.
    pub fn of(id: Id) -> Result<Arc<Device>, Error> {
        let (context, port) = id.bound().ok_or(Error::returned("rdma_bind_addr", libc::ENODEV))?;
        Ok(Arc::new(Device { api: id.api(), context, port, id }))
    }

    /// Returns the identifier that keeps the device open. It listens at the device's address.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Returns the device's name, as `ibv_devices` prints it.
    pub fn name(&self) -> String {
        // SAFETY: the context is open, so its device exists. The device owns the name, and the name is copied here.
        unsafe {
            let name = (self.api.ibv_get_device_name)((*self.context).device);
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// Queries the device's limits and the state of its port.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn offers(&self) -> Result<Offers, Error> {
        let mut device = MaybeUninit::<ibv_device_attr>::zeroed();
        let mut port = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the context is open. The functions fill in structures of these types, for which all zeroes are a
        // valid value.
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
            // The header's values 1 to 5 mean 256 to 4096 bytes.
            mtu: 128 << port.active_mtu.clamp(1, 5),
            is_up: port.state == 4,
        })
    }

    /// Returns the descriptor of the device's own events. No function here reads these events.
    pub fn driver(&self) -> i32 {
        // SAFETY: the context is open until `self` is dropped.
        unsafe { (*self.context).async_fd }
    }
}

/// A protection domain. Queue pairs can use only registrations in their own domain.
#[derive(Debug)]
pub struct Domain {
    pub(crate) device: Arc<Device>,
    pub(crate) raw: *mut ibv_pd,
}

// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Send for Domain {}
// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Sync for Domain {}

impl Domain {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(device: &Arc<Device>) -> Result<Arc<Domain>, Error> {
        // SAFETY: `device` keeps the context open.
        let raw = unsafe { (device.api.ibv_alloc_pd)(device.context) };
        if raw.is_null() {
            return Err(Error::last("ibv_alloc_pd"));
        }
        Ok(Arc::new(Domain { device: device.clone(), raw }))
    }

    /// Returns the domain's device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: each object in the domain holds a reference to the domain, so no object is left. This is the domain's
        // last use.
        unsafe { (self.device.api.ibv_dealloc_pd)(self.raw) };
    }
}
