//! What a provider implements: a NIC, its VIs, and requests for connections.
//!
//! The model is VIPL's, a method for each function, so that a C API is a thin layer over any
//! provider; a `None` timeout is `VIP_INFINITE`. Three things a caller may rely on everywhere:
//!
//! - every method may be called by any thread, on the same VI at once where
//!   [`NicAttributes::thread_safe`] says so, and `*_done` never blocks behind a `*_wait`;
//! - descriptors of one work queue are done in posting order, each exactly once;
//! - waiting spins for a bounded time and then sleeps.

use crate::address::NetAddress;
use crate::attributes::{MemAttributes, NicAttributes, ViAttributes};
use crate::descriptor::DescriptorAddress;
use crate::error::{
    Cause, ConnectError, CreateViError, MemError, PostError, PtagError, RegisterError, WaitError,
};
use crate::memory::{MemHandle, Memory, Ptag};
use crate::queue::{Completion, Done};
use crate::state::{IllegalTransition, ViState};
use core::time::Duration;

/// A NIC, open (`VipOpenNic` … `VipCloseNic`, which is dropping it). Its VIs keep what they need
/// of it, so they may outlive it.
pub trait Nic: Send + Sync {
    /// Its VIs.
    type Vi: Vi;
    /// A request for a connection, to be answered.
    type Connection: Connection<Vi = Self::Vi>;

    /// What it is and what it offers (`VipQueryNic`).
    fn attributes(&self) -> &NicAttributes;

    /// Creates a protection tag (`VipCreatePtag`).
    ///
    /// # Errors
    /// [`PtagError::TooMany`].
    fn create_ptag(&self) -> Result<Ptag, PtagError>;

    /// Destroys a protection tag (`VipDestroyPtag`).
    ///
    /// # Errors
    /// [`PtagError::Unknown`], [`PtagError::InUse`].
    fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError>;

    /// Registers memory, for descriptors and data (`VipRegisterMem`). The same memory may be
    /// registered several times.
    ///
    /// # Errors
    /// [`RegisterError`]: an unknown tag, no bytes, or a limit of the NIC.
    fn register_mem(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError>;

    /// Deregisters memory (`VipDeregisterMem`). When it returns, the NIC touches the memory no
    /// more under this handle; posted descriptors that need it end in
    /// [`crate::Status::PROTECTION_ERROR`].
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError>;

    /// The memory and attributes of a region (`VipQueryMem`).
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError>;

    /// Changes what may be done with a region (`VipSetMemAttributes`).
    ///
    /// # Errors
    /// [`MemError`].
    fn set_mem_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError>;

    /// Creates a VI in state IDLE (`VipCreateVi`).
    ///
    /// # Errors
    /// [`CreateViError`]: an attribute that the NIC does not offer, or no more VIs.
    fn create_vi(&self, attributes: ViAttributes) -> Result<Self::Vi, CreateViError>;

    /// Waits for a request to connect to `local` (`VipConnectWait`). Several threads may wait,
    /// at one address too; each request goes to one of them.
    ///
    /// # Errors
    /// [`ConnectError::Timeout`]; [`ConnectError::InvalidParameter`] for an address that is not
    /// this NIC's or too long; [`ConnectError::Resource`] where another process waits there.
    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<Self::Connection, ConnectError>;
}

/// A request for a connection, as the waiting side has it (`VIP_CONN_HANDLE`). Dropping it
/// rejects it.
pub trait Connection: Send {
    /// The VIs that can accept it.
    type Vi: Vi;

    /// The address that the requester gave as its own.
    fn remote_address(&self) -> &NetAddress;

    /// The requesting VI's attributes, without its tag.
    fn remote_attributes(&self) -> &ViAttributes;

    /// Accepts with an idle VI, which is then connected (`VipConnectAccept`).
    ///
    /// # Errors
    /// [`ConnectError::State`] if the VI is not idle, [`ConnectError::Reliability`] and
    /// [`ConnectError::MaxTransferSize`] if the two do not match (the requester is told the same),
    /// [`ConnectError::Timeout`] if the requester has given up.
    fn accept(self, vi: &Self::Vi) -> Result<(), ConnectError>;

    /// Rejects (`VipConnectReject`).
    fn reject(self);
}

/// A virtual interface: a send queue, a receive queue, a connection. Dropping it disconnects and
/// destroys it.
pub trait Vi: Send + Sync {
    /// Its attributes; the tag is always named.
    fn attributes(&self) -> &ViAttributes;

    /// Its state.
    fn state(&self) -> ViState;

    /// Why it is in state ERROR; `None` in the others.
    fn cause(&self) -> Option<Cause>;

    /// Whether nothing is posted to the send queue, and to the receive queue: neither in
    /// progress nor waiting to be taken (`VipQueryVi`).
    fn queues_empty(&self) -> (bool, bool);

    /// Requests a connection to whoever waits at `remote` (`VipConnectRequest`); `local` is what
    /// the far side sees as the requester's address. Returns the far VI's attributes.
    ///
    /// # Errors
    /// [`ConnectError::NoMatch`] at once if nobody waits there, [`ConnectError::Rejected`],
    /// [`ConnectError::Timeout`], [`ConnectError::InvalidParameter`] for a timeout of zero or an
    /// address that is too long, [`ConnectError::State`] if the VI is not idle, and where the
    /// two VIs do not match, [`ConnectError::Reliability`] or [`ConnectError::MaxTransferSize`].
    fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError>;

    /// Ends the connection, if there is one, and makes the VI idle (`VipDisconnect`). What is
    /// posted and not done ends in [`crate::Status::DESC_FLUSHED_ERROR`]. The far side still
    /// receives what has been sent and then finds its VI in state ERROR.
    fn disconnect(&self);

    /// Destroys an idle VI (`VipDestroyVi`).
    ///
    /// # Errors
    /// The VI is handed back if it is not idle.
    fn destroy(self) -> Result<(), (Self, IllegalTransition)>
    where
        Self: Sized;

    /// Posts a descriptor to the send queue (`VipPostSend`). What is wrong with the work that it
    /// describes turns up in its status.
    ///
    /// # Errors
    /// [`PostError`].
    fn post_send(&self, descriptor: DescriptorAddress) -> Result<(), PostError>;

    /// Posts a descriptor to the receive queue (`VipPostRecv`), connected or not.
    ///
    /// # Errors
    /// [`PostError`].
    fn post_recv(&self, descriptor: DescriptorAddress) -> Result<(), PostError>;

    /// Takes the oldest descriptor of the send queue if it is done (`VipSendDone`).
    fn send_done(&self) -> Done;

    /// Takes the oldest descriptor of the receive queue if it is done (`VipRecvDone`).
    fn recv_done(&self) -> Done;

    /// As [`Vi::send_done`], waiting until it is done (`VipSendWait`).
    ///
    /// # Errors
    /// [`WaitError`].
    fn send_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError>;

    /// As [`Vi::recv_done`], waiting until it is done (`VipRecvWait`).
    ///
    /// # Errors
    /// [`WaitError`].
    fn recv_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError>;
}
