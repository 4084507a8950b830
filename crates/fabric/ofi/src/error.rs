//! What goes wrong.

use core::ffi::c_int;

/// Why libfabric does not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library is not there, or is none that this program can use.
    #[error("cannot load libfabric: {0}; install libfabric (Debian: libfabric1)")]
    Library(String),
    /// The process ends, and libfabric with it.
    #[error("this process is ending")]
    Leaving,
    /// A text that C cannot have.
    #[error("\"{0}\" cannot be a name in libfabric")]
    Name(String),
    /// No provider of that name has what is needed.
    #[error(
        "libfabric's provider \"{provider}\" offers no reliable datagram endpoint with reads of remote memory here{at} ({why}); \
         `fi_info -t FI_EP_RDM -c FI_RMA` lists the providers that do"
    )]
    Provider {
        /// The provider that was asked for.
        provider: String,
        /// At which address.
        at: String,
        /// What libfabric says.
        why: String,
    },
    /// A call failed.
    #[error("{call} of libfabric's provider \"{provider}\" failed: {why}")]
    Call {
        /// The provider.
        provider: String,
        /// Which.
        call: &'static str,
        /// libfabric's number.
        errno: c_int,
        /// What libfabric says.
        why: String,
    },
}
