//! The state of a VI and of its connection request. The tables in `via` define the changes of the state.

use crate::link::Attachment;
use sovia_sys::seqpacket::Packets;
use std::sync::Arc;
use via::connection::{Model, Requester};
use via::error::ConnectError;
use via::memory::Ptag;
use via::state::{Event, IllegalTransition};
use via::{ViAttributes, ViState};

#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) state: ViState,
    pub(super) attributes: ViAttributes,
    pub(super) ptag: Ptag,
    /// The last request. `number` is its number, by which a thread can see that its own request is no longer the
    /// current one.
    request: Option<Requester>,
    number: u64,
    /// Socket on which a pending request waits for the peer's answer.
    pub(super) requesting: Option<Arc<Packets>>,
    pub(super) attachment: Option<Arc<Attachment>>,
}

impl Machine {
    pub(super) fn new(attributes: ViAttributes, ptag: Ptag) -> Machine {
        Machine {
            state: ViState::Idle,
            attributes,
            ptag,
            request: None,
            number: 0,
            requesting: None,
            attachment: None,
        }
    }

    /// Begins a request and returns its number.
    pub(super) fn begin(&mut self, model: Model) -> Result<u64, IllegalTransition> {
        self.state = self.state.after(Event::Request)?;
        self.request = Some(Requester::new(model));
        self.number += 1;
        Ok(self.number)
    }

    /// Returns the request with this number.
    ///
    /// # Errors
    /// [`ConnectError::State`] if the request is over, because the program has disconnected the VI.
    pub(super) fn request(&mut self, number: u64) -> Result<&mut Requester, ConnectError> {
        let over = IllegalTransition { state: self.state, event: Event::Accepted };
        let current = self.request.as_mut().filter(|request| !request.phase().is_over());
        current.filter(|_| number == self.number).ok_or(over.into())
    }

    /// Ends the request with this number.
    ///
    /// # Errors
    /// [`ConnectError::State`] if the request is over already.
    pub(super) fn end_request(
        &mut self,
        number: u64,
        outcome: Result<(), &ConnectError>,
    ) -> Result<(), ConnectError> {
        let over = IllegalTransition { state: self.state, event: Event::Accepted };
        let event = self.request(number)?.end(outcome).map_err(|_| over)?;
        self.state = self.state.after(event)?;
        Ok(())
    }

    /// Disconnects the VI, and ends a pending request.
    pub(super) fn disconnect(&mut self) {
        let withdrawn = IllegalTransition { state: self.state, event: Event::Disconnect };
        if self.end_request(self.number, Err(&withdrawn.into())).is_err() {
            // There is no pending request. The VI may be in any state.
            self.state = self.state.after(Event::Disconnect).unwrap_or(ViState::Idle);
        }
    }
}
