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

/// Bytes of a registered region that a request names, by the region's local key. Which bytes may be used the device
/// checks, when it uses them.
pub type Segment = ibv_sge;

/// Bytes of the peer's memory.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    /// Address of the first one.
    pub address: u64,
    /// The region's remote key.
    pub key: u32,
}

/// What a request of the send queue does.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// A message.
    Send,
    /// An RDMA write.
    Write(Remote),
    /// An RDMA read.
    Read(Remote),
}

/// A queue pair. Dropping it ends it: when that returns, the device uses nothing of it any more.
#[derive(Debug)]
pub struct Pair {
    raw: *mut ibv_qp,
    domain: Arc<Domain>,
    /// Used until it is gone.
    cq: Arc<Cq>,
    post_send: PostSend,
    post_recv: PostRecv,
    inline_max: u32,
}

// SAFETY: as for `Device`.
unsafe impl Send for Pair {}
// SAFETY: as for `Device`.
unsafe impl Sync for Pair {}

/// Bytes that a request can carry itself are copied here first.
const INLINE: usize = 256;

/// The device has not taken a request: the number of its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the device refused a request: {}", std::io::Error::from_raw_os_error(*.0))]
pub struct NotPosted(pub i32);

/// What a driver says of a request.
#[inline(always)]
fn posted(result: i32) -> Result<(), NotPosted> {
    if result == 0 { Ok(()) } else { Err(refused(result)) }
}

#[cold]
fn refused(result: i32) -> NotPosted {
    NotPosted(if result == -1 { Error::last("").errno().unwrap_or(0) } else { result })
}

/// How large a queue pair is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Requests of the send queue.
    pub sends: u32,
    /// Requests of the receive queue.
    pub receives: u32,
    /// Segments of each.
    pub segments: u32,
    /// Bytes that a send carries itself, at most; the device may not offer as many.
    pub inline: u32,
}

impl Pair {
    /// A queue pair whose requests end in `cq`.
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
        // SAFETY: domain and queue exist, and stay until the pair is gone.
        let mut raw = unsafe { (api.ibv_create_qp)(domain.raw, &mut attributes) };
        if raw.is_null() && inline > 0 {
            attributes.cap.max_inline_data = 0;
            // SAFETY: as above.
            raw = unsafe { (api.ibv_create_qp)(domain.raw, &mut attributes) };
        }
        if raw.is_null() {
            return Err(Error::last("ibv_create_qp"));
        }
        live::PAIRS.more();
        // SAFETY: the context exists, and its driver has filled the functions in.
        let ops = unsafe { &(*domain.device.context).ops };
        let (Some(post_send), Some(post_recv)) = (ops.post_send, ops.post_recv) else {
            // SAFETY: this is its only use.
            unsafe { (api.ibv_destroy_qp)(raw) };
            live::PAIRS.fewer();
            return Err(Error::returned("ibv_create_qp", libc::ENOSYS));
        };
        let inline_max = attributes.cap.max_inline_data.min(inline);
        Ok(Pair { raw, domain: domain.clone(), cq: cq.clone(), post_send, post_recv, inline_max })
    }

    /// Where its requests end.
    pub fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }

    /// Bytes that a send may carry itself.
    pub fn inline_max(&self) -> u32 {
        self.inline_max
    }

    /// Its number, which the far side's identifier wants.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair exists; the number never changes.
        unsafe { (*self.raw).qp_num }
    }

    /// Takes receives from now on, for a connection that is being made with `id`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn start(&self, id: &Id) -> Result<(), Error> {
        self.change(id, value::IBV_QPS_INIT, |_, _| ())
    }

    /// Receives and sends from now on: the identifier knows the far side's pair. A message that meets no receive is not tried again. The peer
    /// may do what `rights` say to regions that allow it.
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

    /// To a state by the attributes that the identifier has for it.
    fn change(
        &self,
        id: &Id,
        state: u32,
        adapt: impl FnOnce(&mut ibv_qp_attr, &mut u32),
    ) -> Result<(), Error> {
        let (mut attributes, mut mask) = id.attributes_for(state)?;
        adapt(&mut attributes, &mut mask);
        // SAFETY: the pair exists; the attributes are complete for the mask.
        let changed = unsafe {
            (self.domain.device.api.ibv_modify_qp)(self.raw, &mut attributes, mask as i32)
        };
        number("ibv_modify_qp", changed)
    }

    /// Ends it for good: requests that are under way end in errors.
    pub fn fail(&self) {
        // SAFETY: all zero is a value of the structure; of it the state alone is looked at.
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
    /// [`NotPosted`]: the queue is full, or the pair is not there yet.
    #[inline(always)]
    pub fn post_receive(&self, name: u64, segments: &[Segment]) -> Result<(), NotPosted> {
        let mut request = ibv_recv_wr {
            wr_id: name,
            next: core::ptr::null_mut(),
            // The library does not write to it.
            sg_list: segments.as_ptr().cast_mut(),
            num_sge: segments.len() as i32,
        };
        let mut bad = core::ptr::null_mut();
        // SAFETY: the pair exists; request and segments are read during the call alone. The memory that they name is the device's to
        // check, and stays while it is registered.
        posted(unsafe { (self.post_recv)(self.raw, &mut request, &mut bad) })
    }

    /// Posts a request to the send queue, which is told of when it is done.
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

    /// Posts a send or an RDMA write of bytes that the request carries itself, at most [`Pair::inline_max`]: they are free
    /// again when this returns.
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
        // SAFETY: the bytes are those of a slice, or there are none.
        unsafe { self.post_carried(name, work, segment, immediate, fenced) }
    }

    /// As [`Pair::post_inline`], of so many bytes of memory from a place on.
    ///
    /// # Errors
    /// [`NotPosted`]; EFAULT if not all of them are within.
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
        // SAFETY: the bytes are within the memory, which is valid while it lives.
        unsafe { self.post_carried(name, work, segment, immediate, fenced) }
    }

    /// Posts a request that carries its bytes itself.
    ///
    /// # Safety
    /// The segment's bytes are valid for reads during the call.
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
        // SAFETY: the pair exists; request and segments are read during the call alone, and with IBV_SEND_INLINE, which
        // `post_carried` alone sets, the bytes as well, which its callers have. Other memory is the device's to check, and stays
        // while it is registered.
        posted(unsafe { (self.post_send)(self.raw, &mut request, &mut bad) })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: it exists, and this is its last use.
        unsafe { (self.domain.device.api.ibv_destroy_qp)(self.raw) };
        live::PAIRS.fewer();
    }
}
