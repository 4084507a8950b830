//! A request for a connection that has come.

use crate::state::{Card, Job};
use crate::wire::Refusal;
use std::sync::Arc;
use via::{NetAddress, ViAttributes};

/// A request for a connection. One that is dropped without an answer is refused.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) card: Arc<Card>,
    /// Its identifier, in the thread.
    pub(crate) name: u64,
    pub(crate) remote: NetAddress,
    pub(crate) attributes: ViAttributes,
    /// What its requester is told when it is rejected.
    pub(crate) refusal: Refusal,
    pub(crate) is_answered: bool,
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_answered {
            self.card.job(Job::Reject { name: self.name, refusal: self.refusal });
        }
    }
}
