//! Completion queues.

use crate::object::{Dom, code, hand_out, long_code, of, ops, strerror, take_back};
use crate::types::{CqAttr, CqEntry, CqErrEntry, Fid, FidCq, FidDomain, Ops, OpsCq, class};
use crate::wait::{WAITS, Wait};
use core::ffi::{c_char, c_int, c_void};
use sovia_fi::completion::{Completion, Queue, WORDS};
use sovia_fi::{Domain, Error, domain};
use std::sync::Arc;

static OPS: Ops = ops(close);
static CQ: OpsCq = OpsCq {
    size: size_of::<OpsCq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror: text,
};

/// A program's completion queue.
#[derive(Debug)]
#[repr(C)]
pub struct Cq {
    fid: FidCq,
    /// The domain of the queue.
    pub inner: Arc<Domain>,
    /// The queue's number in the domain.
    pub at: usize,
    /// Bytes of an entry. Each format is a prefix of the longest one.
    entry: usize,
}

/// `fi_cq_open`.
pub unsafe extern "C" fn cq_open(
    dom: *mut FidDomain,
    attr: *mut CqAttr,
    cq: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let (format, wait) = attr.as_ref().map_or((0, 0), |attr| (attr.format, attr.wait_obj));
        if !WAITS.contains(&wait) {
            return code(Err(Error::NO_SYSTEM));
        }
        let entry = match format {
            // `FI_CQ_FORMAT_UNSPEC` lets the provider choose the format.
            0 | 4 => 48,
            1 => 8,
            2 => 24,
            3 => 40,
            _ => return code(Err(Error::INVALID)),
        };
        if let Some(attr) = attr.as_mut() {
            attr.format = if format == 0 { 4 } else { format };
        }
        let inner = Arc::clone(&of::<Dom>(dom).inner);
        let at = domain::insert(&mut inner.enter().common.queues, Queue::default());
        let fid = Fid { class: class::CQ, context, ops: &OPS };
        hand_out(Cq { fid: FidCq { fid, ops: &CQ }, inner, at, entry }, cq);
    }
    0
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let cq = unsafe { of::<Cq>(fid) };
    {
        let mut state = cq.inner.enter();
        if state.queue(cq.at).is_ok_and(|queue| queue.is_used()) {
            return code(Err(Error::BUSY));
        }
        state.common.queues[cq.at] = None;
    }
    // SAFETY: C's caller passes an open queue, and does not use the queue after this call.
    drop(unsafe { take_back::<Cq>(fid) });
    0
}

impl Cq {
    /// Reads up to `count` entries. If the queue is empty, first drives the queue's endpoints.
    ///
    /// # Safety
    /// `to` must have room for `count` entries. `sources` must be null or have room for `count` sources.
    #[inline]
    unsafe fn read(&self, to: *mut u8, count: usize, sources: *mut u64) -> isize {
        let mut state = self.inner.enter();
        match state.queue(self.at) {
            Ok(queue) if queue.is_empty() => state.progress_of_queue(self.at),
            Ok(_) => {}
            Err(error) => return long_code(Err(error)),
        }
        let Ok(queue) = state.queue(self.at) else { return long_code(Err(Error::INVALID)) };
        let mut n = 0;
        while n < count {
            // SAFETY: `n` is less than `count`, for which `to` has room. Entries consist of whole words.
            let entry = unsafe { to.add(n * self.entry).cast::<u64>() };
            let taken = if self.entry == 8 * WORDS {
                // SAFETY: `entry` has room for all words of the longest format.
                queue.take(|i, word| unsafe { entry.add(i).write(word) })
            } else {
                queue.take(|i, word| {
                    if i < self.entry / 8 {
                        // SAFETY: the word lies within the entry's format, for which `entry` has room.
                        unsafe { entry.add(i).write(word) };
                    }
                })
            };
            match taken {
                Ok(source) => {
                    if !sources.is_null() {
                        // SAFETY: `sources` is not null, so it has room for `count` sources.
                        unsafe { *sources.add(n) = source };
                    }
                    n += 1;
                }
                Err(_) if n > 0 => break,
                Err(error) => return long_code(Err(error)),
            }
        }
        n as isize
    }

    /// Like [`Cq::read`], but waits up to `timeout` milliseconds for an entry.
    ///
    /// # Safety
    /// The contract of [`Cq::read`] applies.
    unsafe fn wait(&self, to: *mut u8, count: usize, sources: *mut u64, timeout: c_int) -> isize {
        let mut wait = Wait::new(timeout);
        loop {
            // SAFETY: this function has the contract of `read`.
            let n = unsafe { self.read(to, count, sources) };
            if n != -(libc::EAGAIN as isize) {
                return n;
            }
            if self.inner.enter().queue(self.at).is_ok_and(Queue::take_signal) || !wait.go_on() {
                return n;
            }
        }
    }
}

#[inline]
fn entry_of(completion: &Completion) -> CqEntry {
    CqEntry {
        op_context: completion.context as *mut c_void,
        flags: completion.flags,
        len: completion.len,
        buf: completion.buffer as *mut c_void,
        data: completion.data,
        tag: completion.tag,
    }
}

/// Returns true if a thread may sleep until the queue's descriptor is readable.
///
/// # Safety
/// `fid` must be an open completion queue.
pub(crate) unsafe fn may_sleep(fid: *mut Fid) -> bool {
    // SAFETY: this function's contract is that `fid` is an open completion queue.
    let cq = unsafe { of::<Cq>(fid) };
    cq.inner.enter().queue(cq.at).is_ok_and(|queue| queue.is_empty())
}

unsafe extern "C" fn read(cq: *mut FidCq, to: *mut c_void, count: usize) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cq>(cq).read(to.cast(), count, core::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cq>(cq).read(to.cast(), count, sources) }
}

unsafe extern "C" fn sread(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cq>(cq).wait(to.cast(), count, core::ptr::null_mut(), timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut u64,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cq>(cq).wait(to.cast(), count, sources, timeout) }
}

unsafe extern "C" fn readerr(cq: *mut FidCq, to: *mut CqErrEntry, _: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let cq = unsafe { of::<Cq>(cq) };
    let failure = cq.inner.enter().queue(cq.at).map(Queue::take_failure);
    let Ok(Some(failure)) = failure else { return long_code(Err(Error::AGAIN)) };
    let CqEntry { op_context, flags, len, buf, data, tag } = entry_of(&failure.completion);
    let (err, olen) = (failure.error.0, failure.excess);
    // SAFETY: C's caller passes an entry. In programs written for versions before 1.5, the entry lacks the last word,
    // which this code does not write.
    unsafe {
        let to = &mut *to;
        (to.op_context, to.flags, to.len, to.buf) = (op_context, flags, len, buf);
        (to.data, to.tag, to.olen, to.err, to.prov_errno) = (data, tag, olen, err, err);
        to.err_data = core::ptr::null_mut();
    }
    1
}

unsafe extern "C" fn signal(cq: *mut FidCq) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let cq = unsafe { of::<Cq>(cq) };
    code(cq.inner.enter().queue(cq.at).map(Queue::signal))
}

unsafe extern "C" fn text(
    _: *mut FidCq,
    number: c_int,
    _: *const c_void,
    to: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { strerror(number, to, len) }
}
