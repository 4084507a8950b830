//! What a provider implements: a NIC and requests for connections; its VIs are in [`crate::vi`],
//! its completion queues in [`crate::cq`].
//!
//! The model is VIPL's, a method for each function, so that a C API is a thin layer over any
//! provider; a `None` timeout is `VIP_INFINITE`. Three things a caller may rely on everywhere:
//!
//! - every method may be called by any thread, on the same VI at once where
//!   [`NicAttributes::thread_safe`] says so, and `*_done` never blocks behind a `*_wait`;
//! - descriptors of one work queue are done in posting order, each exactly once;
//! - waiting spins for a bounded time and then sleeps.
//!
//! No method of these traits has a body: a provider that passes calls on to another one (libvipl's)
//! cannot forget one that is added later. `tests/provider_traits.rs` holds them to it.

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

/// A NIC, open (`VipOpenNic` … `VipCloseNic`, which is dropping it). Its VIs keep what they need
/// of it, so they may outlive it.
pub trait Nic: Send + Sync {
    /// Its VIs.
    type Vi: Vi;
    /// A request for a connection, to be answered.
    type Connection: Connection<Vi = Self::Vi>;
    /// Its completion queues.
    type Cq: CompletionQueue;

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

    /// Creates a completion queue for `entries` entries (`VipCreateCQ`); `context` names it in
    /// error reports.
    ///
    /// # Errors
    /// [`CqError`].
    fn create_cq(&self, entries: u32, context: u64) -> Result<Self::Cq, CqError>;

    /// Creates a VI in state IDLE, attached to completion queues as `attach` says
    /// (`VipCreateVi`).
    ///
    /// # Errors
    /// [`CreateViError`]: an attribute that the NIC does not offer, or no more VIs.
    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, Self::Cq>,
    ) -> Result<Self::Vi, CreateViError>;

    /// Creates a VI without completion queues.
    ///
    /// # Errors
    /// As for [`Nic::create_vi_with`].
    fn create_vi(&self, attributes: ViAttributes) -> Result<Self::Vi, CreateViError>;

    /// Has errors that belong to no call reported to `handler` (`VipErrorCallback`); `None`: to no function.
    fn set_error_handler(&self, handler: Option<ErrorHandler>);

    /// Tells the error handler of an error, in its turn. For the layer above, whose interface
    /// reports errors in this way that the NIC returns from a call ([`PostError::Descriptor`]).
    fn report(&self, error: AsyncError);

    /// Whether callbacks wait because no thread could be started for them.
    fn callbacks_wait(&self) -> bool;

    /// Runs such callbacks in the calling thread, which holds nothing that they could need: for the
    /// layer above, to be called now and then. (The NIC keeps trying to start a thread, too.)
    fn run_callbacks(&self);

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

    /// Accepts with an idle VI, which is then connected (`VipConnectAccept`). May take a round trip
    /// to the requester.
    ///
    /// # Errors
    /// [`ConnectError::State`] if the VI is not idle, [`ConnectError::Reliability`] and
    /// [`ConnectError::MaxTransferSize`] if the two do not match: the request is handed back, to be
    /// accepted with another VI, or with this one later. [`ConnectError::Timeout`] if the requester
    /// has given up.
    fn accept(self, vi: &Self::Vi) -> Result<(), NotAccepted<Self>>
    where
        Self: Sized;

    /// Rejects (`VipConnectReject`). The requester is told so, or, if a VI was tried and did not
    /// match, what did not.
    fn reject(self);
}
