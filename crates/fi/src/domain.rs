//! Domains: endpoints and the objects that they share. A lock guards each domain, unless the program promises to need
//! none.

use crate::completion::{Counter, Queue};
use crate::endpoint::{Common, Endpoint};
use crate::error::Error;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A domain.
#[derive(Debug)]
pub struct Domain {
    /// `None` if the program promises that only one thread at a time calls.
    lock: Option<Mutex<()>>,
    state: UnsafeCell<State>,
}

// SAFETY: only `enter` reaches `state`. `enter` holds the lock, or the caller of `exclusive` has promised that threads
// exclude each other.
unsafe impl Sync for Domain {}
// SAFETY: no part of a domain belongs to one thread. The program may pass the memory that it lends to other threads.
unsafe impl Send for Domain {}

/// All objects of a domain.
#[derive(Debug, Default)]
pub struct State {
    /// The endpoints of the domain.
    pub endpoints: Vec<Option<Box<Endpoint>>>,
    /// The objects that the endpoints share.
    pub common: Common,
}

/// The right to use a domain, until dropped.
#[derive(Debug)]
pub struct Entered<'a> {
    state: &'a mut State,
    _lock: Option<MutexGuard<'a, ()>>,
}

impl Domain {
    /// Returns a domain that several threads may use at the same time.
    pub fn shared() -> Domain {
        Domain { lock: Some(Mutex::new(())), state: UnsafeCell::default() }
    }

    /// Returns a domain without a lock.
    ///
    /// # Safety
    /// Threads that call [`Domain::enter`] must exclude each other, until they drop the returned [`Entered`].
    pub unsafe fn exclusive() -> Domain {
        Domain { lock: None, state: UnsafeCell::default() }
    }

    /// Waits until no other thread uses the domain.
    #[inline(always)]
    pub fn enter(&self) -> Entered<'_> {
        let lock =
            self.lock.as_ref().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: the lock excludes other threads, or the callers of an exclusive domain exclude each other. No
        // function of this crate calls the program, so one thread never enters twice.
        Entered { state: unsafe { &mut *self.state.get() }, _lock: lock }
    }
}

impl Deref for Entered<'_> {
    type Target = State;
    #[inline]
    fn deref(&self) -> &State {
        self.state
    }
}

impl DerefMut for Entered<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.state
    }
}

/// Puts a value into the first free slot, and returns the slot's number.
pub fn insert<T>(into: &mut Vec<Option<T>>, value: T) -> usize {
    match into.iter().position(Option::is_none) {
        Some(at) => {
            into[at] = Some(value);
            at
        }
        None => {
            into.push(Some(value));
            into.len() - 1
        }
    }
}

impl State {
    /// Returns the endpoint with number `at`, and the shared objects.
    ///
    /// # Errors
    /// Returns [`Error::BAD_STATE`] if the endpoint is not enabled, or is closed.
    #[inline(always)]
    pub fn endpoint(&mut self, at: usize) -> Result<(&mut Endpoint, &mut Common), Error> {
        let endpoint = self.endpoints.get_mut(at).and_then(Option::as_mut);
        Ok((endpoint.ok_or(Error::BAD_STATE)?, &mut self.common))
    }

    /// Returns the queue with number `at`.
    ///
    /// # Errors
    /// Returns [`Error::INVALID`] if the queue does not exist.
    #[inline]
    pub fn queue(&mut self, at: usize) -> Result<&mut Queue, Error> {
        self.common.queues.get_mut(at).and_then(Option::as_mut).ok_or(Error::INVALID)
    }

    /// Returns the counter with number `at`.
    ///
    /// # Errors
    /// Returns [`Error::INVALID`] if the counter does not exist.
    pub fn counter(&mut self, at: usize) -> Result<&mut Counter, Error> {
        self.common.counters.get_mut(at).and_then(Option::as_mut).ok_or(Error::INVALID)
    }

    /// Adds an endpoint to its queues and counters, whose reads drive the endpoint, and to its address vector.
    pub fn drive(&mut self, at: usize, queues: &[usize], counters: &[usize], vector: usize) {
        let add = |list: &mut Vec<usize>| {
            if !list.contains(&at) {
                list.push(at);
            }
        };
        for queue in queues {
            if let Some(queue) = self.common.queues.get_mut(*queue).and_then(Option::as_mut) {
                add(&mut queue.endpoints);
            }
        }
        for counter in counters {
            if let Some(counter) = self.common.counters.get_mut(*counter).and_then(Option::as_mut) {
                add(&mut counter.endpoints);
            }
        }
        if let Some(vector) = self.common.vectors.get_mut(vector).and_then(Option::as_mut) {
            add(&mut vector.endpoints);
        }
    }

    /// Closes an endpoint.
    pub fn close(&mut self, at: usize) {
        if let Some(place) = self.endpoints.get_mut(at) {
            *place = None;
        }
        let common = &mut self.common;
        let queues = common.queues.iter_mut().flatten().map(|queue| &mut queue.endpoints);
        let counters = common.counters.iter_mut().flatten().map(|counter| &mut counter.endpoints);
        let vectors = common.vectors.iter_mut().flatten().map(|vector| &mut vector.endpoints);
        queues.chain(counters).chain(vectors).for_each(|list| list.retain(|its| *its != at));
    }

    /// Drives the endpoints of a queue.
    #[inline]
    pub fn progress_of_queue(&mut self, at: usize) {
        let mut i = 0;
        while let Some(queue) = self.common.queues.get(at).and_then(Option::as_ref)
            && let Some(&endpoint) = queue.endpoints.get(i)
        {
            self.progress(endpoint);
            i += 1;
        }
    }

    /// Binds a counter to a region: the counter counts peers' writes to the region.
    ///
    /// # Errors
    /// Returns [`Error::INVALID`] if the region or the counter does not exist.
    pub fn bind_region(&mut self, key: u64, counter: usize) -> Result<(), Error> {
        self.counter(counter)?;
        let region = self.common.regions.get_mut(key).ok_or(Error::INVALID)?;
        let before = region.counter.replace(counter);
        self.counter(counter)?.regions += 1;
        self.unbind(before);
        Ok(())
    }

    /// Ends a registration.
    pub fn remove_region(&mut self, key: u64) {
        let region = self.common.regions.remove(key);
        self.unbind(region.and_then(|region| region.counter));
    }

    fn unbind(&mut self, counter: Option<usize>) {
        if let Some(counter) = counter.and_then(|counter| self.counter(counter).ok()) {
            counter.regions -= 1;
        }
    }

    /// Drives the endpoints of a counter, or all endpoints if a region is bound to the counter.
    pub fn progress_of_counter(&mut self, at: usize) {
        if self.counter(at).is_ok_and(|counter| counter.regions > 0) {
            (0..self.endpoints.len()).for_each(|endpoint| self.progress(endpoint));
            return;
        }
        let mut i = 0;
        while let Some(counter) = self.common.counters.get(at).and_then(Option::as_ref)
            && let Some(&endpoint) = counter.endpoints.get(i)
        {
            self.progress(endpoint);
            i += 1;
        }
    }

    #[inline]
    fn progress(&mut self, endpoint: usize) {
        if let Some(endpoint) = self.endpoints.get_mut(endpoint).and_then(Option::as_mut) {
            endpoint.progress(&mut self.common);
        }
    }
}
