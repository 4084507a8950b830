//! Implements libc's socket calls on Sovia's descriptors. This crate decodes the arguments, and
//! [`sovia_sockets::ops`] does the work.
//!
//! Two libraries export these calls: the preloaded library under libc's names, and `libsovia` as `sov_…`. The first
//! argument of each function, `real`, makes the real call. A function calls `real` for a descriptor without a table
//! entry, and for a connection on TCP. Each function has one caller and is inlined there. This crate exports no
//! symbols.
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

/// Defines libc's calls. In a call's body, `$real` makes the real call. The body may pass other arguments to
/// `$real` than the program passed.
macro_rules! calls {
    ($($(#[$meta:meta])*
        fn $name:ident($real:ident, $($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {
        $(
            $(#[$meta])*
            #[inline(always)]
            pub unsafe fn $name($real: impl Fn($($ty),*) -> $ret, $($arg: $ty),*) -> $ret {
                // SAFETY: this function has the contract of its libc function. The body accesses the program's
                // memory only as the libc function would.
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
