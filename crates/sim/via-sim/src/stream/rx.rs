//! The receiving end of a stream.

use std::collections::BTreeMap;

/// Frames in order, and those that came before their turn.
#[derive(Debug)]
pub(crate) struct Rx<F> {
    window: u64,
    /// The number of the frame to be handed out next.
    next: u64,
    early: BTreeMap<u64, F>,
}

impl<F> Rx<F> {
    /// An empty stream that keeps frames which are up to `window` ahead.
    pub(crate) fn new(window: usize) -> Rx<F> {
        Rx { window: window as u64, next: 0, early: BTreeMap::new() }
    }

    /// A frame has come; one that came before, or comes far too early, is dropped. The last frame
    /// of all may come just behind the window.
    pub(crate) fn came(&mut self, number: u64, frame: F) {
        if number >= self.next && number - self.next <= self.window {
            self.early.entry(number).or_insert(frame);
        }
    }

    /// The next frame in order, with its number. It counts as received with this.
    pub(crate) fn next(&mut self) -> Option<(u64, F)> {
        let frame = self.early.remove(&self.next)?;
        self.next += 1;
        Some((self.next - 1, frame))
    }

    /// What to acknowledge: everything before this number has been handed out.
    pub(crate) fn ack(&self) -> u64 {
        self.next
    }
}
