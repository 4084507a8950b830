//! What is under a NIC's lock, and how it goes on.

use crate::driven::Driven;
use core::time::Duration;
use sovia_link::Time;
use sovia_port::watch::Terms;
use sovia_softnic::World;

/// Frames that are taken before their senders are told, while more come.
const UNACKNOWLEDGED: usize = 64;
/// Looks in a row that find nothing before senders are told of less: more may be just behind, and so may be the program's answer.
const EMPTY: u32 = 4;

/// How long what has come may go unacknowledged while the program's thread sleeps on descriptors of its own as well: it passes on what has
/// come, as a rule, and an answer comes back that acknowledges it.
const LATER: Duration = Duration::from_micros(200);

/// A program that has looked so often since the NIC's own thread did is spinning. One that has looked a few times, or has a callback
/// registered, may be done, and wait for what that thread is to bring. A thread that watches outside counts as much: it comes back as soon as it has passed on what came.
pub(crate) const SPINNING: u64 = 16;

/// What the NIC's own thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It runs.
    Awake,
    /// It looks in again soon.
    Naps,
    /// It sleeps on the medium's descriptors, until then.
    Watches(Option<Time>),
    /// It sleeps until it is called, because a thread of the program's watches.
    Sleeps,
}

#[derive(Debug)]
pub(crate) struct State<M: Driven> {
    pub(crate) world: World<M>,
    /// A thread of the program's sleeps on the medium's descriptors, until then.
    pub(crate) watcher: Option<Option<Time>>,
    /// The watcher waits for requests alone, and leaves the watch to any other thread that waits.
    pub(crate) watches_aside: bool,
    /// Threads of the program's that sleep until the watcher has news for them.
    pub(crate) sleepers: u32,
    /// Those that sleep until there is a request.
    pub(crate) asides: u32,
    pub(crate) own: Own,
    /// How often threads of the program's have driven.
    pub(crate) driven: u64,
    /// The program has nothing of the NIC any more.
    pub(crate) is_closing: bool,
    unacknowledged: usize,
    /// Looks in a row that have found no frame.
    empty: u32,
    /// A thread watches outside from time to time, from its first such watch on: acknowledgements wait for answers.
    pub(crate) acknowledges_later: bool,
    /// When what has come is to be acknowledged then.
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

    /// Takes what the medium has, once, and does all that is due; how much came. The caller has said whether time has passed
    /// ([`Driven::pass`], [`Driven::look_at_clock`]).
    pub(crate) fn drive(&mut self) -> usize {
        let came = M::take(&mut self.world);
        self.unacknowledged += came;
        self.empty = if came == 0 { self.empty.saturating_add(1) } else { 0 };
        // While more frames come, and while the program may be about to answer, an acknowledgement waits.
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

    /// When what has come is to be acknowledged at last, where that waits for answers; `None` if all is acknowledged.
    pub(crate) fn owed_at(&mut self) -> Option<Time> {
        if !self.world.owes() {
            self.owed_at = None;
            return None;
        }
        let now = self.world.medium().now();
        Some(*self.owed_at.get_or_insert(now.after(LATER)))
    }

    /// Acknowledges what has come.
    pub(crate) fn acknowledge(&mut self) {
        self.unacknowledged = 0;
        self.owed_at = None;
        self.world.acknowledge();
    }

    /// Does all that is due without looking for more, and sends what has come of it.
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

    /// As [`Driven::terms`].
    pub(crate) fn terms(&mut self, until: Option<Time>) -> Terms {
        self.world.medium_mut().terms(until)
    }

    /// A thread has slept on the medium's descriptors.
    pub(crate) fn woken(&mut self, news: bool) {
        self.world.medium().look_at_clock();
        self.world.medium_mut().woken(news);
    }
}
