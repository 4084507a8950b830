//! A request for a connection, for the program that waited.

use crate::open::Open;
use crate::state::{Accepted, Job, Request};
use crate::vi::VerbsVi;
use crate::wire::Refusal;
use std::sync::Arc;
use via::error::{ConnectError, NotAccepted};
use via::{Connection, NetAddress, ViAttributes};

/// A request for a connection to an RDMA NIC. Dropping the value refuses the request.
#[derive(Debug)]
pub struct VerbsConnection {
    pub(crate) request: Request,
    /// Keeps the NIC's thread running.
    pub(crate) _open: Arc<Open>,
}

impl Connection for VerbsConnection {
    type Vi = VerbsVi;

    fn remote_address(&self) -> &NetAddress {
        &self.request.remote
    }

    fn remote_attributes(&self) -> &ViAttributes {
        &self.request.attributes
    }

    fn accept(mut self, vi: &VerbsVi) -> Result<(), NotAccepted<VerbsConnection>> {
        let (accepted, slot) = Accepted::new();
        let (name, vi) = (self.request.name, vi.shared.clone());
        self.request.card.job(Job::Accept { name, vi, accepted });
        match slot.wait(None) {
            Some(Ok(())) => {
                self.request.is_answered = true;
                Ok(())
            }
            Some(Err(error @ (ConnectError::State(_) | ConnectError::Resource(_)))) => {
                Err(NotAccepted::left(error, self))
            }
            Some(Err(error @ ConnectError::Reliability)) => {
                self.request.refusal = Refusal::Reliability;
                Err(NotAccepted::left(error, self))
            }
            Some(Err(error @ ConnectError::MaxTransferSize)) => {
                self.request.refusal = Refusal::MaxTransferSize;
                Err(NotAccepted::left(error, self))
            }
            _ => {
                self.request.is_answered = true;
                Err(NotAccepted::over())
            }
        }
    }

    fn reject(self) {}
}
