//! libsovia: SOVIA's sockets for programs that are written for them. `include/sovia.h` has the
//! functions; `sov_socket(AF_INET, SOCK_VIA, 0)` makes a stream socket that runs over a VI wherever
//! the other end speaks Sovia too, and over TCP wherever it does not.
//!
//! One function of C is one short function here; [`sovia_calls`] does the decoding, for the
//! preloaded library as well. Nothing of libc's is replaced: a program that wants a call of its own
//! to reach a SOCK_VIA socket writes `sov_` before it, and every other descriptor may be passed to
//! these calls too.
//!
//! - [`kind`]: which descriptors are SOCK_VIA's;
//! - [`connect`], [`transfer`], [`descriptor`], [`wait`]: the calls, by what they are for;
//! - [`option`]: SOL_SOVIA; [`zero_copy`]: lent buffers; [`stdio`]: libc's streams.
//!
//! In a process that runs under `sovia run` the preloaded library's engine serves all code in it
//! ([`sovia_sockets::native`]): these functions then call libc's names.

#![allow(missing_docs, reason = "the functions are documented in sovia.h")]
#![allow(
    clippy::missing_safety_doc,
    reason = "each function has the contract of its libc function"
)]
#![allow(clippy::too_many_arguments, reason = "libc decides how many there are")]

use sovia_sockets::native;

/// Whether libc's names reach an engine already: then it is the one.
#[inline]
pub(crate) fn is_preloaded() -> bool {
    !native::is_own() && !matches!(native::engine(), native::Engine::Own)
}

/// Exports functions that do what a call of libc does, on the descriptors of SOCK_VIA as well.
macro_rules! natives {
    ($(fn $name:ident = $real:path, $call:path, ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
                // SAFETY: the caller vouches for the arguments as for libc's own function.
                unsafe {
                    if crate::is_preloaded() {
                        return $real($($arg),*);
                    }
                    $call(|$($arg: $ty),*| $real($($arg),*), $($arg),*)
                }
            }
        )*
    };
}

pub mod connect;
pub mod descriptor;
pub mod kind;
pub mod option;
pub mod stdio;
pub mod transfer;
pub mod wait;
pub mod zero_copy;

#[cfg(test)]
mod header_tests;
