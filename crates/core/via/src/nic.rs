//! Traits that a provider implements: a NIC and requests for connections. The traits of VIs are in [`crate::vi`], and
//! those of completion queues in [`crate::cq`].
//!
//! The model is VIPL's, with one method for each function. So a C interface is a thin layer over any provider. A
//! timeout of `None` is `VIP_INFINITE`. A caller may rely on three rules:
//!
//! - any thread may call any method. Several threads may use one VI at once if [`NicAttributes::thread_safe`] is set,
//!   and `*_done` never blocks behind a `*_wait`;
//! - descriptors of one work queue complete in posting order, each exactly once;
//! - a wait spins for a limited time and then sleeps.
//!
//! No method of these traits has a default body. So the compiler finds a method that a forwarding provider (that of
//! libvipl) has forgotten. `tests/provider_traits.rs` checks this rule.

use crate::address::NetAddress;
use crate::attributes::{MemAttributes, NicAttributes, ViAttributes};
use crate::cq::{Attach, CompletionQueue};
#[cfg(doc)]
use crate::error::PostError;
use crate::error::{
    ConnectError, CqError, CreateViError, MemError, NotAccepted, PtagError, RegisterError,
};
use crate::event::{AsyncError, ErrorHandler};
use crate::memory::Memory;
use crate::tag::{MemHandle, Ptag};
use crate::vi::Vi;
use core::time::Duration;

/// An open NIC (`VipOpenNic`). Dropping it is `VipCloseNic`. Its VIs keep the parts of the NIC that they need, and may
/// outlive it.
pub trait Nic: Send + Sync {
    /// Type of the NIC's VIs.
    type Vi: Vi;
    /// Type of an incoming request for a connection.
    type Connection: Connection<Vi = Self::Vi>;
    /// Type of the NIC's completion queues.
    type Cq: CompletionQueue;

    /// Returns the NIC's properties and limits (`VipQueryNic`).
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

    /// Registers memory for descriptors and data (`VipRegisterMem`). A program may register the same memory several
    /// times.
    ///
    /// # Errors
    /// [`RegisterError`]: an unknown tag, an empty region, or a limit of the NIC.
    fn register_mem(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError>;

    /// Deregisters memory (`VipDeregisterMem`). After the call the NIC no longer accesses the memory under this handle.
    /// Posted descriptors that need the memory end in [`crate::Status::PROTECTION_ERROR`].
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError>;

    /// Returns the memory and attributes of a region (`VipQueryMem`).
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError>;

    /// Changes the attributes of a region (`VipSetMemAttributes`).
    ///
    /// # Errors
    /// [`MemError`].
    fn set_mem_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError>;

    /// Creates a completion queue for `entries` entries (`VipCreateCQ`). Error reports contain `context`.
    ///
    /// # Errors
    /// [`CqError`].
    fn create_cq(&self, entries: u32, context: u64) -> Result<Self::Cq, CqError>;

    /// Creates a VI in state IDLE, and attaches its work queues to the completion queues in `attach` (`VipCreateVi`).
    ///
    /// # Errors
    /// [`CreateViError`]: an attribute that the NIC does not offer, or no free VI.
    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, Self::Cq>,
    ) -> Result<Self::Vi, CreateViError>;

    /// Creates a VI without completion queues.
    ///
    /// # Errors
    /// Like [`Nic::create_vi_with`].
    fn create_vi(&self, attributes: ViAttributes) -> Result<Self::Vi, CreateViError>;

    /// Sets the handler for errors that belong to no call (`VipErrorCallback`). `None` removes the handler.
    fn set_error_handler(&self, handler: Option<ErrorHandler>);

    /// Queues an error for the error handler. A layer above uses this for errors that the NIC returns from a call but
    /// the layer's interface reports through the handler ([`PostError::Descriptor`]).
    fn report(&self, error: AsyncError);

    /// Returns true while callbacks wait because the NIC could not start a thread for them.
    fn callbacks_wait(&self) -> bool;

    /// Runs waiting callbacks in the calling thread, which must hold no lock that they could need. The layer above
    /// should call this now and then. (The NIC also keeps trying to start a thread.)
    fn run_callbacks(&self);

    /// Waits for a request to connect to `local` (`VipConnectWait`). Several threads may wait, also at one address.
    /// Each request goes to one of them.
    ///
    /// # Errors
    /// [`ConnectError::Timeout`]; [`ConnectError::InvalidParameter`] for an address that is too long or belongs to
    /// another NIC; [`ConnectError::Resource`] if another process waits at this address.
    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<Self::Connection, ConnectError>;
}

/// An incoming request for a connection (`VIP_CONN_HANDLE`). Dropping it rejects the request.
pub trait Connection: Send {
    /// Type of the VIs that can accept the request.
    type Vi: Vi;

    /// Returns the requester's address, as the requester gave it.
    fn remote_address(&self) -> &NetAddress;

    /// Returns the requesting VI's attributes, without the protection tag.
    fn remote_attributes(&self) -> &ViAttributes;

    /// Accepts the request with an idle VI, which becomes connected (`VipConnectAccept`). The call may take a round
    /// trip to the requester.
    ///
    /// # Errors
    /// [`ConnectError::State`] if the VI is not idle. [`ConnectError::Reliability`] or
    /// [`ConnectError::MaxTransferSize`] if the two VIs do not match. In these cases the error contains the request,
    /// and the caller may accept it with another VI, or with this VI later. [`ConnectError::Timeout`] if the requester
    /// has given up.
    fn accept(self, vi: &Self::Vi) -> Result<(), NotAccepted<Self>>
    where
        Self: Sized;

    /// Rejects the request (`VipConnectReject`). If the caller tried a VI that did not match, the requester gets that
    /// mismatch as the reason.
    fn reject(self);
}
