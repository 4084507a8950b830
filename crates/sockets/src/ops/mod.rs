//! What each family of libc calls does with a descriptor that is ours.
//!
//! The preload library decodes a call's arguments and comes here for descriptors that
//! [`crate::table`] knows; `kernel` is always the real call.
//!
//! - `receive`, `send`: the calls that move bytes; `transfer`: what those have in common;
//! - `again`: connections whose peer has taken them back to TCP, and that may meet again;
//! - `close`: how descriptors come, are copied and go; `option`: options, modes and errors of a socket;
//! - `keep`: connections that calls are still under way on, when their descriptors are gone.

mod again;
mod close;
pub(crate) mod keep;
mod option;
mod receive;
mod send;
mod transfer;

pub(crate) use close::leave_to_relay;
pub use close::{
    close, disconnect, dup, forget, keep_only, leaving, opened, opening, received, shutdown,
    staying,
};
pub use option::{
    fionread, keep_error, left, nonblocking, note_option, on_own_options, pending_error, silence,
    socket_error, tells_times,
};
pub use receive::{receive, receive_parts};
pub use send::{send, send_file, send_parts};
pub use transfer::Flags;
pub(crate) use transfer::deadline;

/// `mlockall`. What the library has mapped is far more than is used, and none of the program's.
pub fn lock_all(flags: i32) -> crate::Outcome {
    sovia_sys::memlock::lock_all(flags).map(|()| 0).map_err(crate::errno)
}
