//! A received request for a connection.

use crate::state::{Card, Job};
use crate::wire::Refusal;
use std::sync::Arc;
use via::{NetAddress, ViAttributes};

/// A request for a connection. Dropping it without an answer refuses it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) card: Arc<Card>,
    /// Name of the request's identifier in the NIC's thread.
    pub(crate) name: u64,
    pub(crate) remote: NetAddress,
    pub(crate) attributes: ViAttributes,
    /// Refusal that the requester gets if this value is dropped or rejected.
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
