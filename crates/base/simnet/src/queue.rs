//! Future events, in order of time.

use crate::Time;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue in order of time. Entries with the same time keep their order of insertion.
///
/// The heap sorts small entries. The queued values themselves are not moved.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    last: u64,
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), last: 0, places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn push(&mut self, at: Time, what: T) {
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(what);
                place
            }
            None => {
                self.places.push(Some(what));
                self.places.len() as u32 - 1
            }
        };
        self.last += 1;
        self.heap.push(Reverse((at, self.last, place)));
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        let what = self.places[place as usize].take()?;
        self.free.push(place);
        Some((at, what))
    }
}
