//! The receiving half of an end.

use std::collections::BTreeMap;

/// Items in order, and those that came before their turn.
#[derive(Debug)]
pub(super) struct Rx<I> {
    window: u64,
    /// The number of the item to be taken next.
    next: u64,
    early: BTreeMap<u64, I>,
}

impl<I> Rx<I> {
    /// An empty half that keeps items which are up to `window` ahead; the first has the number `first`.
    pub(super) fn new(window: usize, first: u64) -> Rx<I> {
        Rx { window: window as u64, next: first, early: BTreeMap::new() }
    }

    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    /// An item has come; false if it came before, or comes far too early: it is dropped. The last item
    /// of all may come just behind the window.
    pub(super) fn came(&mut self, number: u64, item: I) -> bool {
        let fits = number >= self.next && number - self.next <= self.window;
        if fits {
            self.early.entry(number).or_insert(item);
        }
        fits
    }

    /// The next item in order.
    pub(super) fn peek(&self) -> Option<&I> {
        self.early.get(&self.next)
    }

    /// Takes the next item in order, with its number. It counts as received with this.
    pub(super) fn take(&mut self) -> Option<(u64, I)> {
        let item = self.early.remove(&self.next)?;
        self.next += 1;
        Some((self.next - 1, item))
    }

    /// Forgets the next item in order, as if it had not come.
    pub(super) fn discard(&mut self) {
        self.early.remove(&self.next);
    }

    /// What to acknowledge: everything before this number has been taken.
    pub(super) fn ack(&self) -> u64 {
        self.next
    }
}
