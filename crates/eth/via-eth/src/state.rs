//! What is under a NIC's lock, and how it goes on.

use crate::ether::Ether;
use core::time::Duration;
use sovia_link::Time;
use sovia_port::Descriptors;
use sovia_port::watch::Terms;
use sovia_softnic::{Medium, World};

/// Frames that are taken before their senders are told, while more come.
const UNACKNOWLEDGED: usize = 64;
/// Looks in a row that find nothing before senders are told of less: more may be just behind, and so may be the program's answer.
const EMPTY: u32 = 4;
/// Between two looks whether a port that has failed works again.
const FAILED: Duration = Duration::from_millis(100);

/// What the NIC's own thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It runs, or looks in again soon.
    Awake,
    /// It sleeps on the port's descriptors, until then.
    Watches(Option<Time>),
    /// It sleeps until it is called, because a thread of the program's watches.
    Sleeps,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) world: World<Ether>,
    /// A thread of the program's sleeps on the port's descriptors, until then.
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
}

impl State {
    pub(crate) fn new(ether: Ether, config: sovia_softnic::Config) -> State {
        State {
            world: World::new(ether, config),
            watcher: None,
            watches_aside: false,
            sleepers: 0,
            asides: 0,
            own: Own::Awake,
            driven: 0,
            is_closing: false,
            unacknowledged: 0,
            empty: 0,
        }
    }

    /// Takes what the port has, once, and does all that is due; how many frames came. The caller has said whether time has passed
    /// ([`Ether::pass`], [`Ether::look_at_clock`]).
    pub(crate) fn drive(&mut self) -> usize {
        let world = &mut self.world;
        let mut came = 0;
        if !world.medium().has_failed()
            && let Some(mut port) = world.medium_mut().take_port()
        {
            let at = world.medium().address();
            let received = port.receive_joined(&mut |from, bytes, segment| {
                world.frames(*from, at, bytes, segment);
            });
            world.medium_mut().put_port(port);
            came = world.medium_mut().came(received).unwrap_or(0);
        }
        self.unacknowledged += came;
        self.empty = if came == 0 { self.empty.saturating_add(1) } else { 0 };
        // While more frames come, and while the program may be about to answer, an acknowledgement waits.
        if self.empty >= EMPTY || self.unacknowledged >= UNACKNOWLEDGED {
            self.acknowledge();
        }
        self.settle();
        came
    }

    /// Acknowledges what has come.
    pub(crate) fn acknowledge(&mut self) {
        self.unacknowledged = 0;
        self.world.acknowledge();
    }

    /// Does all that is due without the port, and sends what has come of it.
    pub(crate) fn settle(&mut self) {
        let world = &mut self.world;
        let at = world.medium().address();
        loop {
            world.catch_up();
            if let Some(frame) = world.medium_mut().local_frame() {
                world.frame(at, at, &frame);
                world.medium_mut().give_back(frame);
                world.acknowledge();
            } else if let Some(timer) = world.medium_mut().due_timer() {
                world.timer(timer);
            } else {
                break;
            }
        }
        world.medium_mut().flush();
        if world.medium().is_gone() {
            world.network_gone();
        }
    }

    /// What a thread waits for that sleeps on the port's descriptors until `until`, or the next timer.
    pub(crate) fn terms(&mut self, until: Option<Time>) -> Terms {
        let ether = self.world.medium_mut();
        let at_once = !ether.about_to_sleep();
        let is_gone = ether.is_gone();
        let again = (ether.has_failed() && !is_gone).then(|| ether.now().after(FAILED));
        let until = [until, ether.next_timer(), again, at_once.then(|| ether.now())];
        let descriptors = ether.descriptors();
        Terms {
            // What tells of a port that is gone does so for ever.
            descriptors: Descriptors { news: descriptors.news.filter(|_| !is_gone), ..descriptors },
            frames: !ether.has_failed(),
            room: ether.is_full() && !ether.has_failed(),
            until: until.into_iter().flatten().min().map(Time::nanos),
        }
    }

    /// A thread has slept on the port's descriptors.
    pub(crate) fn woken(&mut self, news: bool) {
        self.world.medium().look_at_clock();
        self.world.medium_mut().slept();
        if news || self.world.medium().has_failed() {
            self.world.medium_mut().ask();
        }
    }
}
