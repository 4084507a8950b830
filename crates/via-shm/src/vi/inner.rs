//! What a VI is made of: two queues, a state, and what breaks them.

use crate::bias::{Held, Lock};
use crate::connect::link::{Attachment, Close, End, Link};
use crate::connect::watch::{Progress, Waiting};
use crate::nic::Shared;
use crate::vi::access;
use crate::vi::recv::{News, RecvSide};
use crate::vi::send::SendSide;
use crate::vi::wait::Budget;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use via::error::{Cause, PostError};
use via::memory::Ptag;
use via::queue::Done;
use via::state::Event;
use via::{DescriptorAddress, ViAttributes, ViState};

/// What a VI is made of.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) nic: Arc<Shared>,
    /// The VI's number among the NIC's, for as long as it lives.
    pub(crate) id: u64,
    pub(super) attributes: ViAttributes,
    pub(super) ptag: Ptag,
    pub(super) machine: Mutex<Machine>,
    /// Why the connection is broken, while `broken` is set.
    cause: Mutex<Option<Cause>>,
    /// Set under a queue's lock while that queue has its lane, cleared when both have lost it: so
    /// it always speaks of the present connection.
    pub(super) broken: AtomicBool,
    /// The watch looks after waiting sends.
    pub(super) looked_after: AtomicBool,
    /// Changed when a connection begins or ends, for those who wait outside of one.
    pub(super) changes: AtomicU32,
    pub(super) send: Lock<SendSide>,
    pub(super) recv: Lock<RecvSide>,
    pub(super) send_budget: Budget,
    pub(super) recv_budget: Budget,
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) state: ViState,
    /// Counts requests, so that one that was cut short is not mistaken for a later one.
    pub(super) attempt: u64,
    pub(super) attachment: Option<Arc<Attachment>>,
}

impl Core {
    pub(crate) fn new(nic: Arc<Shared>, id: u64, attributes: ViAttributes, ptag: Ptag) -> Core {
        let capacity = nic.attributes.max_descriptors_per_queue;
        Core {
            id,
            attributes: ViAttributes { ptag: Some(ptag), ..attributes },
            ptag,
            machine: Mutex::new(Machine { state: ViState::Idle, attempt: 0, attachment: None }),
            cause: Mutex::new(None),
            broken: AtomicBool::new(false),
            looked_after: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            send: Lock::new(SendSide::new(capacity, &attributes, ptag)),
            recv: Lock::new(RecvSide::new(capacity, ptag)),
            send_budget: Budget::default(),
            recv_budget: Budget::default(),
            nic,
        }
    }

    /// Waits until nobody uses a region that he found before.
    pub(crate) fn quiesce(&self) {
        drop(self.send.lock());
        drop(self.recv.lock());
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cause(&self) -> MutexGuard<'_, Option<Cause>> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Breaks the connection of `attachment`. The caller holds the lock of a queue that has a
    /// lane of it, and calls [`Core::settle`] without the lock.
    #[cold]
    fn break_up(&self, attachment: &Attachment, cause: Cause) {
        self.cause().get_or_insert(cause);
        self.broken.store(true, Ordering::SeqCst);
        let tell = match cause {
            Cause::ReceiveQueueEmpty => Close::NoReceive,
            Cause::Damaged(_) => {
                attachment.link.set_spoilt();
                Close::Broken
            }
            _ => Close::Broken,
        };
        attachment.close(tell);
        attachment.wake_local();
    }

    /// After [`Core::break_up`]: receives what has come, flushes the rest.
    #[cold]
    fn settle(&self) {
        if self.is_broken() {
            let mut send = self.send.lock();
            send.flush(&self.nic);
            drop(send);
            self.recv.lock().wind_up(&self.nic);
        }
    }

    /// Looks for news from the far side, so that what is said of the state is true.
    pub(crate) fn catch_up(&self) {
        let recv = self.recv.lock();
        let closed = recv.lane().and_then(|lane| Some((lane, lane.peer_closed()?)));
        if let Some((lane, cause)) = closed
            && !self.is_broken()
        {
            self.break_up(&lane.attachment().clone(), cause);
            drop(recv);
            self.settle();
        }
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
        if send.queue.work.outstanding() != 0 {
            drop(guard);
            self.have_looked_after();
        }
        Ok(())
    }

    /// For somebody who waits for something else: sends what waits for room, if anything does.
    pub(super) fn help_sends(&self) {
        if self.looked_after.load(Ordering::Relaxed) {
            let _ = self.progress();
        }
    }

    /// A send waits for room: if its program never calls again, the watch sends it.
    #[cold]
    fn have_looked_after(self: &Arc<Self>) {
        if !self.looked_after.swap(true, Ordering::SeqCst) {
            let queue: Weak<dyn Waiting> = Arc::downgrade(self) as _;
            self.nic.hub.watch.look_after(queue);
        }
    }

    #[inline]
    pub(crate) fn post_recv(&self, at: DescriptorAddress) -> Result<(), PostError> {
        let mut guard = self.recv.lock();
        let recv = &mut *guard;
        access::descriptor(&mut recv.queue.descriptors, &self.nic, self.ptag, at)
            .ok_or(PostError::Descriptor)?
            .clear_status();
        recv.queue.work.post(at).map_err(|_| PostError::QueueFull)?;
        if self.is_broken() {
            recv.wind_up(&self.nic);
        } else {
            recv.publish();
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

    /// Breaks the connection for what the send queue has found out.
    #[cold]
    fn give_up_sending(&self, mut send: Held<'_, SendSide>) {
        let cause = send.trouble.take().unwrap_or(Cause::PeerBroke);
        if let Some(lane) = &send.lane {
            self.break_up(&lane.attachment().clone(), cause);
        }
        drop(send);
        self.settle();
    }

    /// Breaks the connection for what the receive queue has found out.
    #[cold]
    fn give_up_receiving(&self, mut recv: Held<'_, RecvSide>) {
        let cause = recv.trouble.take().unwrap_or(Cause::PeerBroke);
        if let Some(lane) = recv.lane() {
            self.break_up(&lane.attachment().clone(), cause);
        }
        drop(recv);
        self.settle();
    }

    #[inline]
    pub(crate) fn recv_done(&self) -> Done {
        let mut guard = self.recv.lock();
        let recv = &mut *guard;
        match recv.queue.work.take() {
            Done::NotDone => {}
            done => return done,
        }
        if !self.is_broken() {
            match recv.take_next(&self.nic) {
                Ok(completion) => return Done::Completion(completion),
                Err(News::Nothing | News::Message) => return Done::NotDone,
                Err(News::Trouble) => {
                    self.give_up_receiving(guard);
                    return self.recv.lock().queue.work.take();
                }
            }
        }
        recv.wind_up(&self.nic);
        recv.queue.work.take()
    }
}

impl End for Core {
    fn peer_died(&self, link: &Link) {
        let recv = self.recv.lock();
        let Some(lane) = recv.lane() else { return };
        if core::ptr::eq(&*lane.attachment().link, link) && !self.is_broken() {
            // It may have said why it leaves before it left.
            let cause = lane.peer_closed().unwrap_or(Cause::PeerDied);
            self.break_up(&lane.attachment().clone(), cause);
            drop(recv);
            self.settle();
        }
    }
}

impl Waiting for Core {
    fn progress(&self) -> Progress {
        let mut guard = self.send.lock();
        if self.is_broken() {
            guard.flush(&self.nic);
        }
        let before = guard.queue.work.outstanding();
        if !guard.progress(&self.nic) {
            self.give_up_sending(guard);
            self.looked_after.store(false, Ordering::SeqCst);
            return Progress::Finished;
        }
        let after = guard.queue.work.outstanding();
        if after == 0 || guard.lane.is_none() {
            // Under the lock: a send that is posted next is noted again.
            self.looked_after.store(false, Ordering::SeqCst);
            return Progress::Finished;
        }
        if after < before { Progress::Moved } else { Progress::Stuck }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.disconnect();
        self.nic.vi_gone(self.id, self.ptag);
    }
}
