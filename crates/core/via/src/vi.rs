//! What a provider implements: a virtual interface.

use crate::address::NetAddress;
use crate::attributes::ViAttributes;
use crate::bequest::Bequest;
use crate::descriptor::DescriptorAddress;
use crate::error::{Cause, ConnectError, PostError, SetViError, WaitError};
use crate::event::ViCallback;
use crate::queue::{Completion, Done};
use crate::state::{IllegalTransition, ViState};
use core::time::Duration;

/// A virtual interface: a send queue, a receive queue, a connection. Dropping it disconnects and
/// destroys it.
pub trait Vi: Send + Sync {
    /// Its attributes; the tag is always named.
    fn attributes(&self) -> ViAttributes;

    /// Changes the attributes of an idle VI (`VipSetViAttributes`).
    ///
    /// # Errors
    /// [`SetViError`]: not idle, or an attribute that the NIC does not offer.
    fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError>;

    /// What the program gave it to tell it by ([`crate::cq::Attach::context`]).
    fn context(&self) -> u64;

    /// Its state.
    fn state(&self) -> ViState;

    /// Why it is in state ERROR; `None` in the others.
    fn cause(&self) -> Option<Cause>;

    /// Whether nothing is posted to the send queue, and to the receive queue: neither in
    /// progress nor waiting to be taken (`VipQueryVi`).
    fn queues_empty(&self) -> (bool, bool);

    /// Requests a connection to the VI that waits at `remote` (`VipConnectRequest`); `local` is what
    /// the far side sees as the requester's address. Returns the far VI's attributes.
    ///
    /// # Errors
    /// [`ConnectError::NoMatch`] at once if no program waits there, [`ConnectError::Rejected`],
    /// [`ConnectError::Timeout`], [`ConnectError::InvalidParameter`] for a timeout of zero or an
    /// address, remote or local, that is too long, [`ConnectError::State`] if the VI is not idle,
    /// or is disconnected by another thread meanwhile, [`ConnectError::NotReachable`] for a far
    /// side that cannot be talked to, and where the two VIs do not match,
    /// [`ConnectError::Reliability`] or [`ConnectError::MaxTransferSize`].
    fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError>;

    /// Begins to connect to a VI whose program does the same the other way round: `remote` here
    /// is `local` there (`VipConnectPeerRequest`). Returns at once; a VI has one such request at
    /// a time.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`] for a timeout of zero or an address that is too long or
    /// not this NIC's, [`ConnectError::State`] if the VI is not idle.
    fn connect_peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError>;

    /// What became of the peer request: `None` while it is on its way (`VipConnectPeerDone`). The
    /// result is returned once.
    ///
    /// # Errors
    /// As for [`Vi::connect_request`]; [`ConnectError::State`] if there is no such request.
    fn connect_peer_done(&self) -> Option<Result<ViAttributes, ConnectError>>;

    /// As [`Vi::connect_peer_done`], waiting for it (`VipConnectPeerWait`).
    ///
    /// # Errors
    /// As for [`Vi::connect_peer_done`].
    fn connect_peer_wait(&self) -> Result<ViAttributes, ConnectError>;

    /// Ends the connection, if there is one, and makes the VI idle (`VipDisconnect`). What is
    /// posted and not done ends in [`crate::Status::DESC_FLUSHED_ERROR`]. The far side still
    /// receives what has been sent and then finds its VI in state ERROR. A thread that waits for a
    /// connection of this VI is woken, with [`ConnectError::State`].
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

    /// Has the next descriptor of the send queue that is done taken and handed to `callback`, in a
    /// thread of the NIC's (`VipSendNotify`). One for each call, in the order of the calls.
    fn send_notify(&self, callback: ViCallback);

    /// As [`Vi::send_notify`], of the receive queue (`VipRecvNotify`).
    fn recv_notify(&self, callback: ViCallback);

    /// Sends what can be sent of what waits in the send queue; whether something still waits
    /// (cLAN's `VipPostDeferredSends`).
    fn push_sends(&self) -> bool;

    /// Memory of the present connection that outlives the process of either end, if the provider
    /// has such. Not in VIPL; [`crate::bequest`] says what it is for. `None` without a connection,
    /// and from a provider that has no such memory.
    fn bequest(&self) -> Option<Box<dyn Bequest>>;
}
