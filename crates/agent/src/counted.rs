//! What an agent tells its owner of frames.

use sovia_port::Counters;

/// What has become of the frames of a port; so many of those that came were of nobody or for nobody.
pub(crate) fn told(counters: &Counters, strangers: u64) -> String {
    let Counters { sent, received, unsendable, missed, malformed, foreign, .. } = counters;
    let nobodys = strangers + foreign;
    format!(
        "{sent} frames sent, {received} received, {unsendable} not taken by the kernel, {missed} lost because a queue was full, \
         {malformed} malformed, {nobodys} of or for nobody"
    )
}
