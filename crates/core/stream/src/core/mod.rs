//! One end of a stream: a session, its VI and its memory, under one lock.
//!
//! - `arrive`: passes completed descriptors to the session, and posts the session's packets;
//! - `write`, `read`: execute the program's calls;
//! - `wait`: decides which threads wait, and which of them processes arrivals meanwhile;
//! - `end`: closing, and loss of the connection.
//!
//! No thread sleeps while it holds the lock. A NIC may call back inside a call that this code makes to the NIC. So
//! callbacks of the NIC ([`Handling::Notify`]) put their completion in a mailbox, and the lock's holder empties the
//! mailbox when it releases the lock.

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

/// One end of a stream.
pub(crate) struct Core<N: Nic + 'static> {
    /// Identifies the stream in the handler's completion queue.
    pub(crate) id: u64,
    pub(crate) configuration: Configuration,
    pub(crate) vi: N::Vi,
    pub(crate) slots: Slots<N>,
    /// Buffer for the peer's RDMA writes when no reading thread's buffer is available; only with [`Handshake::Rdma`].
    landing: Option<Landing<N>>,
    inner: Mutex<Inner<N>>,
    news: Mutex<News>,
    told: Condvar,
    me: Weak<Core<N>>,
    /// The protection tag. Declared after the VI and the memory that use it, so that it is dropped after them.
    pub(crate) tag: Tag<N>,
    pub(crate) stack: Arc<Shared<N>>,
}

/// Notifications between threads. A thread takes this lock for short times, alone or within the other lock.
#[derive(Debug, Default)]
struct News {
    /// Arrivals from callbacks that are not processed yet.
    mail: VecDeque<Completion>,
    /// Count of events for waiting threads.
    count: u64,
}

/// State under the lock.
pub(crate) struct Inner<N: Nic + 'static> {
    pub(crate) session: Session,
    free_sends: Vec<u16>,
    free_buffers: Vec<u16>,
    /// Current use of each send descriptor.
    sending: Vec<Sending<N>>,
    /// Buffer that combines small messages.
    combining: Option<u16>,
    will: Option<Will>,
    /// Receives that completed before the connecting call returned.
    early: Vec<Completion>,
    /// Packets for the program.
    kept: VecDeque<Kept>,
    /// Buffer of a reading thread that stays until a message arrives.
    reader: Option<Reader>,
    /// Buffer for which the peer has permission to write.
    awaited: Option<Place>,
    /// Lent buffers that have been sent.
    returned: VecDeque<Buffer<N>>,
    /// Set once the peer has closed its sending half. No data follows the packets in `kept`.
    ended: bool,
    /// Reason for which the connection was lost.
    reset: Option<Reset>,
    /// Set after a send has failed. Nothing more can be sent, but messages may still arrive.
    unsendable: bool,
    /// Set after this end has disconnected the VI.
    disconnected: bool,
    /// `driving` is set while a thread waits at the VI for arrivals. `waiters` is the number of threads that wait for
    /// `News`.
    driving: bool,
    waiters: u32,
    /// The chunk whose timer runs, and when it began.
    batch: Option<(u32, Instant)>,
    timer_set: bool,
}

/// Use of a send descriptor.
enum Sending<N: Nic + 'static> {
    /// The descriptor is free.
    Free,
    /// A packet without a buffer.
    Control,
    /// A copy in the buffer with this index.
    Copy(u16),
    /// A buffer of a waiting program. The value is set on completion: true for success.
    Program(Option<bool>),
    /// A lent buffer. `again` is its second registration, if the stream has its own protection tag.
    Lent { again: Option<Registered<N>>, buffer: Buffer<N> },
}

/// A reading thread's buffer that the peer may write to, and its length.
#[derive(Debug, Clone, Copy)]
struct Reader {
    to: Target,
    room: u32,
}

/// Destination of the peer's RDMA writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The reading thread's buffer.
    Reader,
    /// The buffer [`Core::landing`].
    Landing,
}

/// An arrived packet; `had` is the number of bytes that the program has read.
enum Kept {
    /// In the buffer of the receive with this index.
    Packet { receive: u16, len: u32, had: u32 },
    /// In the reading thread's buffer.
    Read { len: u32 },
    /// In the landing buffer.
    Landed { len: u32, had: u32 },
    /// Bytes that a dead peer has left.
    Heritage { bytes: Vec<u8>, had: usize },
}

/// The lock's guard.
pub(crate) struct Held<'c, N: Nic + 'static> {
    core: &'c Core<N>,
    /// `None` only while the lock is being released.
    guard: Option<MutexGuard<'c, Inner<N>>>,
}

impl<N: Nic + 'static> Core<N> {
    /// Creates an end with posted receives, ready to connect.
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
            // Both ends must have the same value, although their chunks may differ.
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
            // The call cannot fail: the queue has room and the descriptor is valid, because the sizes were checked.
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

    /// Starts the stream after the VIs have connected: sends WAKEUP, and processes earlier arrivals.
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
        // Ignore poisoning: this code keeps the state consistent between any two steps, so a panic leaves it
        // consistent.
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Held { core: self, guard: Some(guard) }
    }

    /// Registers a callback for the next arrival.
    fn arm(&self) {
        let me = self.weak();
        self.vi.recv_notify(Box::new(move |completion| {
            let Some(core) = me.upgrade() else { return };
            core.news().mail.push_back(completion);
            core.empty_mailbox();
            // After a flushed receive no more arrivals follow.
            if completion.result().is_ok() {
                core.arm();
            }
        }));
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for events.
    fn tell(&self, inner: &Inner<N>) {
        if inner.waiters > 0 {
            self.news().count += 1;
            self.told.notify_all();
        }
    }

    /// Processes the mailbox. If another thread holds the lock, that thread will process the mailbox.
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
            // Release the lock here, because dropping `held` with its guard would call this function again.
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
        // A callback that ran since then may have found the lock taken.
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
