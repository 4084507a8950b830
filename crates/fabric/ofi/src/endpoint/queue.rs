//! The completion queue.

use super::{Endpoint, Event};
use crate::arena::Lent;
use crate::leaving::enter;
use crate::object::Object;
use crate::operation::{Kind, Operation};
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};
use sovia_fi_types::{CqAttr, CqEntry, CqErrEntry, FidCq, FidDomain};
use sovia_sys::call::RawFd;

/// `FI_GETWAIT`.
const GETWAIT: c_int = 5;
/// `FI_CQ_FORMAT_MSG`.
const CQ_FORMAT_MSG: c_int = 2;
/// `FI_WAIT_NONE`.
pub(super) const WAIT_NONE: c_int = 0;
/// `FI_WAIT_FD`.
pub(super) const WAIT_FD: c_int = 3;
/// `FI_EAVAIL`: the completion queue has an error entry.
const ERROR_AVAILABLE: isize = 259;

/// Number of completions that one call reads.
pub(super) const AT_ONCE: usize = 16;

/// `struct fi_cq_msg_entry`.
#[repr(C)]
struct MsgEntry {
    context: *mut c_void,
    flags: u64,
    len: usize,
}

/// Opens a completion queue. Returns the queue and its descriptor, if it has one.
///
/// # Safety
/// The domain must be open.
pub(super) unsafe fn open_cq(
    domain: &Object<FidDomain>,
    size: usize,
    wait_obj: c_int,
) -> Result<(Object<FidCq>, Option<RawFd>), c_int> {
    let mut attr = CqAttr {
        size,
        flags: 0,
        format: CQ_FORMAT_MSG,
        wait_obj,
        signaling_vector: 0,
        wait_cond: 0,
        wait_set: null_mut(),
    };
    let mut cq = null_mut();
    // SAFETY: the caller promises an open domain. The queue is open after the first call.
    unsafe {
        let open = (*(*domain.raw()).ops).cq_open;
        let result = open(domain.raw(), &raw mut attr, &raw mut cq, null_mut());
        if result != 0 {
            return Err(result);
        }
        let cq = Object::new(cq).ok_or(libc::ENOMEM)?;
        if wait_obj != WAIT_FD {
            return Ok((cq, None));
        }
        let mut descriptor: c_int = -1;
        let ops = (*cq.fid()).ops;
        let result = ((*ops).control)(cq.fid(), GETWAIT, (&raw mut descriptor).cast());
        if result == 0 && descriptor >= 0 { Ok((cq, Some(descriptor))) } else { Err(result) }
    }
}

impl Endpoint {
    /// Makes progress, and appends the events since the last call to `events`.
    pub fn poll(&mut self, events: &mut Vec<Event>) {
        let Some(_inside) = enter() else { return };
        // SAFETY: all zeroes are a valid entry.
        let mut entries: [CqEntry; AT_ONCE] = unsafe { core::mem::zeroed() };
        loop {
            // SAFETY: the queue is open. Entries of its format are not longer than `CqEntry`, so `AT_ONCE` entries fit.
            let read = unsafe {
                let read = (*(*self.open.cq.raw()).ops).read;
                read(self.open.cq.raw(), entries.as_mut_ptr().cast(), AT_ONCE)
            };
            if read == -ERROR_AVAILABLE {
                self.take_error(events);
                continue;
            }
            let Ok(count) = usize::try_from(read) else { break };
            // SAFETY: the provider has written `count` entries of the queue's format, one after the other.
            let entries = unsafe {
                core::slice::from_raw_parts(entries.as_ptr().cast::<MsgEntry>(), count.min(AT_ONCE))
            };
            for entry in entries {
                self.take(entry.context, entry.len, None, events);
            }
            if count < AT_ONCE {
                break;
            }
        }
        self.flush_inside();
        events.append(&mut self.noted);
    }

    /// Reads the error entry at the head of the queue.
    fn take_error(&mut self, events: &mut Vec<Event>) {
        // SAFETY: all zeroes are a valid entry, without a buffer for the provider's own data.
        let mut entry: CqErrEntry = unsafe { core::mem::zeroed() };
        // SAFETY: the queue is open, and `entry` is a live local.
        let read = unsafe {
            let read = (*(*self.open.cq.raw()).ops).readerr;
            read(self.open.cq.raw(), &raw mut entry, 0)
        };
        if read == 1 {
            self.take(entry.op_context, 0, Some(entry.err), events);
        }
    }

    /// Ends the operation of a completion. The completion has a length, or libfabric's error number `errno`.
    fn take(
        &mut self,
        context: *mut c_void,
        len: usize,
        errno: Option<i32>,
        events: &mut Vec<Event>,
    ) {
        let Some(operation) = NonNull::new(context.cast::<Operation>()) else { return };
        // SAFETY: each context is an operation that `begin` returned, and libfabric has finished this one.
        let kind = unsafe { self.open.operations.end(operation) };
        match (&kind, errno) {
            (&Kind::Receive(number), None) => {
                events.push(Event::Frame(Lent { arena: self.open.awaited.clone(), number, len }));
            }
            (&Kind::Receive(number), Some(_)) => self.unposted.push(number),
            (&Kind::Send(buffer, to), errno) => {
                self.free.push(buffer);
                if let Some(errno) = errno {
                    self.noted.push(Event::Failed(to, errno));
                }
            }
            _ => self.note_end(&kind, errno.is_none()),
        }
    }

    /// Prepares a thread to sleep on the descriptor. Returns false if the thread must poll first.
    pub fn about_to_sleep(&self) -> bool {
        let Some(_inside) = enter() else { return true };
        let mut fid = self.open.cq.fid();
        // SAFETY: the fabric and the queue are open.
        unsafe {
            let trywait = (*(*self.open.fabric.raw()).ops).trywait;
            trywait(self.open.fabric.raw(), &raw mut fid, 1) == 0
        }
    }
}
