//! Errors: one small enum per operation, each with VIPL's return codes.

use crate::flags::Status;
use crate::state::{IllegalTransition, ViState};

/// Return codes of all functions of VIPL (`VIP_RETURN`), with VIPL's values.
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

/// Error codes for error callbacks (`VIP_ERROR_CODE`), with VIPL's values.
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

/// Reason for which a VI is in state ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The peer disconnected its VI.
    #[error("the peer has disconnected")]
    PeerDisconnected,
    /// The peer's process has ended.
    #[error("the peer's process has ended")]
    PeerDied,
    /// An error at the peer broke the connection.
    #[error("an error at the peer broke the connection")]
    PeerBroke,
    /// A receive at the peer could not take the message.
    #[error("a receive at the peer could not take the message")]
    RemoteDescriptor,
    /// No receive was posted for a message, which breaks a reliable connection.
    #[error("a message found no posted receive at the peer")]
    ReceiveQueueEmpty,
    /// A descriptor of this VI ended in error; its status is in the variant.
    #[error("a descriptor ended in error: {0:?}")]
    Descriptor(Status),
    /// The NIC refused an RDMA of the peer, or the RDMA failed.
    #[error("an RDMA of the peer failed: {0:?}")]
    Rdma(ErrorCode),
    /// A completion queue of this VI overflowed.
    #[error("a completion queue overflowed")]
    CqOverrun,
    /// The connection's shared data is corrupt: a correct peer cannot have written it.
    #[error("the connection is corrupt: {0}")]
    Corrupt(&'static str),
}

impl Cause {
    /// Returns the error code that an error callback reports.
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
            /// Returns the code that VIPL's functions return for this error.
            pub fn code(&self) -> ReturnCode {
                match self { $($pattern => ReturnCode::$code),+ }
            }
        })+
    };
}

/// Reason for which a protection tag cannot be created, destroyed or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PtagError {
    /// The NIC has no more tags.
    #[error("the NIC has no free protection tags")]
    TooMany,
    /// The tag does not exist.
    #[error("no such protection tag")]
    Unknown,
    /// A region or a VI uses the tag.
    #[error("the protection tag is in use")]
    InUse,
}

/// Reason for which memory cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The region has no bytes.
    #[error("a region must have at least one byte")]
    Empty,
    /// The tag does not exist.
    #[error("no such protection tag")]
    UnknownPtag,
    /// The region, or the total of all regions, exceeds the NIC's limit.
    #[error("the region has more bytes than the NIC can register")]
    TooManyBytes,
    /// The NIC has no room for another region.
    #[error("the NIC cannot register more regions")]
    TooManyRegions,
    /// The operating system cannot lock the region's memory for the NIC.
    #[error(
        "cannot lock that memory for the NIC (the limit may be reached: ulimit -l, or LimitMEMLOCK= of a systemd unit)"
    )]
    LockedMemory,
    /// Another call to the operating system failed.
    #[error("{call} failed (error {errno})")]
    System {
        /// Name of the call.
        call: &'static str,
        /// The operating system's error number.
        errno: i32,
    },
}

/// Reason for which a registered region cannot be queried, changed or deregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemError {
    /// The handle does not belong to a live region.
    #[error("not the handle of a registered region")]
    UnknownHandle,
    /// The tag does not exist.
    #[error("no such protection tag")]
    UnknownPtag,
}

/// Reason for which a VI cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateViError {
    /// The NIC does not offer this reliability level, or the attributes do not have exactly one level.
    #[error("the NIC does not offer this reliability level")]
    Reliability,
    /// The size is zero or exceeds the NIC's maximum transfer size.
    #[error("the NIC does not transfer messages of this size")]
    MaxTransferSize,
    /// The tag does not exist.
    #[error("no such protection tag")]
    UnknownPtag,
    /// The NIC does not support RDMA reads at this reliability level.
    #[error("the NIC does not support RDMA reads")]
    RdmaRead,
    /// The NIC does not support RDMA writes.
    #[error("the NIC does not support RDMA writes")]
    RdmaWrite,
    /// A completion queue belongs to another NIC.
    #[error("the completion queue belongs to another NIC")]
    ForeignCq,
    /// The NIC has no more VIs.
    #[error("the NIC has no free VIs")]
    TooMany,
}

/// Reason for which the attributes of a VI cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetViError {
    /// The VI is not idle.
    #[error("cannot change a VI's attributes in state {0}: expected state IDLE")]
    State(ViState),
    /// The NIC does not offer these attributes.
    #[error(transparent)]
    Attributes(#[from] CreateViError),
}

impl SetViError {
    /// Returns the code that VIPL's functions return for this error.
    pub fn code(&self) -> ReturnCode {
        match self {
            SetViError::State(_) => ReturnCode::InvalidState,
            SetViError::Attributes(error) => error.code(),
        }
    }
}

/// Reason for which a completion queue cannot be created or resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CqError {
    /// The number of entries is zero, above the NIC's limit, or below the number of entries in the queue.
    #[error("a completion queue cannot have this many entries")]
    Entries,
    /// The NIC has no more completion queues.
    #[error("the NIC has no free completion queues")]
    TooMany,
}

/// Reason for which a connection cannot be established.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// A parameter has a value that is never valid.
    #[error("{0}")]
    InvalidParameter(&'static str),
    /// The time has expired.
    #[error("timed out")]
    Timeout,
    /// The peer rejected the request.
    #[error("the peer rejected the connection")]
    Rejected,
    /// No program waits for a connection at this address.
    #[error("no program waits for a connection at this address")]
    NoMatch,
    /// The peer exists but cannot be reached.
    #[error("cannot reach the peer: {0}")]
    NotReachable(&'static str),
    /// The two VIs have different reliability levels.
    #[error("the two VIs have different reliability levels")]
    Reliability,
    /// The two VIs have different maximum transfer sizes.
    #[error("the two VIs have different maximum transfer sizes")]
    MaxTransferSize,
    /// The VI's state does not allow the operation.
    #[error(transparent)]
    State(#[from] IllegalTransition),
    /// A resource is used up.
    #[error("out of resources: {0}")]
    Resource(&'static str),
    /// A call to the operating system failed.
    #[error("{call} failed (error {errno})")]
    System {
        /// Name of the call.
        call: &'static str,
        /// The operating system's error number.
        errno: i32,
    },
}

/// A request that could not be accepted, with the reason.
pub struct NotAccepted<C> {
    /// The reason.
    pub error: ConnectError,
    /// The request, which still waits for an answer; `None` if the request is over.
    pub request: Option<C>,
}

impl<C> NotAccepted<C> {
    /// Creates an error that leaves the request unchanged.
    pub fn left(error: ConnectError, request: C) -> NotAccepted<C> {
        NotAccepted { error, request: Some(request) }
    }

    /// Creates the error for a requester that has given up.
    pub fn over() -> NotAccepted<C> {
        NotAccepted { error: ConnectError::Timeout, request: None }
    }

    /// Converts the request to another type.
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
    /// Drops the request, which rejects it.
    fn from(not: NotAccepted<C>) -> ConnectError {
        not.error
    }
}

/// Reason for which a descriptor cannot be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// A send was posted to a VI that is not connected.
    #[error("cannot send in state {0}")]
    State(ViState),
    /// The work queue is full.
    #[error("the work queue is full")]
    QueueFull,
    /// No usable descriptor lies at this address: a stale handle, an address outside the region, wrong alignment, or
    /// another protection tag. (VIPL reports this through the error callback, as `VIP_ERROR_POST_DESC`, and returns
    /// success.)
    #[error("no usable descriptor at this address with this memory handle")]
    Descriptor,
}

/// Reason for which a wait returned no descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The time has expired.
    #[error("timed out")]
    Timeout,
    /// No descriptor is posted.
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
