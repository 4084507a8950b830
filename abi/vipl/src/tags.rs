//! Tags (cLAN): a program that waits for many things at once has a completion queue tell an event,
//! which here is an eventfd, to be given to poll, select or epoll.
//!
//! The event is readable when a completion queue under it may have an entry, until `VipCQDone` has
//! found that it has none. So a program takes entries until there is none and then waits for the
//! event, without reading it.
//!
//! The news come from the provider's notification, which takes an entry. It is *held* here, in front
//! of those that are still in the queue. Entries may thus change places; but those of one work queue
//! are all the same, so nobody can tell.

use crate::boundary::enter;
use crate::cq::CQS;
use crate::handle::Handle;
use crate::pointer::{Opaque, Out};
use crate::provider::AnyCq;
use crate::types::Ulong;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use sovia_sys::call;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use via::cq::CqEntry;
use via::error::WaitError;
use via::{CompletionQueue, ReturnCode};

/// The tags of a completion queue.
#[derive(Default)]
pub(crate) struct Tags {
    /// Whether there has ever been one: then an entry may be held.
    used: AtomicBool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    tags: Vec<(Arc<Event>, Ulong)>,
    /// Taken by the notification and not yet by the program.
    held: VecDeque<CqEntry>,
    /// A notification is under way.
    armed: bool,
    /// The events have been told, and the program has not seen the queue empty since.
    ready: bool,
}

/// An eventfd, for any number of tags.
struct Event {
    fd: i32,
    /// Of the tags under it, those whose queue is ready.
    ready: Mutex<usize>,
}

/// The events that live, by their descriptors.
static EVENTS: Mutex<Option<HashMap<i32, Weak<Event>>>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    /// A fresh one.
    fn new() -> Result<Arc<Event>, ReturnCode> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        let mut fd = call::eventfd(flags).map_err(|_| ReturnCode::ErrorResource)?;
        if fd == 0 {
            // Its handle would be the null pointer, which asks for a fresh one.
            let other = call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 1);
            let _ = call::close(fd);
            fd = other.map_err(|_| ReturnCode::ErrorResource)? as i32;
        }
        let event = Arc::new(Event { fd, ready: Mutex::new(0) });
        let mut events = locked(&EVENTS);
        let events = events.get_or_insert_default();
        events.insert(fd, Arc::downgrade(&event));
        Ok(event)
    }

    /// One that a program has from here.
    fn known(handle: Opaque) -> Result<Arc<Event>, ReturnCode> {
        let fd = i32::try_from(handle.address()).map_err(|_| ReturnCode::InvalidParameter)?;
        let events = locked(&EVENTS);
        let event = events.as_ref().and_then(|events| events.get(&fd)).and_then(Weak::upgrade);
        event.ok_or(ReturnCode::InvalidParameter)
    }

    fn raise(&self) {
        *locked(&self.ready) += 1;
        // Cannot fail: the count stays far below its limit.
        let _ = call::write(self.fd, &1u64.to_ne_bytes());
    }

    fn lower(&self) {
        let mut ready = locked(&self.ready);
        *ready = ready.saturating_sub(1);
        if *ready == 0 {
            // Empty already if the program has read it.
            let _ = call::read(self.fd, &mut [0; 8]);
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut events = locked(&EVENTS);
        // Closed under the lock, so that the number is not somebody else's in between.
        if let Some(events) = events.as_mut() {
            events.remove(&self.fd);
        }
        let _ = call::close(self.fd);
    }
}

impl State {
    fn set_ready(&mut self, ready: bool) {
        if core::mem::replace(&mut self.ready, ready) != ready {
            for (event, _) in &self.tags {
                if ready { event.raise() } else { event.lower() }
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl Tags {
    /// Whether entries are to be taken by the functions here.
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// Has the provider tell of the next entry, unless it does already. The state's lock must not
    /// be held: the notification may run at once.
    fn arm(&self, cq: &AnyCq) {
        if core::mem::replace(&mut self.shared.state().armed, true) {
            return;
        }
        let shared = self.shared.clone();
        cq.notify(Box::new(move |entry| {
            let mut state = shared.state();
            state.armed = false;
            state.held.push_back(entry);
            state.set_ready(true);
            // All, because one of them will see to it that the next entry is told, too.
            shared.news.notify_all();
        }));
    }

    /// Takes an entry. If there is none, the events say so.
    pub(crate) fn done(&self, cq: &AnyCq) -> Option<CqEntry> {
        let held = self.shared.state().held.pop_front();
        if let Some(entry) = held.or_else(|| cq.done()) {
            return Some(entry);
        }
        let mut state = self.shared.state();
        // One may just have come.
        if let Some(entry) = state.held.pop_front() {
            return Some(entry);
        }
        state.set_ready(false);
        drop(state);
        self.arm(cq);
        None
    }

    /// Takes an entry, waiting for one.
    pub(crate) fn wait(&self, cq: &AnyCq, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(entry) = self.done(cq) {
                return Ok(entry);
            }
            let state = self.shared.state();
            let idle = |state: &mut State| state.held.is_empty() && state.armed;
            let news = &self.shared.news;
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => drop(news.wait_while(state, idle)),
                Some(Duration::ZERO) => return Err(WaitError::Timeout),
                Some(left) => drop(news.wait_timeout_while(state, left, idle)),
            }
        }
    }

    fn add(&self, cq: &AnyCq, event: Arc<Event>, tag: Ulong) -> Result<(), ReturnCode> {
        let mut state = self.shared.state();
        if state.tags.iter().any(|(e, t)| Arc::ptr_eq(e, &event) && *t == tag) {
            return Err(ReturnCode::InvalidParameter);
        }
        if state.ready {
            event.raise();
        }
        state.tags.push((event, tag));
        drop(state);
        // Before the first notification, so that whoever looks finds what it takes.
        self.used.store(true, Ordering::Release);
        self.arm(cq);
        Ok(())
    }

    fn remove(&self, event: &Arc<Event>, tag: Ulong) -> Result<(), ReturnCode> {
        let mut state = self.shared.state();
        let at = state.tags.iter().position(|(e, t)| Arc::ptr_eq(e, event) && *t == tag);
        state.tags.swap_remove(at.ok_or(ReturnCode::InvalidParameter)?);
        if state.ready {
            event.lower();
        }
        Ok(())
    }

    /// The completion queue is no more.
    pub(crate) fn clear(&self) {
        let mut state = self.shared.state();
        state.set_ready(false);
        state.tags.clear();
    }
}

/// Has a completion queue tell an event: the one given, or a fresh one where it is null. The
/// priority, which ranks interrupts, has nothing to rank here.
#[unsafe(no_mangle)]
pub extern "C" fn VipAddTagCQ(
    cq: Handle,
    event: Out<Opaque>,
    tag: Ulong,
    _priority: Ulong,
) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let given = event.get().ok_or(ReturnCode::InvalidParameter)?;
        let own = if given.is_null() { Event::new()? } else { Event::known(given)? };
        let handle = Opaque::at(own.fd as u64);
        open.tags.add(&open.cq, own, tag)?;
        event.set(handle);
        Ok(())
    })
}

/// Has a completion queue tell an event no more. With its last tag an event is closed.
#[unsafe(no_mangle)]
pub extern "C" fn VipRemoveTagCQ(cq: Handle, event: Opaque, tag: Ulong) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let event = Event::known(event)?;
        open.tags.remove(&event, tag)
    })
}
