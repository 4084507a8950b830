//! What the calls of libc that reach a stream socket do with a descriptor of Sovia's: arguments are
//! decoded as C passes them, and [`sovia_sockets::ops`] does the rest.
//!
//! Two libraries export these, each under its own names: the preloaded one under libc's, so that a
//! program need not know, and `libsovia` as `sov_…`. Each function here takes first how the real
//! call is made (`real`), for descriptors that are not on record, or on TCP. All are inlined into
//! their one caller; nothing here is exported.
//!
//! | module | calls |
//! |---|---|
//! | [`receive`], [`send`] | bytes |
//! | [`sockets`] | connections begin, end, are configured |
//! | [`descriptors`] | close, dup, fcntl, ioctl |
//! | [`poll`] | waiting |

#![allow(clippy::missing_safety_doc, reason = "each call has the contract of its libc function")]
#![allow(missing_docs, reason = "the calls are libc's and documented there")]
#![allow(clippy::too_many_arguments, reason = "libc decides how many there are")]

/// Defines calls. `$real` is the libc function that a call stands for, called with its own
/// arguments or others.
macro_rules! calls {
    ($($(#[$meta:meta])*
        fn $name:ident($real:ident, $($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $(
            $(#[$meta])*
            #[inline(always)]
            pub unsafe fn $name($real: impl Fn($($ty),*) -> $ret, $($arg: $ty),*) -> $ret {
                // SAFETY: a call has the contract of its libc function: its caller vouches for
                // every pointer as for the real one, and gets from the body what it would get there.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

pub mod boundary;
pub mod buffers;
pub mod descriptors;
pub mod poll;
pub mod receive;
pub mod send;
pub mod sockets;
#[cfg(test)]
mod tests;

pub use boundary::{errno, finish, outcome, set_errno};
