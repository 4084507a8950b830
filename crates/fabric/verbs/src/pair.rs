//! Reliable-connected queue pairs.

use crate::api::{Error, number};
use crate::completion::Cq;
use crate::device::Domain;
use crate::live;
use crate::manager::Id;
use crate::region::Rights;
use crate::sys::*;
use core::mem::MaybeUninit;
use std::sync::Arc;
use via::Memory;

/// Bytes of a registered region, which a request names by the region's local key. The device checks the key and the
/// range when it uses the bytes.
pub type Segment = ibv_sge;

/// Bytes of the peer's memory.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    /// Address of the first byte.
    pub address: u64,
    /// Remote key of the region.
    pub key: u32,
}

/// Operation of a send-queue request.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Sends a message.
    Send,
    /// Does an RDMA write.
    Write(Remote),
    /// Does an RDMA read.
    Read(Remote),
}

/// A queue pair. After the drop returns, the device uses no memory of the pair's requests.
#[derive(Debug)]
pub struct Pair {
    raw: *mut ibv_qp,
    domain: Arc<Domain>,
    /// The device puts completions into this queue until the pair is destroyed.
    cq: Arc<Cq>,
    post_send: PostSend,
    post_recv: PostRecv,
    inline_max: u32,
}

// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Send for Pair {}
// SAFETY: libibverbs is thread-safe: any threads may call it with the same objects at once.
unsafe impl Sync for Pair {}

/// Size of the buffer for the bytes of a request that carries its bytes itself.
const INLINE: usize = 256;

/// The device has refused a request, with this error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the device refused a request: {}", std::io::Error::from_raw_os_error(*.0))]
pub struct NotPosted(pub i32);

/// Converts a driver's result for a posted request.
#[inline(always)]
fn posted(result: i32) -> Result<(), NotPosted> {
    if result == 0 { Ok(()) } else { Err(refused(result)) }
}

#[cold]
fn refused(result: i32) -> NotPosted {
    NotPosted(if result == -1 { Error::last("").errno().unwrap_or(0) } else { result })
}

/// Capacities of a queue pair.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Requests in the send queue.
    pub sends: u32,
    /// Requests in the receive queue.
    pub receives: u32,
    /// Segments in each request.
    pub segments: u32,
    /// Largest number of bytes that a send carries itself. The device may offer fewer.
    pub inline: u32,
}

impl Pair {
    /// Makes a queue pair whose completions go to `cq`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(domain: &Arc<Domain>, cq: &Arc<Cq>, size: Size) -> Result<Pair, Error> {
        let api = domain.device.api;
        let inline = size.inline.min(INLINE as u32);
        let mut attributes = ibv_qp_init_attr {
            qp_context: core::ptr::null_mut(),
            send_cq: cq.raw,
            recv_cq: cq.raw,
            srq: core::ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: size.sends,
                max_recv_wr: size.receives,
                max_send_sge: size.segments,
                max_recv_sge: size.segments,
                max_inline_data: inline,
            },
            qp_type: value::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: the new pair holds references to the domain and the queue, so both exist as long as the pair.
        let mut raw = unsafe { (api.ibv_create_qp)(domain.raw, &mut attributes) };
        if raw.is_null() && inline > 0 {
            attributes.cap.max_inline_data = 0;
            // SAFETY: the new pair holds references to the domain and the queue, so both exist as long as the pair.
            raw = unsafe { (api.ibv_create_qp)(domain.raw, &mut attributes) };
        }
        if raw.is_null() {
            return Err(Error::last("ibv_create_qp"));
        }
        live::PAIRS.more();
        // SAFETY: the context is open, and its driver has filled in the functions.
        let ops = unsafe { &(*domain.device.context).ops };
        let (Some(post_send), Some(post_recv)) = (ops.post_send, ops.post_recv) else {
            // SAFETY: the pair was created above, and this is its only use.
            unsafe { (api.ibv_destroy_qp)(raw) };
            live::PAIRS.fewer();
            return Err(Error::returned("ibv_create_qp", libc::ENOSYS));
        };
        let inline_max = attributes.cap.max_inline_data.min(inline);
        Ok(Pair { raw, domain: domain.clone(), cq: cq.clone(), post_send, post_recv, inline_max })
    }

    /// Returns the pair's completion queue.
    pub fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }

    /// Returns the largest number of bytes that a send may carry itself.
    pub fn inline_max(&self) -> u32 {
        self.inline_max
    }

    /// Returns the pair's number, which the peer's identifier needs.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair exists until `self` is dropped, and its number never changes.
        unsafe { (*self.raw).qp_num }
    }

    /// Makes the pair accept posted receives, for a new connection of `id`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn start(&self, id: &Id) -> Result<(), Error> {
        self.change(id, value::IBV_QPS_INIT, |_, _| ())
    }

    /// Makes the pair receive and send. The identifier must know the peer's pair. The pair does not retry a message
    /// that finds no posted receive. `rights` limits the peer's RDMA, in addition to the rights of each region.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn connect(&self, id: &Id, rights: Rights) -> Result<(), Error> {
        let mut access = value::IBV_ACCESS_LOCAL_WRITE;
        if rights.write {
            access |= value::IBV_ACCESS_REMOTE_WRITE;
        }
        if rights.read {
            access |= value::IBV_ACCESS_REMOTE_READ;
        }
        self.change(id, value::IBV_QPS_INIT, |attributes, mask| {
            attributes.qp_access_flags = access;
            *mask |= value::IBV_QP_ACCESS_FLAGS;
        })?;
        self.change(id, value::IBV_QPS_RTR, |_, _| ())?;
        self.change(id, value::IBV_QPS_RTS, |attributes, mask| {
            attributes.rnr_retry = 0;
            attributes.retry_cnt = 7;
            *mask |= value::IBV_QP_RNR_RETRY | value::IBV_QP_RETRY_CNT;
        })
    }

    /// Brings the pair to `state`, with the identifier's attributes for this state, which `adapt` may change.
    fn change(
        &self,
        id: &Id,
        state: u32,
        adapt: impl FnOnce(&mut ibv_qp_attr, &mut u32),
    ) -> Result<(), Error> {
        let (mut attributes, mut mask) = id.attributes_for(state)?;
        adapt(&mut attributes, &mut mask);
        // SAFETY: the pair exists until `self` is dropped, and every attribute in the mask is filled in.
        let changed = unsafe {
            (self.domain.device.api.ibv_modify_qp)(self.raw, &mut attributes, mask as i32)
        };
        number("ibv_modify_qp", changed)
    }

    /// Puts the pair into the error state for good. Requests in progress end in errors.
    pub fn fail(&self) {
        // SAFETY: the pair exists until `self` is dropped. All zeroes are a valid value of the structure, and the
        // library reads only the state.
        unsafe {
            let mut attributes = MaybeUninit::<ibv_qp_attr>::zeroed().assume_init();
            attributes.qp_state = value::IBV_QPS_ERR;
            let mask = value::IBV_QP_STATE as i32;
            (self.domain.device.api.ibv_modify_qp)(self.raw, &mut attributes, mask);
        }
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`NotPosted`]: the queue is full, or [`Pair::start`] has not been called.
    #[inline(always)]
    pub fn post_receive(&self, name: u64, segments: &[Segment]) -> Result<(), NotPosted> {
        let mut request = ibv_recv_wr {
            wr_id: name,
            next: core::ptr::null_mut(),
            // The library does not write to the segments.
            sg_list: segments.as_ptr().cast_mut(),
            num_sge: segments.len() as i32,
        };
        let mut bad = core::ptr::null_mut();
        // SAFETY: the pair exists until `self` is dropped. The driver reads request and segments only during the call.
        // The device checks the keys of the memory that the segments name, and registered memory stays valid.
        posted(unsafe { (self.post_recv)(self.raw, &mut request, &mut bad) })
    }

    /// Posts a request to the send queue. The completion queue reports its end.
    ///
    /// # Errors
    /// [`NotPosted`]: the queue is full, or the pair is not connected.
    #[inline(always)]
    pub fn post_send(
        &self,
        name: u64,
        work: Work,
        segments: &[Segment],
        immediate: Option<u32>,
        fenced: bool,
    ) -> Result<(), NotPosted> {
        let mut flags = value::IBV_SEND_SIGNALED;
        if fenced {
            flags |= value::IBV_SEND_FENCE;
        }
        self.post(name, work, segments, immediate, flags)
    }

    /// Posts a send or an RDMA write that carries a copy of `bytes`, at most [`Pair::inline_max`]. The caller may reuse
    /// `bytes` after the call.
    ///
    /// # Errors
    /// [`NotPosted`].
    #[inline(always)]
    pub fn post_inline(
        &self,
        name: u64,
        work: Work,
        bytes: &[u8],
        immediate: Option<u32>,
        fenced: bool,
    ) -> Result<(), NotPosted> {
        let segment = Segment { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 };
        // SAFETY: the segment is empty, or describes the bytes of a live slice.
        unsafe { self.post_carried(name, work, segment, immediate, fenced) }
    }

    /// Like [`Pair::post_inline`], for `length` bytes of `memory` from offset `at`.
    ///
    /// # Errors
    /// [`NotPosted`]; EFAULT if the range is not inside the memory.
    #[inline(always)]
    pub fn post_inline_from(
        &self,
        name: u64,
        work: Work,
        (memory, at, length): (&Memory, usize, u32),
        immediate: Option<u32>,
        fenced: bool,
    ) -> Result<(), NotPosted> {
        let addr = memory.address(at);
        if memory.range(addr, length).is_none() {
            return Err(NotPosted(libc::EFAULT));
        }
        let segment = Segment { addr, length, lkey: 0 };
        // SAFETY: the range was checked to be inside `memory`, which is valid during the call.
        unsafe { self.post_carried(name, work, segment, immediate, fenced) }
    }

    /// Posts a request that carries a copy of its bytes.
    ///
    /// # Safety
    /// The segment's bytes must be valid for reads during the call.
    #[inline(always)]
    unsafe fn post_carried(
        &self,
        name: u64,
        work: Work,
        segment: Segment,
        immediate: Option<u32>,
        fenced: bool,
    ) -> Result<(), NotPosted> {
        if segment.length > self.inline_max {
            return Err(NotPosted(libc::EINVAL));
        }
        let is_empty = segment.length == 0;
        let segments = if is_empty { &[][..] } else { core::slice::from_ref(&segment) };
        let mut flags = value::IBV_SEND_SIGNALED | value::IBV_SEND_INLINE;
        if fenced {
            flags |= value::IBV_SEND_FENCE;
        }
        self.post(name, work, segments, immediate, flags)
    }

    #[inline(always)]
    fn post(
        &self,
        name: u64,
        work: Work,
        segments: &[Segment],
        immediate: Option<u32>,
        flags: u32,
    ) -> Result<(), NotPosted> {
        let (opcode, remote) = match (work, immediate) {
            (Work::Send, None) => (value::IBV_WR_SEND, None),
            (Work::Send, Some(_)) => (value::IBV_WR_SEND_WITH_IMM, None),
            (Work::Write(remote), None) => (value::IBV_WR_RDMA_WRITE, Some(remote)),
            (Work::Write(remote), Some(_)) => (value::IBV_WR_RDMA_WRITE_WITH_IMM, Some(remote)),
            (Work::Read(remote), _) => (value::IBV_WR_RDMA_READ, Some(remote)),
        };
        let remote = remote.unwrap_or(Remote { address: 0, key: 0 });
        let mut request = ibv_send_wr {
            wr_id: name,
            next: core::ptr::null_mut(),
            sg_list: segments.as_ptr().cast_mut(),
            num_sge: segments.len() as i32,
            opcode,
            send_flags: flags,
            imm_data: immediate.unwrap_or(0).to_be(),
            wr: rdma_wr { remote_addr: remote.address, rkey: remote.key },
            _rest: [0; 9],
        };
        let mut bad = core::ptr::null_mut();
        // SAFETY: the pair exists until `self` is dropped. The driver reads request and segments only during the call.
        // With IBV_SEND_INLINE the driver also reads the bytes. Only `post_carried` sets this flag, and its callers
        // pass readable bytes. The device checks the keys of other memory, and registered memory stays valid.
        posted(unsafe { (self.post_send)(self.raw, &mut request, &mut bad) })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: the pair exists, and this is its last use.
        unsafe { (self.domain.device.api.ibv_destroy_qp)(self.raw) };
        live::PAIRS.fewer();
    }
}
