//! The end of a program whose output has no reader any more.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Makes SIGPIPE end the program when the reader of its output has gone, as `sovia bench | head` expects. Rust's start
/// code ignores the signal.
///
/// # Panics
/// Never: SIGPIPE has a default action.
pub fn die_of_closed_pipes() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process.
    let done = unsafe { sigaction(Signal::SIGPIPE, &default) };
    done.expect("SIGPIPE has a default");
}
