//! Errors, by libfabric's numbers.

/// Why an operation is refused, or has failed. The number is libfabric's (`fi_errno.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub i32);

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:expr;)+) => {
        impl Error { $($(#[$doc])* pub const $name: Error = Error($number);)+ }
    };
}

errors! {
    /// A queue is full: progress makes room.
    AGAIN = libc::EAGAIN;
    /// An argument makes no sense.
    INVALID = libc::EINVAL;
    /// No memory, or no descriptor.
    NO_MEMORY = libc::ENOMEM;
    /// Something else still uses it.
    BUSY = libc::EBUSY;
    /// There is none.
    NO_ENTRY = libc::ENOENT;
    /// Not offered.
    NOT_SUPPORTED = libc::EOPNOTSUPP;
    /// No such function.
    NO_SYSTEM = libc::ENOSYS;
    /// No message that fits.
    NO_MESSAGE = libc::ENOMSG;
    /// Longer than the longest.
    TOO_LONG = libc::EMSGSIZE;
    /// Not with this process's rights.
    ACCESS = libc::EACCES;
    /// No region has that key.
    KEY = libc::EKEYREJECTED;
    /// Memory that is not there.
    FAULT = libc::EFAULT;
    /// The other process has ended, or has closed its endpoint.
    GONE = libc::ECONNRESET;
    /// No endpoint has that address.
    UNREACHABLE = libc::EHOSTUNREACH;
    /// What arrived makes no sense.
    CORRUPT = libc::EIO;
    /// Taken back by the program.
    CANCELED = libc::ECANCELED;
    /// Nothing came in time.
    TIMEOUT = libc::ETIMEDOUT;
    /// No protocol option of that name.
    NO_OPTION = libc::ENOPROTOOPT;
    /// No data that fits the question.
    NO_DATA = libc::ENODATA;
    /// The buffer is too small for the answer.
    TOO_SMALL = 257;
    /// Not in this state.
    BAD_STATE = 258;
    /// An error entry waits.
    AVAILABLE = 259;
    /// Flags that are not offered.
    BAD_FLAGS = 260;
    /// No completion queue is bound.
    NO_CQ = 263;
    /// A message longer than its receive.
    TRUNCATED = 265;
    /// No address vector is bound.
    NO_AV = 267;
}

impl From<sovia_sys::Errno> for Error {
    fn from(errno: sovia_sys::Errno) -> Error {
        Error(errno.into_raw())
    }
}
