//! The lock of a NIC, and what the threads that use it owe each other.

use crate::state::{Own, State};
use crate::watch::{Bell, Kick};
use core::time::Duration;
use sovia_link::Time;
use sovia_softnic::{Deadline, Medium};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What the threads of a NIC share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// For threads of the program's that sleep while another one watches.
    news: Condvar,
    /// Wakes the thread of the program's that watches.
    pub(crate) watcher: Kick,
    /// Wakes the NIC's own thread where it watches.
    pub(crate) own: Kick,
    /// Wakes it where it does not.
    pub(crate) bell: Bell,
    /// How long a call that waits looks before it sleeps.
    pub(crate) spin: Duration,
}

impl Shared {
    /// # Errors
    /// The kernel's, where there are no descriptors.
    pub(crate) fn new(state: State, spin: Duration) -> sovia_sys::Result<Shared> {
        Ok(Shared {
            state: Mutex::new(state),
            news: Condvar::new(),
            watcher: Kick::new()?,
            own: Kick::new()?,
            bell: Bell::default(),
            spin,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A test that fails while it holds the lock has its say; others may clean up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that are to know what has been done, and runs callbacks in their order. Each use of the state
    /// ends by this.
    pub(crate) fn leave<'s>(&'s self, mut state: MutexGuard<'s, State>) {
        let next = state.world.medium().next_timer();
        let sooner =
            |until: Option<Time>| next.is_some_and(|next| until.is_none_or(|until| next < until));
        let has_news = state.world.take_news();
        match state.watcher {
            // It may wait for just that.
            Some(until) if has_news || sooner(until) => self.watcher.give(),
            Some(_) => {}
            // One of those that sleep is to watch.
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
                Own::Watches(_) | Own::Awake => {}
            },
        }
        if has_news && state.sleepers > 0 {
            self.news.notify_all();
        }
        let mut next = state.world.begin_callbacks();
        while let Some(callback) = next {
            drop(state);
            callback.run_in_thread();
            state = self.lock();
            next = state.world.next_callback();
        }
    }

    /// Sleeps until the port has something, or another thread has news.
    pub(crate) fn sleep<'s>(&'s self, mut state: MutexGuard<'s, State>, deadline: Deadline) {
        let until = match deadline {
            Deadline::At(time) => Some(time),
            Deadline::Never | Deadline::Real(_) => None,
        };
        if state.watcher.is_some() {
            state.sleepers += 1;
            let now = state.world.medium().now();
            let state = match until {
                Some(until) => {
                    let woken = self.news.wait_timeout(state, until.since(now));
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            let mut state = state;
            state.sleepers -= 1;
            state.world.medium().pass();
            return self.leave(state);
        }
        let terms = state.terms(until);
        state.watcher = Some(terms.until);
        drop(state);
        let found = self.watcher.sleep(&terms);
        let mut state = self.lock();
        state.watcher = None;
        state.woken(found.news);
        // Another thread watches once this one has left for good: what there is it looks for now.
        state.driven += 1;
        state.drive();
        self.leave(state);
    }
}
