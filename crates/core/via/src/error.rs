//! What can go wrong, one small enum per operation, each with its VIPL return code.

use crate::flags::Status;
use crate::state::{IllegalTransition, ViState};

/// What every function of VIPL returns (`VIP_RETURN`), with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub enum ReturnCode {
    Success = 0,
    NotDone = 1,
    InvalidParameter = 2,
    ErrorResource = 3,
    Timeout = 4,
    Reject = 5,
    InvalidReliabilityLevel = 6,
    InvalidMtu = 7,
    InvalidQos = 8,
    InvalidPtag = 9,
    InvalidRdmaRead = 10,
    DescriptorError = 11,
    InvalidState = 12,
    ErrorNameservice = 13,
    NoMatch = 14,
    NotReachable = 15,
    ErrorNotSupported = 16,
    Error = 17,
}

/// What an error callback reports (`VIP_ERROR_CODE`), with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub enum ErrorCode {
    PostDesc = 0,
    ConnLost = 1,
    RecvqEmpty = 2,
    ViOverrun = 3,
    RdmawProt = 4,
    RdmawData = 5,
    RdmawAbort = 6,
    RdmarProt = 7,
    CompProt = 8,
    RdmaTransport = 9,
    Catastrophic = 10,
}

/// Why a VI is in state ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The peer disconnected its VI.
    #[error("the peer has disconnected")]
    PeerDisconnected,
    /// The peer's process has ended.
    #[error("the peer's process has ended")]
    PeerDied,
    /// An error at the far side broke the connection.
    #[error("an error at the peer broke the connection")]
    PeerBroke,
    /// A receive at the far side could not take the message.
    #[error("a receive at the peer could not take the message")]
    RemoteDescriptor,
    /// A message met no posted receive, which breaks a reliable connection.
    #[error("a message found no posted receive at the peer")]
    ReceiveQueueEmpty,
    /// A descriptor of this side ended in error; its status says which.
    #[error("a descriptor ended in error: {0:?}")]
    Descriptor(Status),
    /// An RDMA of the peer was not allowed here, or failed.
    #[error("an RDMA of the peer failed: {0:?}")]
    Rdma(ErrorCode),
    /// A completion queue of this VI had no room for another entry.
    #[error("a completion queue overflowed")]
    CqOverrun,
    /// What the two ends share holds something that an honest peer cannot have written.
    #[error("the connection is corrupt: {0}")]
    Corrupt(&'static str),
}

impl Cause {
    /// What an error callback reports for it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Cause::ReceiveQueueEmpty => ErrorCode::RecvqEmpty,
            Cause::Rdma(code) => *code,
            Cause::Corrupt(_) | Cause::CqOverrun => ErrorCode::Catastrophic,
            Cause::PeerDisconnected
            | Cause::PeerDied
            | Cause::PeerBroke
            | Cause::RemoteDescriptor
            | Cause::Descriptor(_) => ErrorCode::ConnLost,
        }
    }
}

macro_rules! codes {
    ($($error:ty { $($pattern:pat => $code:ident),+ $(,)? })+) => {
        $(impl $error {
            /// The code that VIPL's functions return for it.
            pub fn code(&self) -> ReturnCode {
                match self { $($pattern => ReturnCode::$code),+ }
            }
        })+
    };
}

/// Why a protection tag is not created or destroyed, or not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PtagError {
    /// The NIC has no more of them.
    #[error("the NIC has no free protection tags")]
    TooMany,
    /// No such tag.
    #[error("no such protection tag")]
    Unknown,
    /// A region or a VI has it.
    #[error("the protection tag is in use")]
    InUse,
}

/// Why memory is not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// There are no bytes to register.
    #[error("a region must have at least one byte")]
    Empty,
    /// The tag does not exist.
    #[error("no such protection tag")]
    UnknownPtag,
    /// The region, or all together, would be larger than the NIC allows.
    #[error("the region has more bytes than the NIC can register")]
    TooManyBytes,
    /// The NIC has no room for another region.
    #[error("the NIC cannot register more regions")]
    TooManyRegions,
    /// The operating system does not lock the region's memory for the NIC.
    #[error(
        "cannot lock that memory for the NIC (the limit may be reached: ulimit -l, or LimitMEMLOCK= of a systemd unit)"
    )]
    LockedMemory,
    /// The operating system refused something else.
    #[error("{call} failed (error {errno})")]
    System {
        /// What was called.
        call: &'static str,
        /// The operating system's error number.
        errno: i32,
    },
}

/// Why a registered region cannot be queried, changed or deregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemError {
    /// Not the handle of a live region.
    #[error("not the handle of a registered region")]
    UnknownHandle,
    /// The tag does not exist.
    #[error("no such protection tag")]
    UnknownPtag,
}

/// Why a VI is not created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateViError {
    /// The NIC does not offer that reliability level, or not exactly one was asked for.
    #[error("the NIC does not offer this reliability level")]
    Reliability,
    /// More than the NIC transfers at a time, or nothing.
    #[error("the NIC does not transfer messages of this size")]
    MaxTransferSize,
    /// The tag does not exist.
    #[error("no such protection tag")]
    UnknownPtag,
    /// The NIC does not do RDMA reads at this reliability level.
    #[error("the NIC does not support RDMA reads")]
    RdmaRead,
    /// The NIC does not do RDMA writes.
    #[error("the NIC does not support RDMA writes")]
    RdmaWrite,
    /// A completion queue is of another provider's NIC.
    #[error("the completion queue belongs to another NIC")]
    ForeignCq,
    /// The NIC has no more VIs.
    #[error("the NIC has no free VIs")]
    TooMany,
}

/// Why the attributes of a VI are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetViError {
    /// The VI is not idle.
    #[error("cannot change a VI's attributes in state {0}: expected state IDLE")]
    State(ViState),
    /// The NIC does not offer them.
    #[error(transparent)]
    Attributes(#[from] CreateViError),
}

impl SetViError {
    /// The code that VIPL's functions return for it.
    pub fn code(&self) -> ReturnCode {
        match self {
            SetViError::State(_) => ReturnCode::InvalidState,
            SetViError::Attributes(error) => error.code(),
        }
    }
}

/// Why a completion queue is not created or resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CqError {
    /// No entries, more than the NIC allows, or fewer than are in it now.
    #[error("a completion queue cannot have this many entries")]
    Entries,
    /// The NIC has no more completion queues.
    #[error("the NIC has no free completion queues")]
    TooMany,
}

/// Why a connection does not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// A parameter that can never be right; says which.
    #[error("{0}")]
    InvalidParameter(&'static str),
    /// The time is over.
    #[error("timed out")]
    Timeout,
    /// The far side rejected the request.
    #[error("the peer rejected the connection")]
    Rejected,
    /// No program waits at that address under that discriminator.
    #[error("no program waits for a connection at this address")]
    NoMatch,
    /// The far side is there but cannot be talked to.
    #[error("cannot reach the peer: {0}")]
    NotReachable(&'static str),
    /// The two VIs differ in their reliability level.
    #[error("the two VIs have different reliability levels")]
    Reliability,
    /// The two VIs differ in their maximum transfer size.
    #[error("the two VIs have different maximum transfer sizes")]
    MaxTransferSize,
    /// The VI's state does not allow it.
    #[error(transparent)]
    State(#[from] IllegalTransition),
    /// The resources are used up; says which.
    #[error("out of resources: {0}")]
    Resource(&'static str),
    /// The operating system refused something.
    #[error("{call} failed (error {errno})")]
    System {
        /// What was called.
        call: &'static str,
        /// The operating system's error number.
        errno: i32,
    },
}

/// A request that was not accepted, and why.
pub struct NotAccepted<C> {
    /// Why not.
    pub error: ConnectError,
    /// The request, unless it is over: it still waits for an answer.
    pub request: Option<C>,
}

impl<C> NotAccepted<C> {
    /// The request is as it was.
    pub fn left(error: ConnectError, request: C) -> NotAccepted<C> {
        NotAccepted { error, request: Some(request) }
    }

    /// The requester has given up.
    pub fn over() -> NotAccepted<C> {
        NotAccepted { error: ConnectError::Timeout, request: None }
    }

    /// The same of a request in another form.
    pub fn map<D>(self, form: impl FnOnce(C) -> D) -> NotAccepted<D> {
        NotAccepted { error: self.error, request: self.request.map(form) }
    }
}

impl<C> core::fmt::Debug for NotAccepted<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let left = self.request.is_some();
        f.debug_struct("NotAccepted").field("error", &self.error).field("left", &left).finish()
    }
}

impl<C> core::fmt::Display for NotAccepted<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}

impl<C> core::error::Error for NotAccepted<C> {}

impl<C> From<NotAccepted<C>> for ConnectError {
    /// For a caller that does not need the request, which is thereby rejected.
    fn from(not: NotAccepted<C>) -> ConnectError {
        not.error
    }
}

/// Why a descriptor is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// A send was posted to a VI that is not connected.
    #[error("cannot send in state {0}")]
    State(ViState),
    /// The work queue is full.
    #[error("the work queue is full")]
    QueueFull,
    /// There is no descriptor that the NIC may use at that address: a stale handle, outside the
    /// region, not aligned, another protection tag. (VIPL reports it by the error callback, as
    /// `VIP_ERROR_POST_DESC`, and returns success.)
    #[error("no usable descriptor at this address with this memory handle")]
    Descriptor,
}

/// Why waiting for a descriptor gave none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The time is over.
    #[error("timed out")]
    Timeout,
    /// The queue is empty: there is nothing to wait for.
    #[error("no descriptor is posted")]
    Empty,
}

codes! {
    PtagError {
        PtagError::Unknown => InvalidPtag,
        PtagError::TooMany | PtagError::InUse => ErrorResource,
    }
    RegisterError {
        RegisterError::Empty => InvalidParameter,
        RegisterError::UnknownPtag => InvalidPtag,
        RegisterError::TooManyBytes
        | RegisterError::TooManyRegions
        | RegisterError::LockedMemory
        | RegisterError::System { .. } => ErrorResource,
    }
    MemError {
        MemError::UnknownHandle => InvalidParameter,
        MemError::UnknownPtag => InvalidPtag,
    }
    CreateViError {
        CreateViError::Reliability => InvalidReliabilityLevel,
        CreateViError::MaxTransferSize => InvalidMtu,
        CreateViError::UnknownPtag => InvalidPtag,
        CreateViError::RdmaRead => InvalidRdmaRead,
        CreateViError::RdmaWrite => ErrorNotSupported,
        CreateViError::ForeignCq => InvalidParameter,
        CreateViError::TooMany => ErrorResource,
    }
    CqError {
        CqError::Entries => InvalidParameter,
        CqError::TooMany => ErrorResource,
    }
    ConnectError {
        ConnectError::InvalidParameter(_) => InvalidParameter,
        ConnectError::Timeout => Timeout,
        ConnectError::Rejected => Reject,
        ConnectError::NoMatch => NoMatch,
        ConnectError::NotReachable(_) => NotReachable,
        ConnectError::Reliability => InvalidReliabilityLevel,
        ConnectError::MaxTransferSize => InvalidMtu,
        ConnectError::State(_) => InvalidState,
        ConnectError::Resource(_) | ConnectError::System { .. } => ErrorResource,
    }
    PostError {
        PostError::State(_) => InvalidState,
        PostError::QueueFull => ErrorResource,
        PostError::Descriptor => Success,
    }
    WaitError {
        WaitError::Timeout => Timeout,
        WaitError::Empty => DescriptorError,
    }
}
