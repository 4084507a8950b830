//! Tags (cLAN): a completion queue signals an event, so that a program can wait for many objects at once. An event is
//! an eventfd here, for poll, select or epoll.
//!
//! The event is readable while a completion queue with this event may have an entry, until `VipCQDone` has found none.
//! So a program takes entries until there is none, and then waits for the event without reading it.
//!
//! The provider's signal leaves the entry in the queue. So a thread or callback that waits for the queue in another way
//! is not affected by its tags.

use crate::pointer::Opaque;
use crate::provider::AnyCq;
use crate::types::Ulong;
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::call;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use via::{CompletionQueue, ReturnCode};

/// Tags of a completion queue.
#[derive(Default)]
pub(crate) struct Tags {
    /// True if the queue has a tag. Read without the lock.
    used: AtomicBool,
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    tags: Vec<(Arc<Event>, Ulong)>,
    /// True if a signal of the provider is requested.
    armed: bool,
    /// True if the events have been signalled, and the program has not seen the queue empty since.
    ready: bool,
}

/// An eventfd with any number of tags.
pub(crate) struct Event {
    fd: i32,
    /// Number of the event's tags whose queue is ready.
    ready: Mutex<usize>,
}

/// Living events by their descriptors.
static EVENTS: Mutex<Option<HashMap<i32, Weak<Event>>>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    /// Makes a new event.
    pub(crate) fn new() -> Result<Arc<Event>, ReturnCode> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        let mut fd = call::eventfd(flags).map_err(|_| ReturnCode::ErrorResource)?;
        if fd == 0 {
            // Descriptor 0 would be the null pointer, which requests a new event.
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

    /// Returns the value that the program gets for the event.
    pub(crate) fn handle(&self) -> Opaque {
        Opaque::at(self.fd as u64)
    }

    /// Returns an event that the program has got from this library.
    pub(crate) fn known(handle: Opaque) -> Result<Arc<Event>, ReturnCode> {
        let fd = i32::try_from(handle.address()).map_err(|_| ReturnCode::InvalidParameter)?;
        let events = locked(&EVENTS);
        let event = events.as_ref().and_then(|events| events.get(&fd)).and_then(Weak::upgrade);
        event.ok_or(ReturnCode::InvalidParameter)
    }

    fn raise(&self) {
        *locked(&self.ready) += 1;
        // The write cannot fail, because the count stays far below its limit.
        let _ = call::write(self.fd, &1u64.to_ne_bytes());
    }

    fn lower(&self) {
        let mut ready = locked(&self.ready);
        *ready = ready.saturating_sub(1);
        if *ready == 0 {
            // The read fails if the program has read the eventfd already.
            let _ = call::read(self.fd, &mut [0; 8]);
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut events = locked(&EVENTS);
        // Closed under the lock, so that another descriptor cannot get the number before the entry is removed.
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

impl Tags {
    /// Records that the program has found no entry. The events become unreadable until there is an entry.
    #[inline]
    pub(crate) fn found_empty(&self, cq: &AnyCq) {
        if self.used.load(Ordering::Acquire) {
            self.lower(cq);
        }
    }

    #[cold]
    fn lower(&self, cq: &AnyCq) {
        locked(&self.shared).set_ready(false);
        // If an entry has come meanwhile, the signal runs at once.
        self.arm(cq);
    }

    /// Requests the provider's signal for the next entry, unless it is requested already. Do not hold the state's lock:
    /// the signal may run at once.
    fn arm(&self, cq: &AnyCq) {
        if core::mem::replace(&mut locked(&self.shared).armed, true) {
            return;
        }
        let shared = self.shared.clone();
        cq.signal(Box::new(move || {
            let mut state = locked(&shared);
            state.armed = false;
            state.set_ready(true);
        }));
    }

    pub(crate) fn add(&self, cq: &AnyCq, event: Arc<Event>, tag: Ulong) -> Result<(), ReturnCode> {
        let mut state = locked(&self.shared);
        if state.tags.iter().any(|(e, t)| Arc::ptr_eq(e, &event) && *t == tag) {
            return Err(ReturnCode::InvalidParameter);
        }
        if state.ready {
            event.raise();
        }
        state.tags.push((event, tag));
        self.used.store(true, Ordering::Release);
        drop(state);
        self.arm(cq);
        Ok(())
    }

    pub(crate) fn remove(&self, event: &Arc<Event>, tag: Ulong) -> Result<(), ReturnCode> {
        let mut state = locked(&self.shared);
        let at = state.tags.iter().position(|(e, t)| Arc::ptr_eq(e, event) && *t == tag);
        state.tags.swap_remove(at.ok_or(ReturnCode::InvalidParameter)?);
        if state.ready {
            event.lower();
        }
        self.used.store(!state.tags.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Removes all tags of a destroyed completion queue.
    pub(crate) fn clear(&self) {
        let mut state = locked(&self.shared);
        state.set_ready(false);
        state.tags.clear();
    }
}
