//! The life of a VI: connecting, accepting, disconnecting.

use crate::connect::link::{Attachment, Close, End};
use crate::connect::{Incoming, Outgoing};
use crate::vi::inner::{Core, Machine};
use crate::vi::lane::{RxLane, TxLane};
use crate::vi::target::Rights;
use crate::vi::wait::deadline;
use core::sync::atomic::Ordering;
use core::time::Duration;
use sovia_sys::futex;
use std::sync::Arc;
use via::error::{ConnectError, SetViError};
use via::state::{Event, IllegalTransition};
use via::{NetAddress, ViAttributes, ViState};

impl Core {
    /// Takes a new connection's receiving end into use: its posted receives are published. The
    /// caller holds the machine.
    fn begin(&self, machine: &Machine, attachment: &Arc<Attachment>) {
        let rights = Rights { ptag: machine.ptag, attributes: machine.attributes };
        self.target.attach(Some((attachment.clone(), rights)));
        self.dropped.store(0, Ordering::Relaxed);
        self.recv.lock().attach(Some(RxLane::new(attachment)));
    }

    /// The connection is there: sends may flow. The caller holds the machine.
    fn complete(self: &Arc<Self>, machine: &mut Machine, attachment: &Arc<Attachment>) {
        let ahead = self.nic.attributes.max_descriptors_per_queue;
        machine.attachment = Some(attachment.clone());
        // Before it can send: the engine answers for ends that it knows of.
        let end: std::sync::Weak<dyn End> = Arc::downgrade(self) as _;
        attachment.watch(end);
        self.send.lock().attach(Some(TxLane::new(attachment, ahead)));
        // What the peer has left to do before it could find this end.
        attachment.knock_here();
        self.nic.hub.engine.nudge();
        self.changed();
    }

    /// Has the engine see to a new connection. Not under the machine.
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

    /// Takes the connection out of use, if there is one. The caller holds the machine.
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
        // Possible in every state.
        machine.state = machine.state.after(Event::Disconnect).unwrap_or(ViState::Idle);
        machine.attempt += 1;
        self.forget_peers();
        if let Some(socket) = machine.requesting.take() {
            // Whoever waits for an answer is told that there will be none.
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
                // After this the program may free what it has registered.
                attachment.await_reach();
            }
        }
    }

    /// Changes the state for a request that begins; the number of the attempt.
    pub(super) fn begin_request(&self) -> Result<u64, ConnectError> {
        let mut machine = self.machine();
        machine.state = machine.state.after(Event::Request)?;
        machine.attempt += 1;
        Ok(machine.attempt)
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
        let attempt = self.begin_request()?;
        let outgoing = Outgoing {
            hub: &self.nic.hub,
            local,
            remote,
            attributes: self.attributes(),
            until: deadline(timeout),
        };
        let result = self.request(attempt, &outgoing);
        if result.is_err() {
            self.refused(attempt)?;
        }
        result
    }

    /// Carries a request out; the VI is connected if it is accepted. If not, it stays pending.
    pub(super) fn request(
        self: &Arc<Self>,
        attempt: u64,
        outgoing: &Outgoing<'_>,
    ) -> Result<ViAttributes, ConnectError> {
        let result = outgoing.run(|socket, attachment| {
            let mut machine = self.machine();
            check_attempt(&machine, attempt)?;
            machine.requesting = Some(socket.clone());
            self.begin(&machine, attachment);
            Ok(())
        });
        let mut machine = self.machine();
        check_attempt(&machine, attempt)?;
        machine.requesting = None;
        match result {
            Ok((attachment, attributes)) => {
                machine.state = machine.state.after(Event::Accepted)?;
                self.complete(&mut machine, &attachment);
                drop(machine);
                self.look_after();
                Ok(attributes)
            }
            Err(error) => {
                // The receives stay posted, for another attempt.
                self.end(&mut machine);
                Err(error)
            }
        }
    }

    /// An attempt has come to nothing.
    pub(super) fn refused(&self, attempt: u64) -> Result<(), ConnectError> {
        let mut machine = self.machine();
        check_attempt(&machine, attempt)?;
        machine.state = machine.state.after(Event::Refused)?;
        self.changed();
        Ok(())
    }

    /// Connects this VI, which is idle, to a requested one.
    pub(crate) fn accept(self: &Arc<Self>, incoming: Incoming) -> Result<(), ConnectError> {
        self.answer(incoming, Event::Accept, None)
    }

    /// Connects this VI to a requested one, by the event that the state allows.
    pub(super) fn answer(
        self: &Arc<Self>,
        incoming: Incoming,
        event: Event,
        attempt: Option<u64>,
    ) -> Result<(), ConnectError> {
        let mut machine = self.machine();
        if let Some(attempt) = attempt {
            check_attempt(&machine, attempt)?;
        }
        let state = machine.state.after(event)?;
        // There is nothing to take if the requester has given up.
        let attachment = Arc::new(incoming.take().ok_or(ConnectError::Timeout)?);
        self.begin(&machine, &attachment);
        self.complete(&mut machine, &attachment);
        if let Err(error) = incoming.accept(machine.attributes) {
            self.end(&mut machine);
            // The receives stay posted, for another attempt; a send was too early.
            self.send.lock().flush(&self.nic);
            return Err(error);
        }
        machine.state = state;
        drop(machine);
        self.look_after();
        Ok(())
    }

    /// Whether a VI that requests a connection matches this one.
    pub(crate) fn matches(&self, theirs: &ViAttributes) -> Result<(), ConnectError> {
        let ours = self.attributes();
        if ours.reliability != theirs.reliability {
            return Err(ConnectError::Reliability);
        }
        if ours.max_transfer_size != theirs.max_transfer_size {
            return Err(ConnectError::MaxTransferSize);
        }
        Ok(())
    }

    /// Changes the attributes of an idle VI.
    pub(crate) fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError> {
        self.nic.check_vi(&attributes)?;
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

pub(super) fn check_attempt(machine: &Machine, attempt: u64) -> Result<(), ConnectError> {
    if machine.attempt == attempt {
        return Ok(());
    }
    // The program has disconnected the VI meanwhile.
    Err(IllegalTransition { state: machine.state, event: Event::Accepted }.into())
}
