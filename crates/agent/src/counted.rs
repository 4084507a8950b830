//! Text with the frame counters of an agent.

use sovia_port::Counters;

/// Returns a text with a port's counters. `strangers` counts received frames without a known sender or receiver.
pub(crate) fn told(counters: &Counters, strangers: u64) -> String {
    let Counters { sent, received, unsendable, missed, malformed, foreign, .. } = counters;
    let nobodys = strangers + foreign;
    format!(
        "{sent} frames sent, {received} received, {unsendable} refused by the kernel, {missed} lost because a queue was full, \
         {malformed} malformed, {nobodys} without a known sender or receiver"
    )
}
