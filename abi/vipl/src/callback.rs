//! Functions of the program that the library calls.
//!
//! They run in a thread of the NIC. They get handles and not pointers to the objects. So the program may destroy the
//! objects at any time, even in the callback.

use crate::boundary::complain;
use crate::handle::Handle;
use crate::pointer::Opaque;
use crate::types::{Boolean, ErrorDescriptor};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use via::cq::{CqCallback, CqEntry, WorkQueueKind};
use via::error::ErrorCode;
use via::event::{ErrorHandler, ViCallback};
use via::{AsyncError, Completion};

/// `VIP_VI_CALLBACK`.
pub type ViFunction = extern "C" fn(Opaque, Handle, Handle, Opaque);
/// `VIP_CQ_CALLBACK`.
pub type CqFunction = extern "C" fn(Opaque, Handle, Handle, Boolean);
/// `VIP_ERROR_HANDLER`.
pub type ErrorFunction = extern "C" fn(Opaque, *mut ErrorDescriptor);

/// Callbacks of a VI or completion queue. None runs after this object has been destroyed, so the program may then free
/// memory that they use.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    /// Threads that run a callback. There may be several if the library has no thread of its own.
    running: Vec<ThreadId>,
}

impl Callbacks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a callback, unless its object has been destroyed.
    fn run(&self, callback: impl FnOnce()) {
        let me = thread::current().id();
        let mut state = self.state();
        if state.ended {
            return;
        }
        state.running.push(me);
        drop(state);
        callback();
        let mut state = self.state();
        if let Some(at) = state.running.iter().rposition(|&thread| thread == me) {
            state.running.swap_remove(at);
        }
        self.over.notify_all();
    }

    /// Records that the object has been destroyed. Waits until no other thread runs a callback. The calling thread
    /// itself may be in one.
    pub(crate) fn end(&self) {
        let me = thread::current().id();
        let mut state = self.state();
        state.ended = true;
        while state.running.iter().any(|&thread| thread != me) {
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Returns `VIP_TRUE` for an entry of the receive queue.
pub(crate) fn is_recv(entry: &CqEntry) -> Boolean {
    (entry.queue == WorkQueueKind::Recv).into()
}

pub(crate) fn for_vi(
    f: ViFunction,
    context: Opaque,
    nic: Handle,
    vi: Handle,
    callbacks: Arc<Callbacks>,
) -> ViCallback {
    Box::new(move |completion: Completion| {
        callbacks.run(|| f(context, nic, vi, Opaque::at(completion.descriptor.address)));
    })
}

pub(crate) fn for_cq(
    f: CqFunction,
    context: Opaque,
    nic: Handle,
    callbacks: Arc<Callbacks>,
) -> CqCallback {
    Box::new(move |entry: CqEntry| {
        let vi = Handle::from_context(entry.context);
        callbacks.run(|| f(context, nic, vi, is_recv(&entry)));
    })
}

pub(crate) fn for_errors(f: ErrorFunction, context: Opaque, nic: Handle) -> ErrorHandler {
    Arc::new(move |error: &AsyncError| {
        let mut told = describe(error, nic);
        f(context, &raw mut told);
    })
}

/// Converts an error to C's structure.
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

/// Returns the default error handler, which prints a line on standard error.
pub(crate) fn default_error_handler(device: String) -> ErrorHandler {
    Arc::new(move |error: &AsyncError| {
        let mut of = String::new();
        for (what, which) in [("VI", error.vi), ("CQ", error.cq), ("descriptor", error.descriptor)]
        {
            if let Some(which) = which {
                of += &format!(" {what} {which:#x}");
            }
        }
        complain(format_args!("{device}: {}{of}", name(error.code)));
    })
}

/// Returns an error's name in the header.
fn name(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::PostDesc => "VIP_ERROR_POST_DESC",
        ErrorCode::ConnLost => "VIP_ERROR_CONN_LOST",
        ErrorCode::RecvqEmpty => "VIP_ERROR_RECVQ_EMPTY",
        ErrorCode::ViOverrun => "VIP_ERROR_VI_OVERRUN",
        ErrorCode::RdmawProt => "VIP_ERROR_RDMAW_PROT",
        ErrorCode::RdmawData => "VIP_ERROR_RDMAW_DATA",
        ErrorCode::RdmawAbort => "VIP_ERROR_RDMAW_ABORT",
        ErrorCode::RdmarProt => "VIP_ERROR_RDMAR_PROT",
        ErrorCode::CompProt => "VIP_ERROR_COMP_PROT",
        ErrorCode::RdmaTransport => "VIP_ERROR_RDMA_TRANSPORT",
        ErrorCode::Catastrophic => "VIP_ERROR_CATASTROPHIC",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_end_waits_for_a_callback_in_another_thread() {
        let callbacks = Callbacks::default();
        let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                callbacks.run(|| {
                    begun.store(true, Ordering::SeqCst);
                    thread::sleep(std::time::Duration::from_millis(50));
                    done.store(true, Ordering::SeqCst);
                });
            });
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            callbacks.end();
            assert!(done.load(Ordering::SeqCst));
        });
        callbacks.run(|| panic!("it has ended"));
    }

    #[test]
    fn a_callback_may_end_its_callbacks() {
        let callbacks = Callbacks::default();
        callbacks.run(|| callbacks.end());
        callbacks.run(|| panic!("it has ended"));
    }
}
