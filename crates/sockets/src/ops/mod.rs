//! Socket calls: one module for each family of libc calls.
//!
//! The preload library decodes a call's arguments, and calls these functions for descriptors that [`crate::table`]
//! knows. A parameter `kernel` makes the program's own call in the kernel.
//!
//! - `receive`, `send`: calls that move bytes. `transfer`: code that `receive` and `send` share.
//! - `again`: connections that fell back to TCP, and may try a rendezvous again.
//! - `close`: opens, copies and closes descriptors. `option`: options, modes and errors of a socket.
//! - `keep`: connections whose descriptors are closed while calls on these connections go on.

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
    fionread, keep_error, left, nonblocking, note_option, on_own_options, pending_error,
    reports_times, silence, socket_error,
};
pub use receive::{receive, receive_parts};
pub use send::{send, send_file, send_parts, splice_to};
pub use transfer::Flags;
pub(crate) use transfer::deadline;

/// Does `mlockall`. Locks only the program's mappings, because Sovia maps far more memory than it uses.
pub fn lock_all(flags: i32) -> crate::Outcome {
    sovia_sys::memlock::lock_all(flags).map(|()| 0).map_err(crate::errno)
}
