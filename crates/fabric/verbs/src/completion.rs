//! Completion queues, and the channel on which a thread sleeps for them.

use crate::api::{Error, number};
use crate::device::Device;
use crate::live;
use crate::sys::*;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use std::sync::Arc;

/// Tells of entries in completion queues, by a descriptor.
#[derive(Debug)]
pub struct Channel {
    raw: *mut ibv_comp_channel,
    device: Arc<Device>,
}

// SAFETY: as for `Device`.
unsafe impl Send for Channel {}
// SAFETY: as for `Device`.
unsafe impl Sync for Channel {}

impl Channel {
    /// A new one, whose descriptor does not block.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(device: &Arc<Device>) -> Result<Arc<Channel>, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { (device.api.ibv_create_comp_channel)(device.context) };
        if raw.is_null() {
            return Err(Error::last("ibv_create_comp_channel"));
        }
        let channel = Arc::new(Channel { raw, device: device.clone() });
        crate::manager::set_nonblocking(channel.descriptor())?;
        Ok(channel)
    }

    /// What can be polled: readable when there is news.
    pub fn descriptor(&self) -> i32 {
        // SAFETY: the channel exists.
        unsafe { (*self.raw).fd }
    }

    /// The name of a queue that has been armed and has an entry; `None` if there is no news.
    pub fn news(&self) -> Option<u64> {
        let mut cq = core::ptr::null_mut();
        let mut context: *mut c_void = core::ptr::null_mut();
        // SAFETY: the channel exists; both results are written if it returns 0. A queue is not destroyed while an event of its
        // is not acknowledged, which happens at once.
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
        // SAFETY: its queues hold on to it, so there is none; this is its last use.
        unsafe { (self.device.api.ibv_destroy_comp_channel)(self.raw) };
    }
}

/// How a request has ended, with the header's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(pub u32);

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// What the request was named.
    pub name: u64,
    /// How it has ended.
    pub status: WcStatus,
    /// Bytes received.
    pub length: u32,
    /// Immediate data that came with it.
    pub immediate: Option<u32>,
    /// It is a receive that an RDMA write has used.
    pub is_remote_write: bool,
}

/// Entries that one call takes.
const BATCH: usize = 8;

/// Requests that have ended, oldest first.
#[derive(Debug)]
pub struct Batch {
    entries: [MaybeUninit<ibv_wc>; BATCH],
    /// So many of them the driver has filled in.
    len: usize,
}

impl Batch {
    /// Room for some.
    #[inline]
    pub fn new() -> Batch {
        Batch { entries: [const { MaybeUninit::uninit() }; BATCH], len: 0 }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there may be more.
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

/// An entry that the driver has filled in.
#[inline]
fn read(entry: &MaybeUninit<ibv_wc>) -> Completion {
    let wc = entry.as_ptr();
    // SAFETY: `Batch::into_iter` has none but those that are filled in. What of one is not filled in on an error is not looked at.
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

// SAFETY: as for `Device`.
unsafe impl Send for Cq {}
// SAFETY: as for `Device`.
unsafe impl Sync for Cq {}

impl Cq {
    /// A queue for so many entries, which the channel's news name so.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(channel: &Arc<Channel>, entries: u32, name: u64) -> Result<Arc<Cq>, Error> {
        let device = &channel.device;
        // SAFETY: context and channel exist.
        let raw = unsafe {
            let create = device.api.ibv_create_cq;
            create(device.context, entries as i32, name as *mut c_void, channel.raw, 0)
        };
        if raw.is_null() {
            return Err(Error::last("ibv_create_cq"));
        }
        live::CQS.more();
        // SAFETY: the context exists, and its driver has filled the functions in.
        let ops = unsafe { &(*device.context).ops };
        let (Some(poll), Some(arm)) = (ops.poll_cq, ops.req_notify_cq) else {
            // SAFETY: this is its only use.
            unsafe { (device.api.ibv_destroy_cq)(raw) };
            live::CQS.fewer();
            return Err(Error::returned("ibv_create_cq", libc::ENOSYS));
        };
        Ok(Arc::new(Cq { raw, channel: channel.clone(), poll, arm }))
    }

    /// Takes the oldest entries, by one call of the driver, into `batch` instead of what was there.
    #[inline]
    pub fn poll(&self, batch: &mut Batch) {
        // SAFETY: the queue exists; the driver fills in as many entries as it returns, and there is room for them.
        let found = unsafe {
            (self.poll)(self.raw, BATCH as i32, batch.entries.as_mut_ptr().cast::<ibv_wc>())
        };
        // An error is none: there is nothing to be taken.
        batch.len = usize::try_from(found).unwrap_or(0).min(BATCH);
    }

    /// Has the channel tell of the next entry. Those that are there by now it does not tell of: look once more.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn arm(&self) -> Result<(), Error> {
        // SAFETY: the queue exists.
        number("ibv_req_notify_cq", unsafe { (self.arm)(self.raw, 0) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold on to it, so none uses it; this is its last use.
        unsafe { (self.channel.device.api.ibv_destroy_cq)(self.raw) };
        live::CQS.fewer();
    }
}
