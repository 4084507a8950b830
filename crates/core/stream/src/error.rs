//! Errors of streams, with an enum for each kind of call.

use sovia_proto::Violation;
use sovia_proto::configuration::Invalid;
use std::io;
use via::error::{Cause, CqError, CreateViError, PtagError, RegisterError};

/// Reason for which a connection ended before both programs closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reset {
    /// The peer's process has ended. The program has read all bytes that the process sent before.
    #[error("the peer's process has ended")]
    PeerDied,
    /// The peer has aborted its stream, or closed it while this end still had bytes to send.
    #[error("the peer has closed the connection")]
    PeerClosed,
    /// The provider has broken the connection.
    #[error("the connection is broken: {0}")]
    Broken(Cause),
    /// The peer has violated the protocol.
    #[error(transparent)]
    Protocol(Violation),
    /// This end's program has aborted the connection ([`crate::Stream::abort`]).
    #[error("the program has aborted the connection")]
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

/// Reason for which buffers cannot stay registered ([`crate::Stack::set_caching`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CachingError {
    /// The kernel does not report memory that is taken away. The number is the error of the system call. `EPERM` or
    /// `ENOSYS`: the kernel forbids userfaultfd. `EINVAL`: the kernel is older than Linux 5.18. `ECHILD`: this process
    /// is a forked child of the process that gets the reports.
    #[error("the kernel cannot report memory that is unmapped (error {0})")]
    Unnoticed(i32),
    /// The process has too many caches.
    #[error("too many stacks of this process have a cache of buffers")]
    TooMany,
}

impl From<sovia_sys::Errno> for CachingError {
    fn from(error: sovia_sys::Errno) -> CachingError {
        CachingError::Unnoticed(error.into_raw())
    }
}

/// Reason for which a call has transferred no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The call would have to wait, but must not.
    #[error("the call would block")]
    WouldBlock,
    /// The time has expired.
    #[error("timed out")]
    TimedOut,
    /// This end has closed its sending half.
    #[error("the sending half is closed")]
    Shut,
    /// The connection is lost.
    #[error(transparent)]
    Reset(#[from] Reset),
    /// A lent buffer is longer than a packet.
    #[error("{len} bytes do not fit a packet of {chunk} bytes")]
    TooLong {
        /// Number of bytes lent.
        len: usize,
        /// Largest number of bytes of a packet.
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

/// Reason for which an end of a stream cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetUpError {
    /// The configuration is invalid.
    #[error("{0}")]
    Configuration(Invalid),
    /// The NIC offers less of a resource than this configuration needs.
    #[error("the NIC offers less than this configuration needs: {0}")]
    TooSmall(&'static str),
    /// The protection tag could not be created.
    #[error(transparent)]
    Ptag(#[from] PtagError),
    /// The buffers could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The VI could not be created.
    #[error(transparent)]
    Vi(#[from] CreateViError),
    /// The completion queue for SOVIA_HANDLER could not be created.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::ErrorKind),
}

/// Reason for which a connection cannot be established.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// This end could not be created.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// The VIs could not be connected.
    #[error(transparent)]
    Vi(#[from] via::error::ConnectError),
    /// The VIs were connected but then lost the connection, or the peer uses another protocol.
    #[error(transparent)]
    Reset(#[from] Reset),
    /// The time has expired.
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

/// Reason for which no stream was accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// No request has arrived, and the call must not wait.
    #[error("no connection request is waiting")]
    WouldBlock,
    /// The time has expired.
    #[error("timed out")]
    TimedOut,
    /// The listener cannot listen any more.
    #[error(transparent)]
    Listen(#[from] via::error::ConnectError),
}
