//! The data path: posts descriptors and finds completed ones.

use crate::boundary::{Outcome, enter, timeout};
use crate::callback::ViFunction;
use crate::handle::Handle;
use crate::late::{let_go, patiently};
use crate::pointer::{Opaque, Out};
use crate::provider::AnyVi;
use crate::types::Ulong;
use crate::vi::{OpenVi, VIS};
use core::time::Duration;
use via::error::{ErrorCode, PostError, WaitError};
use via::event::ViCallback;
use via::{
    AsyncError, Completion, Control, DescriptorAddress, Done, MemHandle, Nic, Resource, ReturnCode,
    Vi,
};

/// Posts a descriptor to the send queue. An invalid descriptor, or one in memory that the VI may not use, is reported
/// to the error handler.
#[unsafe(no_mangle)]
pub extern "C" fn VipPostSend(vi: Handle, descriptor: Opaque, memory: u32) -> ReturnCode {
    enter(|| post(vi, descriptor, memory, AnyVi::post_send))
}

/// Posts a descriptor to the receive queue. Errors are reported like those of `VipPostSend`.
#[unsafe(no_mangle)]
pub extern "C" fn VipPostRecv(vi: Handle, descriptor: Opaque, memory: u32) -> ReturnCode {
    enter(|| post(vi, descriptor, memory, AnyVi::post_recv))
}

#[inline]
fn post(
    vi: Handle,
    descriptor: Opaque,
    memory: u32,
    post: impl FnOnce(&AnyVi, DescriptorAddress) -> Result<(), PostError>,
) -> Outcome {
    let open = VIS.find(vi)?;
    if descriptor.is_null() {
        return Err(ReturnCode::InvalidParameter);
    }
    let address = descriptor.address();
    let posted = match MemHandle::from_raw(memory) {
        Some(handle) => post(&open.vi, DescriptorAddress { address, handle }),
        None => Err(PostError::Descriptor),
    };
    match posted {
        Ok(()) => Ok(()),
        Err(PostError::Descriptor) => {
            report(&open, vi, address);
            Ok(())
        }
        Err(error) => Err(error.code()),
    }
}

/// Reports that there is no descriptor at the posted address.
#[cold]
fn report(open: &OpenVi, vi: Handle, address: u64) {
    open.nic.nic.report(AsyncError {
        vi: Some(vi.context()),
        cq: None,
        descriptor: Some(address),
        operation: Control::OP_SENDRECV,
        resource: Resource::Descriptor,
        code: ErrorCode::PostDesc,
    });
}

/// Takes the oldest descriptor of the send queue, if it is complete.
#[unsafe(no_mangle)]
pub extern "C" fn VipSendDone(vi: Handle, descriptor: Out<Opaque>) -> ReturnCode {
    enter(|| look(vi, descriptor, AnyVi::send_done))
}

/// Takes the oldest descriptor of the receive queue, if it is complete.
#[unsafe(no_mangle)]
pub extern "C" fn VipRecvDone(vi: Handle, descriptor: Out<Opaque>) -> ReturnCode {
    enter(|| look(vi, descriptor, AnyVi::recv_done))
}

#[inline]
fn look(vi: Handle, descriptor: Out<Opaque>, done: impl FnOnce(&AnyVi) -> Done) -> Outcome {
    let open = VIS.find(vi)?;
    let descriptor = descriptor.required()?;
    let told = done(&open.vi);
    if !matches!(told, Done::Completion(_)) {
        let_go(open);
    }
    tell(told, descriptor)
}

/// Waits until the oldest descriptor of the send queue is complete, and takes it.
#[unsafe(no_mangle)]
pub extern "C" fn VipSendWait(vi: Handle, wait: Ulong, descriptor: Out<Opaque>) -> ReturnCode {
    enter(|| wait_for(vi, wait, descriptor, AnyVi::send_done, AnyVi::send_wait))
}

/// Waits until the oldest descriptor of the receive queue is complete, and takes it.
#[unsafe(no_mangle)]
pub extern "C" fn VipRecvWait(vi: Handle, wait: Ulong, descriptor: Out<Opaque>) -> ReturnCode {
    enter(|| wait_for(vi, wait, descriptor, AnyVi::recv_done, AnyVi::recv_wait))
}

#[inline]
fn wait_for(
    vi: Handle,
    ms: Ulong,
    descriptor: Out<Opaque>,
    done: impl FnOnce(&AnyVi) -> Done,
    wait: impl Fn(&AnyVi, Option<Duration>) -> Result<Completion, WaitError>,
) -> Outcome {
    let open = VIS.find(vi)?;
    let descriptor = descriptor.required()?;
    match done(&open.vi) {
        Done::NotDone => {}
        told => return tell(told, descriptor),
    }
    // Kept and not used: destroying the VI fails meanwhile and does not wait.
    let open = open.keep();
    match patiently(&open.nic, timeout(ms), |slice| wait(&open.vi, slice)) {
        Ok(completion) => tell(Done::Completion(completion), descriptor),
        Err(WaitError::Empty) => tell(Done::Empty, descriptor),
        Err(WaitError::Timeout) => {
            descriptor.set(Opaque::NULL);
            Err(ReturnCode::Timeout)
        }
    }
}

#[inline]
fn tell(done: Done, descriptor: Out<Opaque>) -> Outcome {
    match done {
        Done::Completion(completion) => {
            descriptor.set(Opaque::at(completion.descriptor.address));
            completion.result().map(drop).map_err(|_| ReturnCode::DescriptorError)
        }
        Done::NotDone => {
            descriptor.set(Opaque::NULL);
            Err(ReturnCode::NotDone)
        }
        Done::Empty => {
            descriptor.set(Opaque::NULL);
            Err(ReturnCode::DescriptorError)
        }
    }
}

/// Registers a callback for the next completed descriptor of the send queue. It runs once.
#[unsafe(no_mangle)]
pub extern "C" fn VipSendNotify(
    vi: Handle,
    context: Opaque,
    callback: Option<ViFunction>,
) -> ReturnCode {
    enter(|| notify(vi, context, callback, AnyVi::send_notify))
}

/// Registers a callback for the next completed descriptor of the receive queue. It runs once.
#[unsafe(no_mangle)]
pub extern "C" fn VipRecvNotify(
    vi: Handle,
    context: Opaque,
    callback: Option<ViFunction>,
) -> ReturnCode {
    enter(|| notify(vi, context, callback, AnyVi::recv_notify))
}

fn notify(
    vi: Handle,
    context: Opaque,
    callback: Option<ViFunction>,
    ask: impl FnOnce(&AnyVi, ViCallback),
) -> Outcome {
    let open = VIS.find(vi)?;
    let callback = callback.ok_or(ReturnCode::InvalidParameter)?;
    ask(
        &open.vi,
        crate::callback::for_vi(callback, context, open.nic.handle, vi, open.callbacks.clone()),
    );
    Ok(())
}

/// Sends waiting descriptors of the send queue as far as possible (cLAN). The others are sent later without a call.
/// There is no interrupt to enable.
#[unsafe(no_mangle)]
pub extern "C" fn VipPostDeferredSends(
    vi: Handle,
    _enable_interrupt: crate::types::Boolean,
    deferred: Out<crate::types::Boolean>,
) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        deferred.set(open.vi.push_sends().into());
        Ok(())
    })
}
