//! Events to come, in the order of their times.

use crate::Time;
use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A queue by time; what has the same time comes in the order in which it was put in.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    last: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    number: u64,
    what: T,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), last: 0 }
    }

    pub(crate) fn push(&mut self, at: Time, what: T) {
        self.last += 1;
        self.heap.push(Reverse(Entry { at, number: self.last, what }));
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
