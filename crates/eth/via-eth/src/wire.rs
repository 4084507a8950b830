//! A NIC's way to the network: calls that look, and calls that wait.

use crate::ether::Ether;
use crate::shared::Shared;
use crate::state::State;
use crate::thread;
use core::time::Duration;
use sovia_link::Time;
use sovia_softnic::{Deadline, Driver, Medium, World};
use std::sync::{Arc, MutexGuard, Weak};

/// A NIC's way to the network: all that the program has of the NIC has one. With the last one the NIC closes; what is
/// to be said to peers still is said by its own thread.
#[derive(Debug, Clone)]
pub struct Wire(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

/// A wire for as long as the program has it.
#[derive(Debug)]
pub(crate) struct WeakWire(Weak<Handle>);

impl WeakWire {
    /// The wire, unless its network is gone.
    pub(crate) fn find(&self) -> Option<Wire> {
        let wire = self.0.upgrade().map(Wire)?;
        wire.is_there().then_some(wire)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().is_closing = true;
        self.0.own.give();
        self.0.bell.ring();
    }
}

/// What has become of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the NIC has dropped, and why.
    pub dropped: sovia_softnic::Counters,
    /// What its port counts.
    pub port: sovia_port::Counters,
    /// How the port works, for people.
    pub mode: String,
}

impl Wire {
    /// The wire of a new NIC, with the thread that drives it; `None` if it can have none.
    pub(crate) fn start(
        ether: Ether,
        config: sovia_softnic::Config,
        spin: Duration,
    ) -> Option<Wire> {
        let shared = Arc::new(Shared::new(State::new(ether, config), spin).ok()?);
        thread::start(shared.clone()).then(|| Wire(Arc::new(Handle(shared))))
    }

    /// What has become of frames so far.
    pub fn counters(&self) -> Counters {
        let mut state = self.shared().lock();
        let dropped = state.world.counters();
        let (port, mode) = state.world.medium_mut().port_counters();
        Counters { dropped, port, mode }
    }

    pub(crate) fn downgrade(&self) -> WeakWire {
        WeakWire(Arc::downgrade(&self.0))
    }

    /// Whether its network is there still, as far as is known.
    fn is_there(&self) -> bool {
        let mut state = self.shared().lock();
        state.woken(true);
        state.settle();
        let is_there = !state.world.medium().is_gone();
        self.shared().leave(state);
        is_there
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// Waits until there is something to see, and sleeps in that way.
    fn wait_by<R>(
        &self,
        deadline: Deadline,
        mut look: impl FnMut(&mut World<Ether>) -> Option<R>,
        sleep: for<'s> fn(&'s Shared, MutexGuard<'s, State>, Deadline),
    ) -> Option<R> {
        let shared = self.shared();
        let mut spins_until = None;
        loop {
            let mut state = shared.lock();
            state.world.medium().pass();
            let mut seen = look(&mut state.world);
            let mut came = 0;
            if seen.is_none() {
                state.driven += 1;
                came = state.drive();
                seen = look(&mut state.world);
            }
            state.settle();
            if seen.is_some() || state.world.is_past(deadline) {
                shared.leave(state);
                return seen;
            }
            let now = state.world.medium().now();
            let spins_until = *spins_until.get_or_insert_with(|| now.after(shared.spin));
            if came > 0 || now < spins_until || state.world.has_callbacks() {
                shared.leave(state);
                core::hint::spin_loop();
                continue;
            }
            state.acknowledge();
            state.settle();
            sleep(shared, state, deadline);
        }
    }
}

impl Driver for Wire {
    type Medium = Ether;

    fn with<R>(&self, work: impl FnOnce(&mut World<Ether>) -> R) -> R {
        let mut state = self.shared().lock();
        state.world.medium().pass();
        let result = work(&mut state.world);
        state.settle();
        self.shared().leave(state);
        result
    }

    fn look<R>(&self, mut look: impl FnMut(&mut World<Ether>) -> Option<R>) -> Option<R> {
        let mut state = self.shared().lock();
        state.world.medium().pass();
        let mut seen = look(&mut state.world);
        if seen.is_none() {
            state.driven += 1;
            state.drive();
            seen = look(&mut state.world);
        }
        // A look that finds nothing leaves nothing to be done.
        if seen.is_some() {
            state.settle();
        }
        self.shared().leave(state);
        seen
    }

    fn deadline(&self, timeout: Option<Duration>) -> Deadline {
        let now = Time::from_nanos(sovia_sys::clock::now_ns());
        timeout.map_or(Deadline::Never, |timeout| Deadline::At(now.after(timeout)))
    }

    fn wait<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<Ether>) -> Option<R>,
    ) -> Option<R> {
        self.wait_by(deadline, look, Shared::sleep)
    }

    fn wait_for_request<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<Ether>) -> Option<R>,
    ) -> Option<R> {
        self.wait_by(deadline, look, Shared::sleep_aside)
    }
}
