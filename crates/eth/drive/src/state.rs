//! The state under a NIC's lock, and its progress.

use crate::driven::Driven;
use core::time::Duration;
use sovia_link::Time;
use sovia_port::watch::Terms;
use sovia_softnic::World;

/// Number of received frames that forces an acknowledgement, while more frames arrive.
const UNACKNOWLEDGED: usize = 64;
/// Number of successive looks without frames that triggers an acknowledgement. Before this, more frames may follow, and
/// the program may answer.
const EMPTY: u32 = 4;

/// Longest delay of an acknowledgement while a thread of the program also sleeps on its own descriptors. Such a thread
/// usually passes data on, and an answer comes back that carries the acknowledgement.
const LATER: Duration = Duration::from_micros(200);

/// Number of looks that make a program count as spinning, since the last look of the NIC's own thread. After fewer
/// looks, or with a registered callback, the program may rely on the NIC's own thread. A thread that watches outside
/// counts as this number of looks, because it returns soon after it has passed on data.
pub(crate) const SPINNING: u64 = 16;

/// The state of the NIC's own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// The thread runs.
    Awake,
    /// The thread looks again soon.
    Naps,
    /// The thread sleeps on the medium's descriptors, until this time.
    Watches(Option<Time>),
    /// The thread sleeps until a wake-up, because a thread of the program watches.
    Sleeps,
}

#[derive(Debug)]
pub(crate) struct State<M: Driven> {
    pub(crate) world: World<M>,
    /// Set while a thread of the program sleeps on the medium's descriptors, with the time limit of the sleep.
    pub(crate) watcher: Option<Option<Time>>,
    /// Set if the watcher waits only for requests. It leaves the watch to any other waiting thread.
    pub(crate) watches_aside: bool,
    /// Number of threads of the program that sleep until the watcher has events for them.
    pub(crate) sleepers: u32,
    /// Number of threads that sleep until a request arrives.
    pub(crate) asides: u32,
    pub(crate) own: Own,
    /// Number of times that threads of the program have driven the NIC.
    pub(crate) driven: u64,
    /// Set once the program has no references to the NIC.
    pub(crate) is_closing: bool,
    unacknowledged: usize,
    /// Number of successive looks without frames.
    empty: u32,
    /// Set from the first watch outside on: acknowledgements wait for answers.
    pub(crate) acknowledges_later: bool,
    /// Time at which a delayed acknowledgement is due.
    owed_at: Option<Time>,
}

impl<M: Driven> State<M> {
    pub(crate) fn new(medium: M, config: sovia_softnic::Config) -> State<M> {
        State {
            world: World::new(medium, config),
            watcher: None,
            watches_aside: false,
            sleepers: 0,
            asides: 0,
            own: Own::Awake,
            driven: 0,
            is_closing: false,
            unacknowledged: 0,
            empty: 0,
            acknowledges_later: false,
            owed_at: None,
        }
    }

    /// Handles the medium's frames once, and all due work. Returns the number of frames. The caller must first update
    /// the clock ([`Driven::pass`], [`Driven::look_at_clock`]).
    pub(crate) fn drive(&mut self) -> usize {
        let came = M::take(&mut self.world);
        self.unacknowledged += came;
        self.empty = if came == 0 { self.empty.saturating_add(1) } else { 0 };
        // An acknowledgement waits while more frames arrive, and while the program may be about to answer.
        let is_due = match self.acknowledges_later {
            true => self.owed_at().is_some_and(|at| at <= self.world.medium().now()),
            false => self.empty >= EMPTY,
        };
        if is_due || self.unacknowledged >= UNACKNOWLEDGED {
            self.acknowledge();
        }
        self.settle();
        came
    }

    /// Returns the time at which a delayed acknowledgement is due; `None` if none is owed.
    pub(crate) fn owed_at(&mut self) -> Option<Time> {
        if !self.world.owes() {
            self.owed_at = None;
            return None;
        }
        let now = self.world.medium().now();
        Some(*self.owed_at.get_or_insert(now.after(LATER)))
    }

    /// Acknowledges all received frames.
    pub(crate) fn acknowledge(&mut self) {
        self.unacknowledged = 0;
        self.owed_at = None;
        self.world.acknowledge();
    }

    /// Executes all due work without looking for more frames, and sends the results.
    pub(crate) fn settle(&mut self) {
        let world = &mut self.world;
        loop {
            world.catch_up();
            if !M::step(world) {
                break;
            }
        }
        world.medium_mut().flush();
        if world.medium().is_gone() {
            world.network_gone();
        }
    }

    /// Like [`Driven::terms`].
    pub(crate) fn terms(&mut self, until: Option<Time>) -> Terms {
        self.world.medium_mut().terms(until)
    }

    /// Notes that a thread has slept on the medium's descriptors.
    pub(crate) fn woken(&mut self, news: bool) {
        self.world.medium().look_at_clock();
        self.world.medium_mut().woken(news);
    }
}
