//! A request for a connection, as the program that waited has it.

use crate::agent::Job;
use crate::card::Card;
use crate::nic::Open;
use crate::slot::Slot;
use crate::vi::VerbsVi;
use crate::wire::Refusal;
use std::sync::Arc;
use via::error::{ConnectError, NotAccepted};
use via::{Connection, NetAddress, ViAttributes};

/// A request for a connection to a NIC for RDMA.
#[derive(Debug)]
pub struct VerbsConnection {
    pub(crate) card: Arc<Card>,
    /// Keeps the NIC's thread; there when a program has it.
    pub(crate) open: Option<Arc<Open>>,
    /// Its identifier, in the thread.
    pub(crate) name: u64,
    pub(crate) remote: NetAddress,
    pub(crate) attributes: ViAttributes,
    /// What its requester is told when it is rejected.
    pub(crate) refusal: Refusal,
    pub(crate) is_answered: bool,
}

impl Connection for VerbsConnection {
    type Vi = VerbsVi;

    fn remote_address(&self) -> &NetAddress {
        &self.remote
    }

    fn remote_attributes(&self) -> &ViAttributes {
        &self.attributes
    }

    fn accept(mut self, vi: &VerbsVi) -> Result<(), NotAccepted<VerbsConnection>> {
        let slot = Slot::new();
        let (name, vi) = (self.name, vi.shared.clone());
        self.card.job(Job::Accept { name, vi, slot: slot.clone() });
        match slot.wait(None) {
            Some(Ok(())) => {
                self.is_answered = true;
                Ok(())
            }
            Some(Err(error @ (ConnectError::State(_) | ConnectError::Resource(_)))) => {
                Err(NotAccepted::left(error, self))
            }
            Some(Err(error @ ConnectError::Reliability)) => {
                self.refusal = Refusal::Reliability;
                Err(NotAccepted::left(error, self))
            }
            Some(Err(error @ ConnectError::MaxTransferSize)) => {
                self.refusal = Refusal::MaxTransferSize;
                Err(NotAccepted::left(error, self))
            }
            _ => {
                self.is_answered = true;
                Err(NotAccepted::over())
            }
        }
    }

    fn reject(self) {}
}

impl Drop for VerbsConnection {
    fn drop(&mut self) {
        if !self.is_answered {
            self.card.job(Job::Reject { name: self.name, refusal: self.refusal });
        }
        let _ = &self.open;
    }
}
