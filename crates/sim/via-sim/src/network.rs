//! A simulated network, and what makes its time pass.

use crate::config::{Clock, Config, Registering};
use crate::port::{Event, Port};
use crate::{Change, Counters, Log, NodeId, Queueing, Time};
use core::time::Duration;
use sovia_softnic::{Deadline, Driver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;
use via::Memory;

/// The state of everything on a network.
type World = sovia_softnic::World<Port>;

/// A simulated network. Clones are the same network; it lasts as long as any of its NICs.
#[derive(Debug, Clone)]
pub struct Network(Arc<Shared>);

/// What every handle of a network holds.
#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    news: Condvar,
    clock: Clock,
    registering: Registering,
    /// Calls the network's own thread.
    driver: Option<mpsc::Sender<()>>,
}

impl Network {
    /// A network without NICs that draws its faults from `seed`.
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

    /// The present.
    pub fn now(&self) -> Time {
        self.0.with(|world| world.medium().time())
    }

    /// Lets the next thing happen, and runs the callbacks that come of it; false if there is
    /// nothing to happen.
    pub fn step(&self) -> bool {
        self.0.with(step)
    }

    /// Lets everything happen up to that time, which is the present then.
    pub fn run_until(&self, time: Time) {
        self.0.run_until(time);
    }

    /// Lets everything happen for a while.
    pub fn run_for(&self, while_: Duration) {
        self.run_until(self.now().after(while_));
    }

    /// Lets everything happen until nothing is left to; says how many steps that took. The end of
    /// a timeout is something that happens: an attempt to connect does not outlive this.
    pub fn run(&self) -> u64 {
        let mut steps = 0;
        while self.step() {
            steps += 1;
        }
        steps
    }

    /// Has the network change at that time, or at once if that is past.
    pub fn change(&self, at: Time, change: Change) {
        self.0.with(|world| world.medium_mut().change(at, change));
    }

    /// A fingerprint of every packet, timer and finished descriptor so far: two runs with the
    /// same were the same.
    pub fn log(&self) -> Log {
        self.0.with(|world| world.medium().log())
    }

    /// What has become of packets.
    pub fn counters(&self) -> Counters {
        self.0.with(|world| world.medium().counters())
    }

    /// What the queues of switches have done.
    pub fn queueing(&self) -> Queueing {
        self.0.with(|world| world.medium().queueing())
    }

    /// Frames that nodes have dropped because they were corrupt, or not what they should have been.
    pub fn malformed(&self) -> u64 {
        self.0.with(|world| world.counters().malformed)
    }

    /// The node that has a name, and its address.
    pub(crate) fn node(&self, name: &str) -> (NodeId, Box<[u8]>) {
        self.0.with(|world| world.medium_mut().node(name))
    }

    /// What registering memory costs.
    pub(crate) fn registering(&self) -> Registering {
        self.0.registering
    }

    /// Connections that are alive or not yet known to be over, both ends counted.
    pub fn connection_ends(&self) -> usize {
        self.0.with(|world| world.connection_ends())
    }
}

/// Lets the next thing happen; false if there is none.
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

    /// The network has only what a step brings, and steps are the program's or the clock's.
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
        // A test that fails while it holds the lock has its say; others may clean up.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the world, and then what has to follow without the lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.lock();
        let result = work(&mut world);
        self.leave(world);
        result
    }

    /// Wakes waiting threads, and runs callbacks in their order.
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

    /// Lets everything happen up to that time, which is the present then, if it was not past.
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

    /// The caller is busy for so long, and what happens meanwhile happens.
    pub(crate) fn spend(&self, time: Duration) {
        if !time.is_zero() {
            let now = self.lock().medium().time();
            self.run_until(now.after(time));
        }
    }

    /// For the network's own thread: lets the next thing happen; false if there is none, and it
    /// is to be called again.
    fn drive(&self) -> bool {
        self.with(|world| {
            let stepped = step(world);
            world.medium_mut().driver_called(stepped);
            stepped
        })
    }

    /// When a wait that begins now is over.
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

    /// Waits until there is something to see, and meanwhile lets happen what can happen. `None`
    /// if it is too late; with a manual clock also if nothing can happen any more.
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

    /// Sleeps until something has happened, or for as long as the deadline allows.
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
