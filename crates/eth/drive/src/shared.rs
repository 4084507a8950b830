//! The lock of a NIC, and the wake-ups between the threads that use the NIC.

use crate::driven::Driven;
use crate::state::{Own, SPINNING, State};
use core::time::Duration;
use sovia_link::Time;
use sovia_port::Descriptors;
use sovia_port::watch::{Bell, Kick};
use sovia_softnic::{Deadline, World};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use via::cq::Watch;

/// Data that the threads of a NIC share.
#[derive(Debug)]
pub(crate) struct Shared<M: Driven> {
    state: Mutex<State<M>>,
    /// Wakes threads of the program that sleep while another thread watches.
    news: Condvar,
    /// Wakes threads that wait only for requests.
    requests: Condvar,
    /// Wakes the watcher, if it is a thread of the program.
    pub(crate) watcher: Kick,
    /// Wakes the NIC's own thread while it watches.
    pub(crate) own: Kick,
    /// Wakes the NIC's own thread while it naps or sleeps.
    pub(crate) bell: Bell,
    /// Time that a waiting call polls before it sleeps.
    pub(crate) spin: Duration,
}

impl<M: Driven> Shared<M> {
    /// # Errors
    /// Returns the kernel's error if no descriptor is left.
    pub(crate) fn new(state: State<M>, spin: Duration) -> sovia_sys::Result<Shared<M>> {
        Ok(Shared {
            state: Mutex::new(state),
            news: Condvar::new(),
            requests: Condvar::new(),
            watcher: Kick::new()?,
            own: Kick::new()?,
            bell: Bell::default(),
            spin,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<M>> {
        // Ignores poisoning. A failing test reports its own failure, and other threads may clean up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock. Wakes the threads that must learn of changes, and runs callbacks in order. Each use of the
    /// state ends with this function.
    pub(crate) fn leave<'s>(&'s self, mut state: MutexGuard<'s, State<M>>) {
        let owed = if state.acknowledges_later { state.owed_at() } else { None };
        let next = state.world.medium().next_timer().into_iter().chain(owed).min();
        let sooner =
            |until: Option<Time>| next.is_some_and(|next| until.is_none_or(|until| next < until));
        let has_news = state.world.take_news();
        match state.watcher {
            // The watcher may wait for this event.
            Some(until) if has_news || sooner(until) => self.watcher.give(),
            Some(_) => {}
            // One of the sleeping threads must become the watcher.
            None if state.sleepers > 0 => self.news.notify_one(),
            None => match state.own {
                Own::Sleeps => {
                    state.own = Own::Awake;
                    self.bell.ring();
                }
                Own::Watches(until) if sooner(until) => {
                    state.own = Own::Awake;
                    self.own.give();
                }
                // A callback or a signal must not wait for the end of the nap.
                Own::Naps if state.world.has_registered() => {
                    state.own = Own::Awake;
                    self.bell.ring();
                }
                Own::Watches(_) | Own::Naps | Own::Awake => {}
            },
        }
        if has_news && state.sleepers > 0 {
            self.news.notify_all();
        }
        if state.world.take_requests() && state.asides > 0 {
            self.requests.notify_all();
        }
        let mut next = state.world.begin_callbacks();
        while let Some(callback) = next {
            drop(state);
            callback.run_in_thread();
            state = self.lock();
            next = state.world.next_callback();
        }
    }

    /// Sleeps until the medium has events, or another thread has events for this one.
    pub(crate) fn sleep<'s>(&'s self, mut state: MutexGuard<'s, State<M>>, deadline: Deadline) {
        let until = until(deadline);
        if state.watcher.is_none() {
            return self.watch(state, until);
        }
        if state.watches_aside {
            // The watcher waits only for requests. This wake-up makes it leave the watch to this thread.
            self.watcher.give();
        }
        state.sleepers += 1;
        let mut state = wait(&self.news, state, until);
        state.sleepers -= 1;
        state.world.medium().pass();
        self.leave(state);
    }

    /// Like [`Shared::sleep`], for a thread that waits for a request. The thread watches only while no other thread of
    /// the program waits. Otherwise it would wake the other threads for each arriving frame.
    pub(crate) fn sleep_aside<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<M>>,
        deadline: Deadline,
    ) {
        let until = until(deadline);
        if state.watcher.is_none() && state.sleepers == 0 {
            state.watches_aside = true;
            return self.watch(state, until);
        }
        state.asides += 1;
        let mut state = wait(&self.requests, state, until);
        state.asides -= 1;
        state.world.medium().pass();
        self.leave(state);
    }

    /// Sleeps on the medium's descriptors, as the watcher.
    fn watch<'s>(&'s self, mut state: MutexGuard<'s, State<M>>, until: Option<Time>) {
        let terms = state.terms(until);
        state.watcher = Some(terms.until.map(Time::from_nanos));
        drop(state);
        let found = self.watcher.sleep(&terms);
        let mut state = self.lock();
        state.watcher = None;
        state.watches_aside = false;
        state.woken(found.news);
        // This thread may leave for good, and another thread must then become the watcher. So this thread handles the
        // present frames now.
        state.driven += 1;
        state.drive();
        self.leave(state);
    }

    /// Makes the calling thread the watcher, for a sleep in a call of its own. Returns the descriptors and the time
    /// limit. If the awaited event has already come (`is_there`), the time limit is in the past. Returns `None` if a
    /// watcher exists, or if the medium needs other descriptors now.
    pub(crate) fn watch_outside(
        &self,
        is_there: impl FnOnce(&mut World<M>) -> bool,
    ) -> Option<Watch> {
        let mut state = self.lock();
        state.world.medium().pass();
        if state.watcher.is_some() {
            return None;
        }
        state.acknowledges_later = true;
        state.driven += 1;
        let came = state.drive();
        let is_there = is_there(&mut state.world) || came > 0 || state.world.has_callbacks();
        let until = if is_there { Some(Time::ZERO) } else { state.owed_at() };
        let terms = state.terms(until);
        let Descriptors { frames, news, .. } = terms.descriptors;
        // Otherwise the descriptors differ from the usual ones: the device has failed, or has no room.
        let is_usual = terms.frames && !terms.room && !state.world.medium().is_gone();
        let watch = is_usual.then_some(Watch {
            descriptors: [frames, self.watcher.raw(), news.unwrap_or(-1)],
            until: terms.until,
        });
        match watch {
            Some(watch) => state.watcher = Some(watch.until.map(Time::from_nanos)),
            None => state.woken(false),
        }
        self.leave(state);
        watch
    }

    /// Ends the watch of [`Shared::watch_outside`]. `ready` says which descriptors were readable.
    pub(crate) fn awake_outside(&self, ready: [bool; 3]) {
        let mut state = self.lock();
        if ready[1] {
            self.watcher.forget();
        }
        state.watcher = None;
        state.woken(ready[2]);
        state.driven += SPINNING;
        self.leave(state);
    }
}

fn until(deadline: Deadline) -> Option<Time> {
    match deadline {
        Deadline::At(time) => Some(time),
        Deadline::Never | Deadline::Real(_) => None,
    }
}

/// Sleeps until a wake-up, or until `until`.
fn wait<'s, M: Driven>(
    on: &Condvar,
    state: MutexGuard<'s, State<M>>,
    until: Option<Time>,
) -> MutexGuard<'s, State<M>> {
    let now = state.world.medium().now();
    match until {
        Some(until) => {
            let woken = on.wait_timeout(state, until.since(now));
            woken.unwrap_or_else(PoisonError::into_inner).0
        }
        None => on.wait(state).unwrap_or_else(PoisonError::into_inner),
    }
}
