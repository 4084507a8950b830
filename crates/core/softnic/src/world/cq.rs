//! A completion queue.

use crate::card::Card;
use crate::registered::Registered;
use std::collections::VecDeque;
use std::sync::Arc;
use via::CqEntry;
use via::cq::{CqCallback, CqSignal};

/// A completion queue.
pub(crate) struct CqCore<N> {
    pub(crate) nic: Arc<Card<N>>,
    pub(crate) context: u64,
    pub(crate) capacity: u32,
    pub(crate) entries: VecDeque<CqEntry>,
    pub(crate) notify: VecDeque<Registered<CqCallback>>,
    pub(crate) signals: Vec<Registered<CqSignal>>,
    /// Number of attached work queues.
    pub(crate) attached: u32,
    /// Set once the program has dropped the queue.
    pub(crate) dropped: bool,
}

impl<N> core::fmt::Debug for CqCore<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} of {} entries", self.entries.len(), self.capacity)
    }
}
