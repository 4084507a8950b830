//! The driver of a NIC, through which calls look and wait.

use crate::driven::Driven;
use crate::shared::Shared;
use crate::state::State;
use crate::thread;
use core::time::Duration;
use sovia_link::Time;
use sovia_softnic::{Deadline, Driver, World};
use std::sync::{Arc, MutexGuard, Weak};
use via::cq::Watch;

/// The driver of a NIC. Every object of the NIC in the program holds a reference. The NIC closes with the last
/// reference, and its own thread then sends the remaining messages to peers.
#[derive(Debug)]
pub struct Wire<M: Driven>(Arc<Handle<M>>);

impl<M: Driven> Clone for Wire<M> {
    fn clone(&self) -> Wire<M> {
        Wire(self.0.clone())
    }
}

#[derive(Debug)]
struct Handle<M: Driven>(Arc<Shared<M>>);

/// A reference to a wire that does not keep the NIC open.
#[derive(Debug)]
pub struct WeakWire<M: Driven>(Weak<Handle<M>>);

impl<M: Driven> WeakWire<M> {
    /// Returns the wire, unless it is closed or its network is gone.
    pub fn find(&self) -> Option<Wire<M>> {
        let wire = self.0.upgrade().map(Wire)?;
        wire.is_there().then_some(wire)
    }
}

impl<M: Driven> Drop for Handle<M> {
    fn drop(&mut self) {
        {
            let mut state = self.0.lock();
            state.is_closing = true;
            // No thread of the program watches any more, not even outside.
            state.watcher = None;
        }
        self.0.own.give();
        self.0.bell.ring();
    }
}

impl<M: Driven> Wire<M> {
    /// Starts a new NIC and its thread; `None` if that fails. A waiting call polls for `spin` before it sleeps.
    pub fn start(medium: M, config: sovia_softnic::Config, spin: Duration) -> Option<Wire<M>> {
        let shared = Arc::new(Shared::new(State::new(medium, config), spin).ok()?);
        thread::start(shared.clone()).then(|| Wire(Arc::new(Handle(shared))))
    }

    /// Calls `look` on the world, without further effects.
    pub fn inspect<R>(&self, look: impl FnOnce(&mut World<M>) -> R) -> R {
        look(&mut self.shared().lock().world)
    }

    /// Returns a reference that does not keep the NIC open.
    pub fn downgrade(&self) -> WeakWire<M> {
        WeakWire(Arc::downgrade(&self.0))
    }

    /// Returns true if the network still exists, as far as is known.
    fn is_there(&self) -> bool {
        let mut state = self.shared().lock();
        state.woken(true);
        state.settle();
        let is_there = !state.world.medium().is_gone();
        self.shared().leave(state);
        is_there
    }

    fn shared(&self) -> &Shared<M> {
        &self.0.0
    }

    /// Waits until `look` returns a value. Sleeps by `sleep`.
    fn wait_by<R>(
        &self,
        deadline: Deadline,
        mut look: impl FnMut(&mut World<M>) -> Option<R>,
        sleep: for<'s> fn(&'s Shared<M>, MutexGuard<'s, State<M>>, Deadline),
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

impl<M: Driven> Driver for Wire<M> {
    type Medium = M;

    fn with<R>(&self, work: impl FnOnce(&mut World<M>) -> R) -> R {
        let mut state = self.shared().lock();
        state.world.medium().pass();
        let result = work(&mut state.world);
        state.settle();
        self.shared().leave(state);
        result
    }

    fn look<R>(&self, mut look: impl FnMut(&mut World<M>) -> Option<R>) -> Option<R> {
        let mut state = self.shared().lock();
        state.world.medium().pass();
        let mut seen = look(&mut state.world);
        if seen.is_none() {
            state.driven += 1;
            state.drive();
            seen = look(&mut state.world);
        }
        // A look without a result leaves no work.
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
        look: impl FnMut(&mut World<M>) -> Option<R>,
    ) -> Option<R> {
        self.wait_by(deadline, look, Shared::sleep)
    }

    fn wait_for_request<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<M>) -> Option<R>,
    ) -> Option<R> {
        self.wait_by(deadline, look, Shared::sleep_aside)
    }

    fn watch(&self, is_there: impl FnOnce(&mut World<M>) -> bool) -> Option<Watch> {
        self.shared().watch_outside(is_there)
    }

    fn awake(&self, ready: [bool; 3]) {
        self.shared().awake_outside(ready);
    }
}
