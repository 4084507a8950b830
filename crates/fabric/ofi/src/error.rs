//! Errors.

use core::ffi::c_int;

/// Error of libfabric, or of its loading.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library is missing, or this program cannot use it.
    #[error("cannot load libfabric: {0}; install libfabric (Debian: libfabric1)")]
    Library(String),
    /// The process is ending, and libfabric with it.
    #[error("this process is ending")]
    Leaving,
    /// The text cannot be a C string.
    #[error("\"{0}\" cannot be a name in libfabric")]
    Name(String),
    /// No provider with this name has the required features.
    #[error(
        "libfabric's provider \"{provider}\" offers no reliable datagram endpoint with reads of remote memory here{at} ({why}); \
         `fi_info -t FI_EP_RDM -c FI_RMA` lists the providers that do"
    )]
    Provider {
        /// Name of the requested provider.
        provider: String,
        /// Requested address, as text.
        at: String,
        /// Reason that libfabric gives.
        why: String,
    },
    /// A call failed.
    #[error("{call} of libfabric's provider \"{provider}\" failed: {why}")]
    Call {
        /// Name of the provider.
        provider: String,
        /// Name of the function.
        call: &'static str,
        /// libfabric's error number.
        errno: c_int,
        /// Reason that libfabric gives.
        why: String,
    },
}
