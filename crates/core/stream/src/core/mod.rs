//! One end of a stream: a session, its VI and its memory, under one lock.
//!
//! - `arrive`: finished descriptors become inputs of the session, and what it says is posted;
//! - `write`, `read`: what a program's calls do;
//! - `wait`: which threads wait for what, and which one handles arrivals meanwhile;
//! - `end`: closing, and how a connection is lost.
//!
//! The lock is never held while a thread sleeps. Callbacks of the NIC ([`Handling::Notify`]) leave
//! their completion in a mailbox, which the holder of the lock empties when it gives the lock back: a NIC
//! may call back inside one of our own calls to it.

mod arrive;
mod end;
mod read;
mod wait;
mod write;

pub(crate) use read::Borrowed;
pub(crate) use wait::Patience;

use crate::background::Tended;
use crate::buffer::Buffer;
use crate::error::{Reset, SetUpError};
use crate::handler::Handled;
use crate::memory::{Registered, Sizes, Slots};
use crate::shared::Shared;
use crate::tag::Tag;
use crate::target::Landing;
use crate::will::Will;
use core::ops::{Deref, DerefMut};
use sovia_proto::configuration::{Configuration, Handling, Handshake, Transfer};
use sovia_proto::session::{Session, Target};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Instant;
use via::cq::Attach;
use via::{Completion, Done, Nic, Reliability, Vi, ViAttributes};

/// One end.
pub(crate) struct Core<N: Nic + 'static> {
    /// Names it in the handler's completion queue.
    pub(crate) id: u64,
    pub(crate) configuration: Configuration,
    pub(crate) vi: N::Vi,
    pub(crate) slots: Slots<N>,
    /// Where RDMA writes go that no reading program's buffer is for; with [`Handshake::Rdma`].
    landing: Option<Landing<N>>,
    inner: Mutex<Inner<N>>,
    news: Mutex<News>,
    told: Condvar,
    me: Weak<Core<N>>,
    /// Behind what is registered and created with it: dropped after that.
    pub(crate) tag: Tag<N>,
    pub(crate) stack: Arc<Shared<N>>,
}

/// What threads leave for each other. Its lock is taken for a moment, within the other or alone.
#[derive(Debug, Default)]
struct News {
    /// Arrivals that callbacks have brought and that are not handled yet.
    mail: VecDeque<Completion>,
    /// Changed when something has been handled that threads may wait for.
    count: u64,
}

/// What the lock guards.
pub(crate) struct Inner<N: Nic + 'static> {
    pub(crate) session: Session,
    free_sends: Vec<u16>,
    free_buffers: Vec<u16>,
    /// What each send descriptor is posted for.
    sending: Vec<Sending<N>>,
    /// The buffer in which small messages are combined.
    combining: Option<u16>,
    will: Option<Will>,
    /// Arrived before the connecting call had returned.
    early: Vec<Completion>,
    /// Packets for the program.
    kept: VecDeque<Kept>,
    /// The buffer of a thread that reads and stays until it has its message.
    reader: Option<Reader>,
    /// Where the message is to be written for which leave has been given.
    awaited: Option<Place>,
    /// Lent buffers that have been sent.
    returned: VecDeque<Buffer<N>>,
    /// The peer has closed its sending half; there is nothing behind what is kept.
    ended: bool,
    /// Why the connection is over, if it was lost.
    reset: Option<Reset>,
    /// A send has failed: nothing more can be sent, though something may yet arrive.
    unsendable: bool,
    /// The VI has been disconnected by this end.
    disconnected: bool,
    /// A thread waits at the VI for arrivals; others wait for its news.
    driving: bool,
    waiters: u32,
    /// The chunk whose timer runs, and since when.
    batch: Option<(u32, Instant)>,
    timer_set: bool,
}

/// What a send descriptor is posted for.
enum Sending<N: Nic + 'static> {
    /// Nothing: it is free.
    Free,
    /// A packet without a buffer.
    Control,
    /// A buffer of ours.
    Copy(u16),
    /// The buffer of a program that waits for it; set once it is done, with its success.
    Program(Option<bool>),
    /// A lent buffer; registered again, where the stream has a tag of its own.
    Lent { again: Option<Registered<N>>, buffer: Buffer<N> },
}

/// A buffer that RDMA writes may go to, as long as it is.
#[derive(Debug, Clone, Copy)]
struct Reader {
    to: Target,
    room: u32,
}

/// Where RDMA writes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// To the reading thread's buffer.
    Reader,
    /// To [`Core::landing`].
    Landing,
}

/// A packet that has arrived, and how much of it the program has had.
enum Kept {
    /// In the buffer of that receive.
    Packet { receive: u16, len: u32, had: u32 },
    /// In the reading thread's buffer.
    Read { len: u32 },
    /// In the landing buffer.
    Landed { len: u32, had: u32 },
    /// Left by a peer that has died.
    Heritage { bytes: Vec<u8>, had: usize },
}

/// The lock, held.
pub(crate) struct Held<'c, N: Nic + 'static> {
    core: &'c Core<N>,
    /// `None` only while it is being given back.
    guard: Option<MutexGuard<'c, Inner<N>>>,
}

impl<N: Nic + 'static> Core<N> {
    /// An end whose receives are posted and that is about to connect.
    pub(crate) fn new(
        stack: &Arc<Shared<N>>,
        configuration: &Configuration,
    ) -> Result<Arc<Core<N>>, SetUpError> {
        configuration.check().map_err(SetUpError::Configuration)?;
        let mut configuration = *configuration;
        if configuration.transfer == Transfer::Auto {
            configuration.transfer = stack.soonest();
        }
        let configuration = &configuration;
        let nic = &stack.nic;
        let attributes = nic.attributes();
        let mut best =
            [Reliability::RELIABLE_DELIVERY, Reliability::RELIABLE_RECEPTION].into_iter();
        let reliability = best.find(|&level| attributes.reliability.contains(level));
        let reliability = reliability.ok_or(SetUpError::TooSmall("reliability levels"))?;
        let most = attributes.max_transfer_size.min(sovia_proto::configuration::CHUNK_MAX);
        if configuration.chunk > most {
            return Err(SetUpError::TooSmall("bytes in a message"));
        }
        let written = configuration.handshake == Handshake::Rdma;
        if written && !attributes.capabilities.rdma_write {
            return Err(SetUpError::TooSmall("RDMA writes"));
        }
        let tag = match written {
            true => Tag::own(stack)?,
            false => Tag::shared(stack),
        };
        let vi_attributes = ViAttributes {
            reliability,
            enable_rdma_write: written,
            // The same at both ends, whatever their chunks.
            max_transfer_size: most,
            ptag: Some(tag.ptag()),
            ..ViAttributes::default()
        };
        let sizes = Sizes::of(configuration);
        let id = stack.fresh();
        let cq = match configuration.handling {
            Handling::Handler => Some(stack.handler().queue(nic, sizes.receives)?),
            Handling::Notify | Handling::Single => None,
        };
        let attach = Attach { send: None, recv: cq.as_deref(), context: id };
        let made = nic.create_vi_with(vi_attributes, attach).map_err(SetUpError::from);
        let made = made.and_then(|vi| {
            let landing = match written {
                true => Some(Landing::new(&tag, configuration.chunk)?),
                false => None,
            };
            Ok((vi, Slots::new(nic, sizes, tag.ptag())?, landing))
        });
        if made.is_err() && cq.is_some() {
            stack.handler().leave(id, sizes.receives);
        }
        let (vi, slots, landing) = made?;
        for i in 0..sizes.receives {
            // The queue has room and the descriptor is good, as sizes were checked.
            let _ = vi.post_recv(slots.receive(i));
        }
        let mut session = Session::new(configuration);
        let _ = session.connecting();
        let inner = Inner {
            session,
            free_sends: (0..sizes.sends as u16).rev().collect(),
            free_buffers: (0..sizes.buffers as u16).rev().collect(),
            sending: (0..sizes.sends).map(|_| Sending::Free).collect(),
            combining: None,
            will: None,
            early: Vec::new(),
            kept: VecDeque::with_capacity(sizes.receives),
            reader: None,
            awaited: None,
            returned: VecDeque::new(),
            ended: false,
            reset: None,
            unsendable: false,
            disconnected: false,
            driving: false,
            waiters: 0,
            batch: None,
            timer_set: false,
        };
        let core = Arc::new_cyclic(|me| Core {
            id,
            configuration: *configuration,
            vi,
            slots,
            landing,
            inner: Mutex::new(inner),
            news: Mutex::default(),
            told: Condvar::new(),
            me: me.clone(),
            tag,
            stack: stack.clone(),
        });
        match configuration.handling {
            Handling::Single => {}
            Handling::Handler => stack.handler().join(id, core.weak())?,
            Handling::Notify => (0..sizes.receives).for_each(|_| core.arm()),
        }
        Ok(core)
    }

    /// The VIs are connected: says WAKEUP. What has arrived before is handled now.
    pub(crate) fn begin(&self) {
        let mut held = self.lock();
        let _ = held.session.connected();
        if self.configuration.combine.is_some() {
            let place = self.vi.bequest();
            held.will = place.and_then(|place| Will::new(place, self.configuration.chunk as usize));
        }
        self.post_due(&mut held);
        for completion in core::mem::take(&mut held.early) {
            self.received(&mut held, completion);
        }
        self.post_due(&mut held);
    }

    pub(crate) fn weak(&self) -> Weak<Core<N>> {
        self.me.clone()
    }

    pub(crate) fn lock(&self) -> Held<'_, N> {
        // A thread that panicked while it held the lock was within our code, which keeps what the
        // lock guards whole between any two of its steps.
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Held { core: self, guard: Some(guard) }
    }

    /// Has the next arrival handed to a callback.
    fn arm(&self) {
        let me = self.weak();
        self.vi.recv_notify(Box::new(move |completion| {
            let Some(core) = me.upgrade() else { return };
            core.news().mail.push_back(completion);
            core.empty_mailbox();
            // What is flushed is not followed by anything.
            if completion.result().is_ok() {
                core.arm();
            }
        }));
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for news.
    fn tell(&self, inner: &Inner<N>) {
        if inner.waiters > 0 {
            self.news().count += 1;
            self.told.notify_all();
        }
    }

    /// Handles what lies in the mailbox. If another thread holds the lock, that thread does it instead.
    fn empty_mailbox(&self) {
        loop {
            let mail = !self.news().mail.is_empty();
            if !mail {
                return;
            }
            let guard = match self.inner.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let mut held = Held { core: self, guard: Some(guard) };
            held.read_mail();
            // Not by dropping `held` as it is, which would come back here.
            held.guard = None;
        }
    }
}

impl<N: Nic + 'static> Held<'_, N> {
    fn read_mail(&mut self) {
        let core = self.core;
        loop {
            let Some(completion) = core.news().mail.pop_front() else { break };
            core.received(self, completion);
        }
        core.post_due(self);
    }
}

impl<N: Nic + 'static> Deref for Held<'_, N> {
    type Target = Inner<N>;

    fn deref(&self) -> &Inner<N> {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("it is given back only by dropping it"),
        }
    }
}

impl<N: Nic + 'static> DerefMut for Held<'_, N> {
    fn deref_mut(&mut self) -> &mut Inner<N> {
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("it is given back only by dropping it"),
        }
    }
}

impl<N: Nic + 'static> Drop for Held<'_, N> {
    fn drop(&mut self) {
        if self.guard.is_none() || self.core.configuration.handling != Handling::Notify {
            return;
        }
        self.read_mail();
        self.guard = None;
        // What came in since then may have met the lock held.
        self.core.empty_mailbox();
    }
}

impl<N: Nic + 'static> Handled for Core<N> {
    fn handle(&self) {
        let mut held = self.lock();
        if let Done::Completion(completion) = self.vi.recv_done() {
            self.received(&mut held, completion);
        }
        self.post_due(&mut held);
    }
}

impl<N: Nic + 'static> Tended for Core<N> {
    fn closed(&self) -> bool {
        self.closed()
    }

    fn timer(&self) -> Option<Instant> {
        self.timer()
    }
}

impl<N: Nic + 'static> Drop for Core<N> {
    fn drop(&mut self) {
        if self.configuration.handling == Handling::Handler {
            self.stack.handler().leave(self.id, self.slots.sizes.receives);
        }
    }
}

impl<N: Nic + 'static> core::fmt::Debug for Core<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = self.lock().session.state();
        f.debug_struct("Core").field("id", &self.id).field("state", &state).finish_non_exhaustive()
    }
}
