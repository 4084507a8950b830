//! What an agent tells its owner of frames.

use sovia_port::Counters;

/// What has become of the frames of a port; `nobodys` of those that came had no known sender or no known receiver.
pub(crate) fn told(counters: &Counters, strangers: u64) -> String {
    let Counters { sent, received, unsendable, missed, malformed, foreign, .. } = counters;
    let nobodys = strangers + foreign;
    format!(
        "{sent} frames sent, {received} received, {unsendable} refused by the kernel, {missed} lost because a queue was full, \
         {malformed} malformed, {nobodys} without a known sender or receiver"
    )
}
