//! VIs of the shared-memory NIC.
//!
//! Each work queue has a lock of its own, held for one message at a time, so one thread may wait
//! on a queue while others post to it and look at it. An error found on the way only raises a
//! flag; whoever raised it then flushes both queues, one after the other, under their own locks.

mod access;
mod connection;
pub(crate) mod inner;
mod lane;
mod recv;
mod send;
mod wait;

use core::time::Duration;
use inner::Core;
use std::sync::Arc;
use via::error::{Cause, ConnectError, PostError, WaitError};
use via::queue::{Completion, Done};
use via::state::{Event, IllegalTransition};
use via::{DescriptorAddress, NetAddress, Vi, ViAttributes, ViState};
use wait::Side;
pub(crate) use wait::deadline;

/// A VI of the shared-memory NIC.
#[derive(Debug)]
pub struct ShmVi(pub(crate) Arc<Core>);

impl Vi for ShmVi {
    fn attributes(&self) -> &ViAttributes {
        &self.0.attributes
    }

    fn state(&self) -> ViState {
        self.0.state()
    }

    fn cause(&self) -> Option<Cause> {
        self.0.catch_up();
        *self.0.cause()
    }

    fn queues_empty(&self) -> (bool, bool) {
        let send = self.0.send.lock().queue.work.is_empty();
        (send, self.0.recv.lock().queue.work.is_empty())
    }

    fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError> {
        self.0.connect_request(local, remote, timeout)
    }

    fn disconnect(&self) {
        self.0.disconnect();
    }

    fn destroy(self) -> Result<(), (Self, IllegalTransition)> {
        match self.state().after(Event::Destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    #[inline]
    fn post_send(&self, descriptor: DescriptorAddress) -> Result<(), PostError> {
        self.0.post_send(descriptor)
    }

    #[inline]
    fn post_recv(&self, descriptor: DescriptorAddress) -> Result<(), PostError> {
        self.0.post_recv(descriptor)
    }

    #[inline]
    fn send_done(&self) -> Done {
        self.0.send_done()
    }

    #[inline]
    fn recv_done(&self) -> Done {
        self.0.recv_done()
    }

    #[inline]
    fn send_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError> {
        self.0.wait(Side::Send, timeout)
    }

    #[inline]
    fn recv_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError> {
        self.0.wait(Side::Recv, timeout)
    }
}
