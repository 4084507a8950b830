//! What each family of libc calls does with a descriptor that is ours.
//!
//! The preload library decodes a call's arguments and comes here for descriptors that
//! [`crate::table`] knows; `kernel` is always the real call.

mod close;
pub(crate) mod keep;
mod option;
mod transfer;

pub(crate) use close::leave_to_relay;
pub use close::{
    close, dup, forget, keep_only, leaving, opened, opening, received, shutdown, staying,
};
pub use option::{fionread, keep_error, nonblocking, note_option, pending_error, socket_error};
pub(crate) use transfer::deadline;
pub use transfer::{Flags, receive, send, send_file};

/// `mlockall`. What the library has mapped is far more than is used, and none of the program's.
pub fn lock_all(flags: i32) -> crate::Outcome {
    sovia_sys::memlock::lock_all(flags).map(|()| 0).map_err(crate::errno)
}
