//! Errors, with libfabric's numbers.

/// Reason why an operation is refused or has failed. The number is libfabric's number in `fi_errno.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub i32);

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:expr;)+) => {
        impl Error { $($(#[$doc])* pub const $name: Error = Error($number);)+ }
    };
}

errors! {
    /// A queue is full. Progress makes room.
    AGAIN = libc::EAGAIN;
    /// An argument is invalid.
    INVALID = libc::EINVAL;
    /// No memory, or no descriptor.
    NO_MEMORY = libc::ENOMEM;
    /// Another object still uses the object.
    BUSY = libc::EBUSY;
    /// The named object does not exist.
    NO_ENTRY = libc::ENOENT;
    /// The operation is not offered.
    NOT_SUPPORTED = libc::EOPNOTSUPP;
    /// The function does not exist.
    NO_SYSTEM = libc::ENOSYS;
    /// No message matches.
    NO_MESSAGE = libc::ENOMSG;
    /// The message is longer than the limit.
    TOO_LONG = libc::EMSGSIZE;
    /// This process does not have the rights.
    ACCESS = libc::EACCES;
    /// No region has that key.
    KEY = libc::EKEYREJECTED;
    /// The memory is not mapped.
    FAULT = libc::EFAULT;
    /// The other process has ended, or has closed its endpoint.
    GONE = libc::ECONNRESET;
    /// No endpoint has that address.
    UNREACHABLE = libc::EHOSTUNREACH;
    /// Received data is invalid.
    CORRUPT = libc::EIO;
    /// The program canceled the operation.
    CANCELED = libc::ECANCELED;
    /// The time limit has passed.
    TIMEOUT = libc::ETIMEDOUT;
    /// No protocol option has this name.
    NO_OPTION = libc::ENOPROTOOPT;
    /// No data matches the query.
    NO_DATA = libc::ENODATA;
    /// The buffer is too small for the answer.
    TOO_SMALL = 257;
    /// The object's state forbids the operation.
    BAD_STATE = 258;
    /// The next item of the queue is a failure.
    AVAILABLE = 259;
    /// The flags are not offered.
    BAD_FLAGS = 260;
    /// No completion queue is bound.
    NO_CQ = 263;
    /// The message was longer than its receive.
    TRUNCATED = 265;
    /// No address vector is bound.
    NO_AV = 267;
}

impl From<sovia_sys::Errno> for Error {
    fn from(errno: sovia_sys::Errno) -> Error {
        Error(errno.into_raw())
    }
}
