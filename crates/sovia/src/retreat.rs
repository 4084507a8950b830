//! Back to TCP.

use crate::conn::Guard;

/// Milliseconds... the progress thread's next look, if bytes wait for room on TCP.
pub(crate) fn pump_pause() -> Option<u64> {
    None
}

/// Serves recalls.
pub(crate) fn serve() {}

/// Whether sends must wait for returned bytes to go first.
pub(crate) fn holds_back(_guard: &mut Guard<'_>, _fd: i32) -> bool {
    false
}

/// The receiver has recalled the direction.
pub(crate) fn answer_recall(_guard: &mut Guard<'_>) {}
