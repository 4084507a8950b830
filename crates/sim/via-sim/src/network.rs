//! A simulated network, and the passing of its time.

use crate::config::{Clock, Config, Registering};
use crate::port::{Event, Port};
use crate::{Change, Counters, Log, NodeId, Queueing, Time};
use core::time::Duration;
use sovia_softnic::{Deadline, Driver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;
use via::Memory;

/// State of a network with all its NICs.
type World = sovia_softnic::World<Port>;

/// A simulated network. A clone is the same network. It exists as long as any of its NICs.
#[derive(Debug, Clone)]
pub struct Network(Arc<Shared>);

/// State that all handles of a network share.
#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    news: Condvar,
    clock: Clock,
    registering: Registering,
    /// Calls the network's thread.
    driver: Option<mpsc::Sender<()>>,
}

impl Network {
    /// Makes a network without NICs. Its faults come from `seed`.
    pub fn new(seed: u64, config: Config) -> Network {
        let world =
            Mutex::new(World::new(Port::new(seed, config.link, config.fabric), config.engine()));
        let clock = config.clock;
        let (driver, calls) = match clock {
            Clock::Manual => (None, None),
            Clock::Live => {
                let (driver, calls) = mpsc::channel();
                (Some(driver), Some(calls))
            }
        };
        let shared = Arc::new(Shared {
            world,
            news: Condvar::new(),
            clock,
            registering: config.registering,
            driver,
        });
        if let Some(calls) = calls {
            let shared = Arc::downgrade(&shared);
            crate::driver::start(calls, move || shared.upgrade().is_some_and(|s| s.drive()));
        }
        Network(shared)
    }

    /// Returns the present time.
    pub fn now(&self) -> Time {
        self.0.with(|world| world.medium().time())
    }

    /// Executes the next event, and runs its callbacks. Returns false if there is no event.
    pub fn step(&self) -> bool {
        self.0.with(step)
    }

    /// Executes all events up to `time`, and advances the present to it.
    pub fn run_until(&self, time: Time) {
        self.0.run_until(time);
    }

    /// Executes all events during a time.
    pub fn run_for(&self, while_: Duration) {
        self.run_until(self.now().after(while_));
    }

    /// Executes all events until none is left. Returns the number of steps. The end of a timeout is an event, so no
    /// attempt to connect is still pending afterwards.
    pub fn run(&self) -> u64 {
        let mut steps = 0;
        while self.step() {
            steps += 1;
        }
        steps
    }

    /// Schedules a change of the network at the given time, or now if that time is past.
    pub fn change(&self, at: Time, change: Change) {
        self.0.with(|world| world.medium_mut().change(at, change));
    }

    /// Returns a fingerprint of all packets, timers and completed descriptors so far. Runs with equal fingerprints were
    /// equal.
    pub fn log(&self) -> Log {
        self.0.with(|world| world.medium().log())
    }

    /// Returns the counters of packets.
    pub fn counters(&self) -> Counters {
        self.0.with(|world| world.medium().counters())
    }

    /// Returns the counters of the switches' queues.
    pub fn queueing(&self) -> Queueing {
        self.0.with(|world| world.medium().queueing())
    }

    /// Returns the number of frames that nodes have dropped because they were corrupt or malformed.
    pub fn malformed(&self) -> u64 {
        self.0.with(|world| world.counters().malformed)
    }

    /// Returns the node with a name, and its address.
    pub(crate) fn node(&self, name: &str) -> (NodeId, Box<[u8]>) {
        self.0.with(|world| world.medium_mut().node(name))
    }

    /// Returns the cost of registering memory.
    pub(crate) fn registering(&self) -> Registering {
        self.0.registering
    }

    /// Returns the number of connections' ends that are alive or not yet known to be over.
    pub fn connection_ends(&self) -> usize {
        self.0.with(|world| world.connection_ends())
    }
}

/// Executes the next event. Returns false if there is none.
fn step(world: &mut World) -> bool {
    let Some(event) = world.medium_mut().step() else { return false };
    match event {
        Event::Frame { from, to, frame } => {
            world.frame(from, to, &frame);
            world.acknowledge();
        }
        Event::Timer(timer) => world.timer(timer),
        Event::Nothing => {}
    }
    true
}

impl Driver for Network {
    type Medium = Port;

    fn with<R>(&self, work: impl FnOnce(&mut World) -> R) -> R {
        self.0.with(work)
    }

    /// Looks without polling: only steps bring events, and the program or the clock makes the steps.
    fn look<R>(&self, look: impl FnMut(&mut World) -> Option<R>) -> Option<R> {
        self.0.with(look)
    }

    fn deadline(&self, timeout: Option<Duration>) -> Deadline {
        self.0.deadline(timeout)
    }

    fn wait<R>(&self, deadline: Deadline, look: impl FnMut(&mut World) -> Option<R>) -> Option<R> {
        self.0.wait(deadline, look)
    }

    fn registered(&self, memory: &Memory, beside: u64) {
        self.0.spend(self.0.registering.registering(memory, beside));
    }

    fn deregistered(&self, memory: &Memory, beside: u64) {
        self.0.spend(self.0.registering.deregistering(memory, beside));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        // If a test has failed while it held the lock, other code may still clean up.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the world, then wakes threads and runs callbacks without the lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.lock();
        let result = work(&mut world);
        self.leave(world);
        result
    }

    /// Wakes waiting threads, and runs callbacks in order.
    fn leave<'s>(&'s self, mut world: MutexGuard<'s, World>) {
        if world.take_news() {
            self.news.notify_all();
        }
        if let Some(driver) = &self.driver
            && world.medium_mut().call_driver()
        {
            let _ = driver.send(());
        }
        let mut next = world.begin_callbacks();
        while let Some(callback) = next {
            drop(world);
            match self.clock {
                Clock::Manual => callback.run_here(),
                Clock::Live => callback.run_in_thread(),
            }
            world = self.lock();
            next = world.next_callback();
        }
    }

    /// Executes all events up to `time`, and advances the present to it unless it is past.
    pub(crate) fn run_until(&self, time: Time) {
        let next = |world: &mut World| match world.medium().next_time() {
            Some(next) if next <= time => step(world),
            _ => {
                world.medium_mut().pass(time);
                false
            }
        };
        while self.with(next) {}
    }

    /// Makes the caller busy for a time. Events during that time are executed.
    pub(crate) fn spend(&self, time: Duration) {
        if !time.is_zero() {
            let now = self.lock().medium().time();
            self.run_until(now.after(time));
        }
    }

    /// Executes the next event, for the network's thread. Returns false if there is none. The thread must then be
    /// called again.
    fn drive(&self) -> bool {
        self.with(|world| {
            let stepped = step(world);
            world.medium_mut().driver_called(stepped);
            stepped
        })
    }

    /// Returns the deadline of a wait that begins now.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Deadline {
        let Some(timeout) = timeout else { return Deadline::Never };
        match self.clock {
            Clock::Manual => {
                Deadline::At(sovia_softnic::Medium::now(self.lock().medium()).after(timeout))
            }
            Clock::Live => {
                Instant::now().checked_add(timeout).map_or(Deadline::Never, Deadline::Real)
            }
        }
    }

    /// Waits until `look` returns a value, and executes possible events meanwhile. Returns `None` after the deadline.
    /// With a manual clock, also returns `None` if no event is left.
    pub(crate) fn wait<R>(
        &self,
        deadline: Deadline,
        mut look: impl FnMut(&mut World) -> Option<R>,
    ) -> Option<R> {
        let mut world = self.lock();
        loop {
            let seen = look(&mut world);
            if seen.is_some() || world.is_past(deadline) {
                self.leave(world);
                return seen;
            }
            match (world.medium().next_time(), deadline) {
                (Some(next), Deadline::At(time)) if next.nanos() > time.nanos() => {
                    world.medium_mut().pass(Time::from_nanos(time.nanos()));
                }
                (Some(_), _) => drop(step(&mut world)),
                (None, Deadline::At(time)) => {
                    world.medium_mut().pass(Time::from_nanos(time.nanos()));
                }
                (None, Deadline::Never) if self.clock == Clock::Manual => {
                    self.leave(world);
                    return None;
                }
                (None, _) => {
                    world = self.sleep(world, deadline);
                    continue;
                }
            }
            self.leave(world);
            world = self.lock();
        }
    }

    /// Sleeps until an event has occurred, or until the deadline.
    fn sleep<'w>(
        &self,
        mut world: MutexGuard<'w, World>,
        deadline: Deadline,
    ) -> MutexGuard<'w, World> {
        if world.take_news() {
            self.news.notify_all();
        }
        match deadline {
            Deadline::Real(until) => {
                let left = until.saturating_duration_since(Instant::now());
                let woken = self.news.wait_timeout(world, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            _ => self.news.wait(world).unwrap_or_else(PoisonError::into_inner),
        }
    }
}
