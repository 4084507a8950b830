//! What a VI is made of: two queues, a state, and what breaks them.

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
use crate::vi::recv::{News, RecvSide};
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

/// What a VI is made of.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) nic: Arc<Card>,
    /// The VI's number among the NIC's, for as long as it lives.
    pub(crate) id: u64,
    /// The program's name for it.
    pub(crate) context: u64,
    pub(super) machine: Mutex<Machine>,
    pub(super) peering: Peering,
    /// Why the connection is broken, while `broken` is set.
    cause: Mutex<Option<Cause>>,
    /// Set under a queue's lock while that queue has its lane, cleared when both have lost it: so
    /// it always means the present connection.
    pub(super) broken: AtomicBool,
    /// Changed when a connection begins or ends: the futex word of threads that wait outside of one.
    pub(super) changes: AtomicU32,
    /// Messages dropped by the peer that have been reported to the program.
    pub(super) dropped: AtomicU64,
    pub(crate) send: Lock<SendSide>,
    pub(crate) recv: Lock<RecvSide>,
    pub(super) target: Target,
    pub(super) send_budget: Budget,
    pub(super) recv_budget: Budget,
}

/// The completion queues of a VI's queues.
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

    /// The connection that it has.
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

    /// A send waits for room, or for its receiver: if its program never calls again, the engine
    /// goes on with it when the peer publishes room.
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
        // There may have been room before the peer knew that it has to wake the engine.
        self.send_all();
    }

    /// Sends what can be sent now.
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

    /// Receives what has come, for a program that does not look.
    pub(crate) fn receive_all(&self) {
        let mut recv = self.recv.lock();
        while !self.is_broken() && recv.queue.work.outstanding() > 0 {
            match recv.progress(&self.nic) {
                News::Message => {}
                News::Nothing => break,
                News::Trouble => {
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

    /// Tells the program of messages that were dropped for want of a receive.
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
            let news = match taken {
                Ok(completion) => {
                    if recv.trouble.is_some() {
                        self.give_up_receiving(guard);
                    } else if recv.looked() {
                        self.between_looks(guard);
                    }
                    return Done::Completion(completion);
                }
                Err(news) => news,
            };
            if news == News::Trouble {
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

    /// What a program that polls does beside: it carries out the peer's RDMAs, which is sooner than
    /// its engine would, for which there may be no processor.
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
            // The peer may have published why it closed before it died.
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
