//! Completion queues, and the channel on which a thread sleeps until a queue has an entry.

use crate::api::{Error, number};
use crate::device::Device;
use crate::live;
use crate::sys::*;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use std::sync::Arc;

/// Reports entries in completion queues by a descriptor.
#[derive(Debug)]
pub struct Channel {
    raw: *mut ibv_comp_channel,
    device: Arc<Device>,
}

// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Send for Channel {}
// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Sync for Channel {}

impl Channel {
    /// Makes a channel with a non-blocking descriptor.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(device: &Arc<Device>) -> Result<Arc<Channel>, Error> {
        // SAFETY: `device` keeps the context open.
        let raw = unsafe { (device.api.ibv_create_comp_channel)(device.context) };
        if raw.is_null() {
            return Err(Error::last("ibv_create_comp_channel"));
        }
        let channel = Arc::new(Channel { raw, device: device.clone() });
        crate::manager::set_nonblocking(channel.descriptor())?;
        Ok(channel)
    }

    /// Returns a descriptor for poll. The descriptor is readable while an event waits.
    pub fn descriptor(&self) -> i32 {
        // SAFETY: the channel exists until `self` is dropped.
        unsafe { (*self.raw).fd }
    }

    /// Takes an event: returns the name of an armed queue that has got an entry; `None` if there is no event.
    pub fn news(&self) -> Option<u64> {
        let mut cq = core::ptr::null_mut();
        let mut context: *mut c_void = core::ptr::null_mut();
        // SAFETY: the channel exists until `self` is dropped. A call that returns 0 has written both results. The queue
        // cannot be destroyed before its event is acknowledged, and this code acknowledges the event at once.
        unsafe {
            if (self.device.api.ibv_get_cq_event)(self.raw, &mut cq, &mut context) != 0 {
                return None;
            }
            (self.device.api.ibv_ack_cq_events)(cq, 1);
        }
        Some(context as u64)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: each queue holds a reference to its channel, so no queue is left. This is the channel's last use.
        unsafe { (self.device.api.ibv_destroy_comp_channel)(self.raw) };
    }
}

/// Status of a completed request, with the number from the C header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(pub u32);

/// A completed request.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// Name that the program gave the request.
    pub name: u64,
    /// Result of the request.
    pub status: WcStatus,
    /// Number of bytes received.
    pub length: u32,
    /// Immediate data of the message.
    pub immediate: Option<u32>,
    /// True for a receive that an RDMA write has consumed.
    pub is_remote_write: bool,
}

/// Number of entries that one call takes.
const BATCH: usize = 8;

/// Completed requests, oldest first.
#[derive(Debug)]
pub struct Batch {
    entries: [MaybeUninit<ibv_wc>; BATCH],
    /// Number of entries that the driver has filled in.
    len: usize,
}

impl Batch {
    /// Makes an empty batch.
    #[inline]
    pub fn new() -> Batch {
        Batch { entries: [const { MaybeUninit::uninit() }; BATCH], len: 0 }
    }

    /// Returns true if the batch has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the queue may have more entries.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = Completion;
    type IntoIter = core::iter::Map<
        core::slice::Iter<'a, MaybeUninit<ibv_wc>>,
        fn(&MaybeUninit<ibv_wc>) -> Completion,
    >;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.entries[..self.len].iter().map(read)
    }
}

/// Converts an entry that the driver has filled in.
#[inline]
fn read(entry: &MaybeUninit<ibv_wc>) -> Completion {
    let wc = entry.as_ptr();
    // SAFETY: `Batch::into_iter` passes only entries that the driver has filled in. After an error, the driver leaves
    // some fields uninitialized, and this code does not read them.
    let wc = unsafe {
        let (name, status) = ((*wc).wr_id, WcStatus((*wc).status));
        if status.0 != value::IBV_WC_SUCCESS {
            return Completion { name, status, length: 0, immediate: None, is_remote_write: false };
        }
        &*wc
    };
    let immediate = wc.wc_flags & value::IBV_WC_WITH_IMM != 0;
    Completion {
        name: wc.wr_id,
        status: WcStatus(wc.status),
        length: wc.byte_len,
        immediate: immediate.then(|| u32::from_be(wc.imm_data)),
        is_remote_write: wc.opcode == value::IBV_WC_RECV_RDMA_WITH_IMM,
    }
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    pub(crate) raw: *mut ibv_cq,
    channel: Arc<Channel>,
    poll: PollCq,
    arm: ReqNotifyCq,
}

// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Send for Cq {}
// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Sync for Cq {}

impl Cq {
    /// Makes a queue for `entries` completions. The channel's events report `name`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(channel: &Arc<Channel>, entries: u32, name: u64) -> Result<Arc<Cq>, Error> {
        let device = &channel.device;
        // SAFETY: the context and the channel exist: the new queue holds references to both.
        let raw = unsafe {
            let create = device.api.ibv_create_cq;
            create(device.context, entries as i32, name as *mut c_void, channel.raw, 0)
        };
        if raw.is_null() {
            return Err(Error::last("ibv_create_cq"));
        }
        live::CQS.more();
        // SAFETY: the context is open, and its driver has filled in the functions.
        let ops = unsafe { &(*device.context).ops };
        let (Some(poll), Some(arm)) = (ops.poll_cq, ops.req_notify_cq) else {
            // SAFETY: the queue was created above, and this is its only use.
            unsafe { (device.api.ibv_destroy_cq)(raw) };
            live::CQS.fewer();
            return Err(Error::returned("ibv_create_cq", libc::ENOSYS));
        };
        Ok(Arc::new(Cq { raw, channel: channel.clone(), poll, arm }))
    }

    /// Takes the oldest entries by one call of the driver. They replace the contents of `batch`.
    #[inline]
    pub fn poll(&self, batch: &mut Batch) {
        // SAFETY: the queue exists until `self` is dropped. The driver fills in as many entries as it returns, and
        // `batch` has room for `BATCH`.
        let found = unsafe {
            (self.poll)(self.raw, BATCH as i32, batch.entries.as_mut_ptr().cast::<ibv_wc>())
        };
        // A negative result is an error. The batch is empty then.
        batch.len = usize::try_from(found).unwrap_or(0).min(BATCH);
    }

    /// Arms the queue: the channel will report the next entry. The channel does not report entries that are there
    /// already, so poll the queue once more after this call.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn arm(&self) -> Result<(), Error> {
        // SAFETY: the queue exists until `self` is dropped.
        number("ibv_req_notify_cq", unsafe { (self.arm)(self.raw, 0) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: each queue pair holds a reference to its queue, so no queue pair is left. This is the queue's last
        // use.
        unsafe { (self.channel.device.api.ibv_destroy_cq)(self.raw) };
        live::CQS.fewer();
    }
}
