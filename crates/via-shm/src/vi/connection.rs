//! The life of a VI: connecting, accepting, disconnecting.

use crate::connect::link::{Attachment, Close, End};
use crate::connect::{Incoming, Outgoing};
use crate::vi::inner::{Core, Machine};
use crate::vi::lane::{RxLane, TxLane};
use crate::vi::wait::deadline;
use core::sync::atomic::Ordering;
use core::time::Duration;
use sovia_sys::futex;
use std::sync::Arc;
use via::error::ConnectError;
use via::state::{Event, IllegalTransition};
use via::{NetAddress, ViAttributes, ViState};

impl Core {
    /// Takes a new connection's receiving end into use: its posted receives are published.
    fn begin(&self, attachment: &Arc<Attachment>) {
        self.recv.lock().attach(Some(RxLane::new(attachment)));
    }

    /// The connection is there: sends may flow. The caller holds the machine.
    fn complete(self: &Arc<Self>, machine: &mut Machine, attachment: &Arc<Attachment>) {
        self.send.lock().lane = Some(TxLane::new(attachment));
        machine.attachment = Some(attachment.clone());
        let end: std::sync::Weak<dyn End> = Arc::downgrade(self) as _;
        attachment.watch(end);
        self.changed();
    }

    /// Takes the connection out of use, if there is one. The caller holds the machine.
    fn end(&self, machine: &mut Machine) -> Option<Arc<Attachment>> {
        self.send.lock().lane = None;
        self.recv.lock().attach(None);
        self.broken.store(false, Ordering::SeqCst);
        *self.cause() = None;
        self.changed();
        machine.attachment.take()
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.changes, u32::MAX >> 1);
    }

    pub(crate) fn disconnect(&self) {
        let mut machine = self.machine();
        // Possible in every state.
        machine.state = machine.state.after(Event::Disconnect).unwrap_or(ViState::Idle);
        machine.attempt += 1;
        let attachment = self.end(&mut machine);
        self.send.lock().flush(&self.nic);
        self.recv.lock().flush(&self.nic);
        drop(machine);
        if let Some(attachment) = attachment {
            attachment.close(Close::Disconnected);
            attachment.wake_local();
        }
    }

    pub(crate) fn connect_request(
        self: &Arc<Self>,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError> {
        if timeout == Some(Duration::ZERO) {
            return Err(ConnectError::InvalidParameter("a request must be given some time"));
        }
        let attempt = {
            let mut machine = self.machine();
            machine.state = machine.state.after(Event::Request)?;
            machine.attempt += 1;
            machine.attempt
        };
        let outgoing = Outgoing {
            hub: &self.nic.hub,
            local,
            remote,
            attributes: self.attributes,
            until: deadline(timeout),
        };
        let result = outgoing.run(|attachment| {
            let machine = self.machine();
            check_attempt(&machine, attempt)?;
            self.begin(attachment);
            Ok(())
        });
        let mut machine = self.machine();
        check_attempt(&machine, attempt)?;
        match result {
            Ok((attachment, attributes)) => {
                machine.state = machine.state.after(Event::Accepted)?;
                self.complete(&mut machine, &attachment);
                Ok(attributes)
            }
            Err(error) => {
                machine.state = machine.state.after(Event::Refused)?;
                // The receives stay posted, for another attempt.
                self.end(&mut machine);
                Err(error)
            }
        }
    }

    /// Connects this VI to a requested one.
    pub(crate) fn accept(self: &Arc<Self>, incoming: Incoming) -> Result<(), ConnectError> {
        let mut machine = self.machine();
        let state = machine.state.after(Event::Accept)?;
        // There is nothing to take if the requester has given up.
        let attachment = Arc::new(incoming.take().ok_or(ConnectError::Timeout)?);
        self.begin(&attachment);
        self.complete(&mut machine, &attachment);
        if let Err(error) = incoming.accept(self.attributes) {
            self.end(&mut machine);
            return Err(error);
        }
        machine.state = state;
        Ok(())
    }

    /// Whether a VI that requests a connection matches this one.
    pub(crate) fn matches(&self, theirs: &ViAttributes) -> Result<(), ConnectError> {
        if self.attributes.reliability != theirs.reliability {
            return Err(ConnectError::Reliability);
        }
        if self.attributes.max_transfer_size != theirs.max_transfer_size {
            return Err(ConnectError::MaxTransferSize);
        }
        Ok(())
    }
}

fn check_attempt(machine: &Machine, attempt: u64) -> Result<(), ConnectError> {
    if machine.attempt == attempt {
        return Ok(());
    }
    // The program has disconnected the VI meanwhile.
    Err(IllegalTransition { state: machine.state, event: Event::Accepted }.into())
}
