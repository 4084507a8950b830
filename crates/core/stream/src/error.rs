//! What can go wrong with a stream, an enum for each kind of call.

use sovia_proto::Violation;
use sovia_proto::configuration::Invalid;
use std::io;
use via::error::{Cause, CqError, CreateViError, PtagError, RegisterError};

/// Why a connection of a stream is over before both ends have closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reset {
    /// The peer's process has ended. What it had sent has been read before.
    #[error("the peer's process has ended")]
    PeerDied,
    /// The peer has closed its stream while this end still had something to say, or has given it up.
    #[error("the peer has closed the connection")]
    PeerClosed,
    /// The provider has broken the connection.
    #[error("the connection is broken: {0}")]
    Broken(Cause),
    /// The peer does not keep to the protocol.
    #[error(transparent)]
    Protocol(Violation),
    /// This end's program has given it up ([`crate::Stream::abort`]).
    #[error("the connection was given up")]
    Aborted,
}

impl From<Option<Cause>> for Reset {
    fn from(cause: Option<Cause>) -> Reset {
        match cause {
            Some(Cause::PeerDied) => Reset::PeerDied,
            Some(Cause::PeerDisconnected) | None => Reset::PeerClosed,
            Some(cause) => Reset::Broken(cause),
        }
    }
}

/// Why buffers cannot stay registered ([`crate::Stack::set_caching`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CachingError {
    /// The kernel does not tell of memory that goes away: it forbids userfaultfd (`EPERM`,
    /// `ENOSYS`), is too old (`EINVAL`: before Linux 5.18), or this process is a forked child of the
    /// one that is told (`ECHILD`). The number is the system call's error.
    #[error("the kernel cannot report memory that is unmapped (error {0})")]
    Unnoticed(i32),
    /// There is a limit of caches in one process.
    #[error("too many stacks of this process have a cache of buffers")]
    TooMany,
}

impl From<sovia_sys::Errno> for CachingError {
    fn from(error: sovia_sys::Errno) -> CachingError {
        CachingError::Unnoticed(error.into_raw())
    }
}

/// Why a call that moves bytes has moved none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// It would have to wait, and is not to.
    #[error("the call would block")]
    WouldBlock,
    /// The time is over.
    #[error("timed out")]
    TimedOut,
    /// This end has closed its sending half.
    #[error("the sending half is closed")]
    Shut,
    /// The connection is lost.
    #[error(transparent)]
    Reset(#[from] Reset),
    /// A lent buffer is longer than what one packet carries.
    #[error("{len} bytes do not fit a packet of {chunk} bytes")]
    TooLong {
        /// Bytes that were lent.
        len: usize,
        /// Bytes of a packet.
        chunk: usize,
    },
    /// The program's buffer cannot be registered.
    #[error("cannot register the buffer: {0}")]
    Register(RegisterError),
}

impl From<TransferError> for io::Error {
    fn from(error: TransferError) -> io::Error {
        let kind = match error {
            TransferError::WouldBlock => io::ErrorKind::WouldBlock,
            TransferError::TimedOut => io::ErrorKind::TimedOut,
            TransferError::Shut => io::ErrorKind::BrokenPipe,
            TransferError::Reset(Reset::Aborted) => io::ErrorKind::ConnectionAborted,
            TransferError::Reset(_) => io::ErrorKind::ConnectionReset,
            TransferError::TooLong { .. } => io::ErrorKind::InvalidInput,
            TransferError::Register(_) => io::ErrorKind::OutOfMemory,
        };
        io::Error::new(kind, error)
    }
}

/// Why an end of a stream cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetUpError {
    /// There is no such configuration.
    #[error("{0}")]
    Configuration(Invalid),
    /// The NIC has too few of something for this configuration; says of what.
    #[error("the NIC offers less than this configuration needs: {0}")]
    TooSmall(&'static str),
    /// No protection tag.
    #[error(transparent)]
    Ptag(#[from] PtagError),
    /// Its buffers cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// No VI.
    #[error(transparent)]
    Vi(#[from] CreateViError),
    /// No completion queue, which SOVIA_HANDLER needs.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// A thread that the stream needs cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::ErrorKind),
}

/// Why a connection does not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// This end cannot be set up.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// The VIs are not connected.
    #[error(transparent)]
    Vi(#[from] via::error::ConnectError),
    /// They were, and then lost each other, or the peer speaks another protocol.
    #[error(transparent)]
    Reset(#[from] Reset),
    /// The time is over.
    #[error("timed out")]
    TimedOut,
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> io::Error {
        use via::error::ConnectError as Vi;
        let kind = match &error {
            ConnectError::SetUp(SetUpError::Configuration(_)) => io::ErrorKind::InvalidInput,
            ConnectError::SetUp(_) => io::ErrorKind::OutOfMemory,
            ConnectError::Vi(Vi::Rejected | Vi::NoMatch) => io::ErrorKind::ConnectionRefused,
            ConnectError::Vi(Vi::NotReachable(_)) => io::ErrorKind::HostUnreachable,
            ConnectError::Vi(Vi::Timeout) | ConnectError::TimedOut => io::ErrorKind::TimedOut,
            ConnectError::Vi(Vi::InvalidParameter(_)) => io::ErrorKind::InvalidInput,
            ConnectError::Vi(_) => io::ErrorKind::Other,
            ConnectError::Reset(_) => io::ErrorKind::ConnectionReset,
        };
        io::Error::new(kind, error)
    }
}

/// Why no stream is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// No requester has come, and the call is not to wait.
    #[error("no connection request is waiting")]
    WouldBlock,
    /// The time is over.
    #[error("timed out")]
    TimedOut,
    /// The listener can listen no more.
    #[error(transparent)]
    Listen(#[from] via::error::ConnectError),
}
