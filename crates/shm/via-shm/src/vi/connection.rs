//! Connecting, accepting and disconnecting a VI.

use crate::connect::{Incoming, Outgoing};
use crate::link::{Attachment, Close, End};
use crate::patience::deadline;
use crate::vi::inner::Core;
use crate::vi::lane::{RxLane, TxLane};
use crate::vi::machine::Machine;
use crate::vi::target::Rights;
use core::sync::atomic::Ordering;
use core::time::Duration;
use sovia_sys::futex;
use std::sync::Arc;
use via::connection::Model;
use via::error::{ConnectError, NotAccepted, SetViError};
use via::state::Event;
use via::{NetAddress, ViAttributes, ViState};

impl Core {
    /// Attaches the receiving direction of a new connection, and publishes the posted receives. The caller holds the
    /// lock of the state machine.
    fn begin(&self, machine: &Machine, attachment: &Arc<Attachment>) {
        let rights = Rights { ptag: machine.ptag, attributes: machine.attributes };
        self.target.attach(Some((attachment.clone(), rights)));
        self.dropped.store(0, Ordering::Relaxed);
        self.recv.lock().attach(Some(RxLane::new(attachment)));
    }

    /// Attaches the sending direction of a new connection. The caller holds the lock of the state machine.
    fn complete(self: &Arc<Self>, machine: &mut Machine, attachment: &Arc<Attachment>) {
        let ahead = self.nic.attributes.max_descriptors_per_queue;
        machine.attachment = Some(attachment.clone());
        // Register this end before it can send. For an end that is not registered, the engine clears `W_REACHING`,
        // which this end sets during a direct RDMA.
        let end: std::sync::Weak<dyn End> = Arc::downgrade(self) as _;
        attachment.watch(end);
        self.send.lock().attach(Some(TxLane::new(attachment, ahead)));
        // Make the engine look at this VI, because the peer may have reported events before this end was
        // registered.
        attachment.knock_here();
        self.nic.hub.engine.nudge();
        self.changed();
    }

    /// Registers a new connection with the engine and the completion queue. The caller must not hold the lock of the
    /// state machine.
    fn look_after(self: &Arc<Self>) {
        let recv = self.recv.lock();
        let wanted = recv.queue.notices.has_callbacks()
            || recv.queue.notices.cq.as_ref().is_some_and(|cq| cq.is_awaited());
        let cq = recv.queue.notices.cq.clone();
        self.list_if_wanted(recv);
        if let Some(cq) = cq
            && let Some(attachment) = self.attachment()
        {
            cq.connected(self, &attachment);
        }
        if wanted {
            self.arm();
        }
    }

    /// Detaches the connection, if there is one. The caller holds the lock of the state machine.
    fn end(&self, machine: &mut Machine) -> Option<Arc<Attachment>> {
        self.send.lock().attach(None);
        self.recv.lock().attach(None);
        self.target.attach(None);
        self.broken.store(false, Ordering::SeqCst);
        *self.cause() = None;
        self.changed();
        machine.attachment.take()
    }

    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.changes, u32::MAX >> 1);
    }

    pub(crate) fn disconnect(&self) {
        let mut machine = self.machine();
        machine.disconnect();
        self.forget_peers();
        if let Some(socket) = machine.requesting.take() {
            // Wake the thread that waits for the peer's answer.
            socket.shutdown();
        }
        let attachment = self.end(&mut machine);
        self.send.lock().flush(&self.nic);
        self.recv.lock().flush(&self.nic);
        let reached = machine.attributes.enable_rdma_write || machine.attributes.enable_rdma_read;
        drop(machine);
        if let Some(attachment) = attachment {
            let cq = self.recv.lock().queue.notices.cq.clone();
            if let Some(cq) = cq {
                cq.disconnected(self, &attachment);
            }
            attachment.close(Close::Disconnected);
            attachment.wake_local();
            if reached {
                // Wait until the peer no longer accesses registered memory, because the program may free this
                // memory next.
                attachment.await_reach();
            }
        }
    }

    pub(crate) fn connect_request(
        self: &Arc<Self>,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError> {
        if timeout == Some(Duration::ZERO) {
            return Err(ConnectError::InvalidParameter("a timeout of zero"));
        }
        let number = self.machine().begin(Model::ClientServer)?;
        let outgoing = Outgoing {
            hub: &self.nic.hub,
            local,
            remote,
            attributes: self.attributes(),
            until: deadline(timeout),
        };
        let result = self.request(number, &outgoing);
        if let Err(error) = &result {
            self.refused(number, error)?;
        }
        result
    }

    /// Sends a connection request to the peer. If the peer accepts the request, connects the VI. If not, the VI's
    /// request `number` stays pending.
    pub(super) fn request(
        self: &Arc<Self>,
        number: u64,
        outgoing: &Outgoing<'_>,
    ) -> Result<ViAttributes, ConnectError> {
        let result = outgoing.run(|socket, attachment| {
            let mut machine = self.machine();
            // The peer waits, so it takes the request as soon as this process sends the request. Record this step
            // before the send.
            machine.request(number)?.taken().map_err(|_| ConnectError::NoMatch)?;
            machine.requesting = Some(socket.clone());
            self.begin(&machine, attachment);
            Ok(())
        });
        let mut machine = self.machine();
        machine.request(number)?;
        machine.requesting = None;
        match result {
            Ok((attachment, attributes)) => {
                machine.end_request(number, Ok(()))?;
                self.complete(&mut machine, &attachment);
                drop(machine);
                self.look_after();
                Ok(attributes)
            }
            Err(error) => {
                // The receives stay posted for another attempt.
                self.end(&mut machine);
                Err(error)
            }
        }
    }

    /// Ends a failed request.
    pub(super) fn refused(&self, number: u64, error: &ConnectError) -> Result<(), ConnectError> {
        self.machine().end_request(number, Err(error))?;
        self.changed();
        Ok(())
    }

    /// Connects this VI, which must be idle, to the VI that has sent the request `incoming`.
    pub(crate) fn accept(
        self: &Arc<Self>,
        incoming: Box<Incoming>,
    ) -> Result<(), NotAccepted<Box<Incoming>>> {
        self.answer(incoming, None)
    }

    /// Connects this VI to the VI that has sent the request `incoming`. With `number`, this VI has a pending peer
    /// request of that number, and `incoming` is the peer's request. Otherwise this VI must be idle.
    pub(super) fn answer(
        self: &Arc<Self>,
        mut incoming: Box<Incoming>,
        number: Option<u64>,
    ) -> Result<(), NotAccepted<Box<Incoming>>> {
        let mut machine = self.machine();
        let possible = match number {
            None => machine.state.after(Event::Accept).map(drop).map_err(ConnectError::from),
            Some(number) => machine.request(number).map(drop),
        };
        let fits = possible.and_then(|()| incoming.compare(&machine.attributes));
        if let Err(error) = fits {
            drop(machine);
            return Err(NotAccepted::left(error, incoming));
        }
        let attachment = Arc::new(incoming.take().ok_or_else(NotAccepted::over)?);
        self.begin(&machine, &attachment);
        self.complete(&mut machine, &attachment);
        let accepted = incoming.accept(machine.attributes).and_then(|()| match number {
            None => machine.state.after(Event::Accept).map_err(ConnectError::from),
            Some(number) => machine.end_request(number, Ok(())).map(|()| machine.state),
        });
        let Ok(state) = accepted else {
            self.end(&mut machine);
            // The receives stay posted for another attempt. Flush the sends that were posted during this attempt.
            self.send.lock().flush(&self.nic);
            return Err(NotAccepted::over());
        };
        machine.state = state;
        drop(machine);
        self.look_after();
        Ok(())
    }

    /// Changes the attributes of an idle VI.
    pub(crate) fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError> {
        self.nic.attributes.offer(&attributes)?;
        let mut machine = self.machine();
        if machine.state != ViState::Idle {
            return Err(SetViError::State(machine.state));
        }
        let table = &self.nic.table;
        let ptag =
            table.hold_ptag(attributes.ptag).map_err(|_| via::error::CreateViError::UnknownPtag)?;
        table.release_ptag(machine.ptag);
        machine.ptag = ptag;
        machine.attributes = ViAttributes { ptag: Some(ptag), ..attributes };
        self.send.lock().set_attributes(&attributes, ptag);
        let mut recv = self.recv.lock();
        recv.level = attributes.reliability;
        recv.queue.ptag = ptag;
        Ok(())
    }
}
