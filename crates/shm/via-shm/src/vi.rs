//! VIs of the shared-memory NIC.
//!
//! Each of a VI's two work queues has a lock. A thread holds the lock for one message at a time. So while one
//! thread waits on a queue, other threads may post to the queue and poll it. A thread that finds an error on the
//! connection first sets the flag `broken`. The thread then flushes the two work queues one after the other, each
//! under its own lock.

mod access;
mod ahead;
mod attention;
mod bequest;
mod connection;
mod cq_vi;
pub(crate) mod inner;
mod lane;
mod machine;
mod notice;
mod peers;
mod rdma;
mod recv;
mod send;
mod target;
mod wait;

use core::time::Duration;
use inner::Core;
use std::sync::Arc;
use via::error::{Cause, ConnectError, PostError, SetViError, WaitError};
use via::event::ViCallback;
use via::queue::{Completion, Done};
use via::state::{Event, IllegalTransition};
use via::{DescriptorAddress, NetAddress, Vi, ViAttributes, ViState};
use wait::Side;

/// A VI of the shared-memory NIC.
#[derive(Debug)]
pub struct ShmVi(pub(crate) Arc<Core>);

impl Vi for ShmVi {
    fn attributes(&self) -> ViAttributes {
        self.0.attributes()
    }

    fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError> {
        self.0.set_attributes(attributes)
    }

    fn context(&self) -> u64 {
        self.0.context
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

    fn connect_peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.0.connect_peer_request(local, remote, timeout)
    }

    fn connect_peer_done(&self) -> Option<Result<ViAttributes, ConnectError>> {
        self.0.connect_peer_done()
    }

    fn connect_peer_wait(&self) -> Result<ViAttributes, ConnectError> {
        self.0.connect_peer_wait()
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

    fn send_notify(&self, callback: ViCallback) {
        let mut send = self.0.send.lock();
        let queue = &mut send.queue;
        queue.notices.notify(&mut queue.work, &self.0.nic, callback);
    }

    fn recv_notify(&self, callback: ViCallback) {
        let mut recv = self.0.recv.lock();
        let queue = &mut recv.queue;
        queue.notices.notify(&mut queue.work, &self.0.nic, callback);
        drop(recv);
        // Make senders wake the engine, because perhaps no thread of the program polls the queue.
        self.0.arm();
    }

    fn push_sends(&self) -> bool {
        self.0.send_all();
        self.0.send.lock().queue.work.outstanding() > 0
    }

    fn bequest(&self) -> Option<Box<dyn via::Bequest>> {
        Some(Box::new(bequest::Bequests(self.0.attachment()?)))
    }
}

impl Drop for ShmVi {
    fn drop(&mut self) {
        // Remove this VI from its completion queues, which hold references to the VI.
        let send = self.0.send.lock().queue.notices.cq.clone();
        let recv = self.0.recv.lock().queue.notices.cq.clone();
        self.0.disconnect();
        for cq in send.into_iter().chain(recv) {
            cq.leave(&self.0);
        }
        // Release the protection tag now, because the program may destroy the tag right after this call. The VI's
        // `Core` may be dropped later, because the engine may still hold a reference to the `Core`.
        let ptag = self.0.machine().ptag;
        self.0.nic.table.release_ptag(ptag);
    }
}
