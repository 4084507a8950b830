//! libsovia: SOVIA's sockets for programs that are written for Sovia. `include/sovia.h` declares the functions.
//! `sov_socket(AF_INET, SOCK_VIA, 0)` makes a stream socket. The socket runs over a VI if the other end also speaks
//! Sovia, and over TCP otherwise.
//!
//! Each C function is one short function here. [`sovia_calls`] decodes arguments, also for the preloaded library.
//! libsovia replaces no symbol of libc. To use a SOCK_VIA socket, a program calls the function whose name begins with
//! `sov_`. These functions accept every other descriptor too.
//!
//! - [`kind`]: the descriptors that are SOCK_VIA sockets;
//! - [`connect`], [`transfer`], [`descriptor`], [`wait`]: the calls, by purpose;
//! - [`option`]: SOL_SOVIA; [`zero_copy`]: lent buffers; [`stdio`]: libc's streams.
//!
//! In a process under `sovia run`, the preloaded library's engine serves all code ([`sovia_sockets::native`]). These
//! functions then call libc's names.

#![allow(missing_docs, reason = "the functions are documented in sovia.h")]
#![allow(
    clippy::missing_safety_doc,
    reason = "each function has the contract of its libc function"
)]
#![allow(clippy::too_many_arguments, reason = "libc decides how many there are")]

use sovia_sockets::native;

/// Returns true if the preloaded library's engine serves this process. libc's names then reach that engine.
#[inline]
pub(crate) fn is_preloaded() -> bool {
    !native::is_own() && !matches!(native::engine(), native::Engine::Own)
}

/// Exports functions that do what the libc call of the same name does, also for SOCK_VIA sockets.
macro_rules! natives {
    ($(fn $name:ident = $real:path, $call:path, ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
                // SAFETY: the C caller passes arguments that are valid for libc's function of the same name.
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
