//! The trait of a virtual interface, which a provider implements.

use crate::address::NetAddress;
use crate::attributes::ViAttributes;
use crate::bequest::Bequest;
use crate::descriptor::DescriptorAddress;
use crate::error::{Cause, ConnectError, PostError, SetViError, WaitError};
use crate::event::ViCallback;
use crate::queue::{Completion, Done};
use crate::state::{IllegalTransition, ViState};
use core::time::Duration;

/// A virtual interface: a send queue, a receive queue, a connection. Dropping it disconnects and destroys it.
pub trait Vi: Send + Sync {
    /// Returns the VI's attributes. The protection tag is always present.
    fn attributes(&self) -> ViAttributes;

    /// Changes the attributes of an idle VI (`VipSetViAttributes`).
    ///
    /// # Errors
    /// [`SetViError`]: not idle, or an attribute that the NIC does not offer.
    fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError>;

    /// Returns the value that the program chose to identify the VI ([`crate::cq::Attach::context`]).
    fn context(&self) -> u64;

    /// Returns the VI's state.
    fn state(&self) -> ViState;

    /// Returns the reason for state ERROR; `None` in other states.
    fn cause(&self) -> Option<Cause>;

    /// Returns a flag for the send queue and one for the receive queue: true if the queue has no descriptor
    /// (`VipQueryVi`). Completed descriptors count until the program takes them.
    fn queues_empty(&self) -> (bool, bool);

    /// Requests a connection to the VI that waits at `remote` (`VipConnectRequest`). The peer sees `local` as the
    /// requester's address. Returns the peer VI's attributes.
    ///
    /// # Errors
    /// - [`ConnectError::NoMatch`] at once if no program waits at `remote`;
    /// - [`ConnectError::Rejected`], [`ConnectError::Timeout`];
    /// - [`ConnectError::InvalidParameter`] for a timeout of zero, or if one of the addresses is too long;
    /// - [`ConnectError::State`] if the VI is not idle, or if another thread disconnects the VI meanwhile;
    /// - [`ConnectError::NotReachable`] if the peer cannot be reached;
    /// - [`ConnectError::Reliability`] or [`ConnectError::MaxTransferSize`] if the two VIs do not match.
    fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError>;

    /// Begins to connect to a VI whose program makes the matching request: `remote` of one request is `local` of the
    /// other (`VipConnectPeerRequest`). Returns at once. A VI can have one such request at a time.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`] for a timeout of zero, an address that is too long, or a `local` of another
    /// NIC. [`ConnectError::State`] if the VI is not idle.
    fn connect_peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError>;

    /// Returns the result of the peer request, once; `None` while the request is pending (`VipConnectPeerDone`).
    ///
    /// # Errors
    /// Like [`Vi::connect_request`]; [`ConnectError::State`] if there is no such request.
    fn connect_peer_done(&self) -> Option<Result<ViAttributes, ConnectError>>;

    /// Like [`Vi::connect_peer_done`], but waits for the result (`VipConnectPeerWait`).
    ///
    /// # Errors
    /// Like [`Vi::connect_peer_done`].
    fn connect_peer_wait(&self) -> Result<ViAttributes, ConnectError>;

    /// Ends the connection, if there is one, and makes the VI idle (`VipDisconnect`). Posted descriptors that are not
    /// done end in [`crate::Status::DESC_FLUSHED_ERROR`]. The peer still receives all sent messages, and then finds its
    /// VI in state ERROR. The call wakes a thread that waits for a connection of this VI, with [`ConnectError::State`].
    fn disconnect(&self);

    /// Destroys an idle VI (`VipDestroyVi`).
    ///
    /// # Errors
    /// Returns the VI if it is not idle.
    fn destroy(self) -> Result<(), (Self, IllegalTransition)>
    where
        Self: Sized;

    /// Posts a descriptor to the send queue (`VipPostSend`). The descriptor's status reports errors of the operation.
    ///
    /// # Errors
    /// [`PostError`].
    fn post_send(&self, descriptor: DescriptorAddress) -> Result<(), PostError>;

    /// Posts a descriptor to the receive queue (`VipPostRecv`), in any state of the VI.
    ///
    /// # Errors
    /// [`PostError`].
    fn post_recv(&self, descriptor: DescriptorAddress) -> Result<(), PostError>;

    /// Takes the oldest descriptor of the send queue if it is done (`VipSendDone`).
    fn send_done(&self) -> Done;

    /// Takes the oldest descriptor of the receive queue if it is done (`VipRecvDone`).
    fn recv_done(&self) -> Done;

    /// Like [`Vi::send_done`], but waits until the descriptor is done (`VipSendWait`).
    ///
    /// # Errors
    /// [`WaitError`].
    fn send_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError>;

    /// Like [`Vi::recv_done`], but waits until the descriptor is done (`VipRecvWait`).
    ///
    /// # Errors
    /// [`WaitError`].
    fn recv_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError>;

    /// Registers `callback` for one completion: a NIC thread takes the next completed descriptor of the send queue and
    /// passes it on (`VipSendNotify`). Callbacks run in the order of their calls.
    fn send_notify(&self, callback: ViCallback);

    /// Like [`Vi::send_notify`], for the receive queue (`VipRecvNotify`).
    fn recv_notify(&self, callback: ViCallback);

    /// Sends as many descriptors waiting in the send queue as possible. Returns true if descriptors still wait (cLAN's
    /// `VipPostDeferredSends`).
    fn push_sends(&self) -> bool;

    /// Returns memory of the current connection that outlives both processes; see [`crate::bequest`]. VIPL has no such
    /// function. `None` without a connection, or if the provider has no such memory.
    fn bequest(&self) -> Option<Box<dyn Bequest>>;
}
