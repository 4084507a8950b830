//! What becomes of a program whose output has no reader any more.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Has the program end where the reader of its output has gone, as `sovia bench | head` expects. Rust's start ignores the signal.
///
/// # Panics
/// Never: SIGPIPE has a default.
pub fn die_of_closed_pipes() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is installed.
    let done = unsafe { sigaction(Signal::SIGPIPE, &default) };
    done.expect("SIGPIPE has a default");
}
