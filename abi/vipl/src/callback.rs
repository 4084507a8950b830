//! Functions of the program that the library calls.
//!
//! They run in a thread of the NIC's. They get handles rather than the things themselves, so
//! that the program may destroy these at any time, in the callback too.

use crate::boundary::guarded;
use crate::handle::Handle;
use crate::pointer::Opaque;
use crate::types::{Boolean, ErrorDescriptor};
use std::sync::Arc;
use via::cq::{CqCallback, CqEntry, WorkQueueKind};
use via::event::{ErrorHandler, ViCallback};
use via::{AsyncError, Completion};

/// `VIP_VI_CALLBACK`.
pub type ViFunction = extern "C" fn(Opaque, Handle, Handle, Opaque);
/// `VIP_CQ_CALLBACK`.
pub type CqFunction = extern "C" fn(Opaque, Handle, Handle, Boolean);
/// `VIP_ERROR_HANDLER`.
pub type ErrorFunction = extern "C" fn(Opaque, *mut ErrorDescriptor);

/// The receive queue's name in completion queues.
pub(crate) fn is_recv(entry: &CqEntry) -> Boolean {
    (entry.queue == WorkQueueKind::Recv).into()
}

pub(crate) fn for_vi(f: ViFunction, context: Opaque, nic: Handle, vi: Handle) -> ViCallback {
    Box::new(move |completion: Completion| {
        guarded(|| f(context, nic, vi, Opaque::at(completion.descriptor.address)));
    })
}

pub(crate) fn for_cq(f: CqFunction, context: Opaque, nic: Handle) -> CqCallback {
    Box::new(move |entry: CqEntry| {
        guarded(|| f(context, nic, Handle::from_context(entry.context), is_recv(&entry)));
    })
}

pub(crate) fn for_errors(f: ErrorFunction, context: Opaque, nic: Handle) -> ErrorHandler {
    Arc::new(move |error: &AsyncError| {
        let mut told = describe(error, nic);
        guarded(|| f(context, &raw mut told));
    })
}

/// An error as C sees it.
fn describe(error: &AsyncError, nic: Handle) -> ErrorDescriptor {
    let handle = |context: Option<u64>| context.map_or(Handle::NULL, Handle::from_context);
    ErrorDescriptor {
        nic,
        vi: handle(error.vi),
        cq: handle(error.cq),
        descriptor: error.descriptor.map_or(Opaque::NULL, Opaque::at),
        op_code: error.operation.bits().into(),
        resource_code: error.resource as u32,
        error_code: error.code as u32,
    }
}
