//! The state of a VI: two queues, a state machine, and the error that has broken the connection.

mod breaking;

use crate::bias::{Held, Lock};
use crate::card::{Card, MemoryUser};
use crate::completion::CqCore;
use crate::link::{Attachment, Close, ENGINE, End, Link};
use crate::patience::Budget;
use crate::vi::access;
use crate::vi::machine::Machine;
use crate::vi::notice::Notices;
use crate::vi::peers::Peering;
use crate::vi::recv::{LookResult, RecvSide};
use crate::vi::send::SendSide;
use crate::vi::target::Target;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::cq::WorkQueueKind;
use via::error::{Cause, PostError};
use via::memory::Ptag;
use via::queue::Done;
use via::state::Event;
use via::{DescriptorAddress, ViAttributes, ViState};

/// The state of a VI.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) nic: Arc<Card>,
    /// Number of the VI, unique within the NIC.
    pub(crate) id: u64,
    /// Number by which the program knows the VI.
    pub(crate) context: u64,
    pub(super) machine: Mutex<Machine>,
    pub(super) peering: Peering,
    /// Reason why the connection is broken, while `broken` is set.
    cause: Mutex<Option<Cause>>,
    /// Set once the connection is broken. A thread sets this flag only under the lock of a queue that has a lane.
    /// The flag is cleared after both queues have lost their lanes. So it always refers to the current connection.
    pub(super) broken: AtomicBool,
    /// Changed when a connection begins or ends. The futex word of threads that wait on a VI without a connection.
    pub(super) changes: AtomicU32,
    /// Number of messages dropped by the peer, as reported to the program.
    pub(super) dropped: AtomicU64,
    pub(crate) send: Lock<SendSide>,
    pub(crate) recv: Lock<RecvSide>,
    pub(super) target: Target,
    pub(super) send_budget: Budget,
    pub(super) recv_budget: Budget,
}

/// The completion queues to which a VI's work queues are attached.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) send: Option<Arc<CqCore<Core>>>,
    pub(crate) recv: Option<Arc<CqCore<Core>>>,
}

impl Core {
    pub(crate) fn new(
        nic: Arc<Card>,
        id: u64,
        context: u64,
        attributes: ViAttributes,
        ptag: Ptag,
        queues: Queues,
    ) -> Core {
        let capacity = nic.attributes.max_descriptors_per_queue;
        let attributes = ViAttributes { ptag: Some(ptag), ..attributes };
        let level = attributes.reliability;
        let send = Notices::new(queues.send, context, WorkQueueKind::Send);
        let recv = Notices::new(queues.recv, context, WorkQueueKind::Recv);
        Core {
            id,
            context,
            machine: Mutex::new(Machine::new(attributes, ptag)),
            peering: Peering::default(),
            cause: Mutex::new(None),
            broken: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
            send: Lock::new(SendSide::new(capacity, &attributes, ptag, send)),
            recv: Lock::new(RecvSide::new(capacity, level, ptag, recv)),
            target: Target::default(),
            send_budget: nic.spin.budget(),
            recv_budget: nic.spin.budget(),
            nic,
        }
    }

    pub(crate) fn attributes(&self) -> ViAttributes {
        self.machine().attributes
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this end of the current connection.
    pub(crate) fn attachment(&self) -> Option<Arc<Attachment>> {
        self.machine().attachment.clone()
    }

    pub(crate) fn cause(&self) -> MutexGuard<'_, Option<Cause>> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> ViState {
        self.catch_up();
        let mut machine = self.machine();
        if self.is_broken()
            && let Ok(state) = machine.state.after(Event::Break)
        {
            machine.state = state;
        }
        machine.state
    }

    #[inline]
    pub(crate) fn post_send(self: &Arc<Self>, at: DescriptorAddress) -> Result<(), PostError> {
        let mut guard = self.send.lock();
        let send = &mut *guard;
        if send.lane.is_none() {
            drop(guard);
            return Err(PostError::State(self.state()));
        }
        if !send.post(&self.nic, at, self.is_broken())? {
            self.give_up_sending(guard);
            return Ok(());
        }
        if send.queue.work.outstanding() != 0 && !send.awaits_room {
            drop(guard);
            self.have_looked_after();
        }
        Ok(())
    }

    /// Asks the peer to wake this process's engine when there is room. The engine then continues the waiting send, even
    /// if the program makes no further call.
    #[cold]
    fn have_looked_after(&self) {
        let mut send = self.send.lock();
        if send.awaits_room {
            return;
        }
        let Some(lane) = &send.lane else { return };
        lane.direction().room.watch(ENGINE);
        fence(Ordering::SeqCst);
        send.awaits_room = true;
        drop(send);
        // The peer may have made room before it saw that it must wake the engine, so try again to send.
        self.send_all();
    }

    /// Sends as much as possible now.
    pub(crate) fn send_all(&self) {
        let mut send = self.send.lock();
        if self.is_broken() {
            send.flush(&self.nic);
        } else if !send.progress(&self.nic) {
            self.give_up_sending(send);
            return;
        }
        if send.queue.work.outstanding() == 0
            && send.awaits_room
            && let Some(lane) = &send.lane
        {
            lane.direction().room.unwatch(ENGINE);
            send.awaits_room = false;
        }
    }

    /// Receives all messages that have arrived, for a program that makes no calls.
    pub(crate) fn receive_all(&self) {
        let mut recv = self.recv.lock();
        while !self.is_broken() && recv.queue.work.outstanding() > 0 {
            match recv.progress(&self.nic) {
                LookResult::Message => {}
                LookResult::Nothing => break,
                LookResult::Trouble => {
                    self.give_up_receiving(recv);
                    return;
                }
            }
        }
        self.note_dropped(&recv);
        if self.is_broken() {
            recv.wind_up(&self.nic);
        }
    }

    /// Reports to the program that the peer has dropped messages because no receive was posted.
    fn note_dropped(&self, recv: &RecvSide) {
        let Some(lane) = recv.lane() else { return };
        let dropped = lane.dropped();
        if self.dropped.swap(dropped, Ordering::Relaxed) != dropped {
            self.report(Cause::ReceiveQueueEmpty);
        }
    }

    #[inline]
    pub(crate) fn post_recv(self: &Arc<Self>, at: DescriptorAddress) -> Result<(), PostError> {
        let mut guard = self.recv.lock();
        let recv = &mut *guard;
        let ptag = recv.queue.ptag;
        access::descriptor(&mut recv.queue.descriptors, &self.nic, ptag, at)
            .ok_or(PostError::Descriptor)?
            .clear_status();
        recv.queue.work.post(at).map_err(|_| PostError::QueueFull)?;
        if self.is_broken() {
            recv.wind_up(&self.nic);
            return Ok(());
        }
        recv.publish();
        if recv.wants_listing() {
            self.list_if_wanted(guard);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn send_done(&self) -> Done {
        let mut guard = self.send.lock();
        let send = &mut *guard;
        match send.queue.work.take() {
            Done::NotDone => {}
            done => return done,
        }
        if self.is_broken() {
            send.flush(&self.nic);
        } else if !send.progress(&self.nic) {
            self.give_up_sending(guard);
            return self.send.lock().queue.work.take();
        }
        send.queue.work.take()
    }

    #[inline]
    pub(crate) fn recv_done(self: &Arc<Self>) -> Done {
        let mut guard = self.recv.lock();
        let recv = &mut *guard;
        match recv.queue.work.take() {
            Done::NotDone => {}
            done => return done,
        }
        if !self.is_broken() {
            let taken = recv.take_next(&self.nic);
            let result = match taken {
                Ok(completion) => {
                    if recv.trouble.is_some() {
                        self.give_up_receiving(guard);
                    } else if recv.looked() {
                        self.between_looks(guard);
                    }
                    return Done::Completion(completion);
                }
                Err(result) => result,
            };
            if result == LookResult::Trouble {
                self.give_up_receiving(guard);
                return self.recv.lock().queue.work.take();
            }
            if recv.looked() {
                self.between_looks(guard);
            }
            return Done::NotDone;
        }
        recv.wind_up(&self.nic);
        recv.queue.work.take()
    }

    /// Does other work while the program polls: updates the VI's attention state and executes the peer's RDMAs. The
    /// engine would execute an RDMA later, because it may have to wait for a processor.
    #[cold]
    fn between_looks(self: &Arc<Self>, mut recv: Held<'_, RecvSide>) {
        recv.polled();
        self.list_if_wanted(recv);
        self.serve_if_staged();
    }
}

impl MemoryUser for Core {
    fn quiesce(&self) {
        drop(self.send.lock());
        drop(self.recv.lock());
        if self.target.quiesce() {
            self.serve();
        }
    }
}

impl End for Core {
    fn attend(&self) {
        self.serve();
        let armed = self.recv.lock().attention.armed;
        if armed {
            self.receive_all();
        } else {
            self.note_dropped(&self.recv.lock());
            self.catch_up();
        }
        let send = self.send.lock();
        if let Some(lane) = &send.lane {
            lane.attachment().not_reaching();
        }
        let waiting = send.queue.work.outstanding() > 0;
        drop(send);
        if waiting {
            self.send_all();
        }
    }

    fn peer_died(&self, link: &Link) {
        let recv = self.recv.lock();
        let Some(lane) = recv.lane() else { return };
        if core::ptr::eq(&*lane.attachment().link, link) && !self.is_broken() {
            // The peer may have published its reason for closing before it died.
            let cause = lane.peer_closed().unwrap_or(Cause::PeerDied);
            self.break_receiving(recv, cause, Close::Broken);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.disconnect();
        self.nic.vi_gone(self.id);
    }
}
