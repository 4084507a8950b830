//! Handles, by which a program names a NIC, a VI, a completion queue or a request for a connection.
//!
//! A handle is a number. It consists of the kind of object, the object's place in a table, and the generation of the
//! place. So a handle that was never given out, of another kind, or of a destroyed object is always recognized as
//! invalid, whatever other threads do. Places are never freed. A look-up takes no lock and executes no atomic exchange
//! ([`crate::hazard`]).

use crate::hazard::{self, Hazard};
use core::fmt;
use core::ops::Deref;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use sovia_sys::call;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::ReturnCode;

/// A handle in C's form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(pub(crate) usize);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Kind of an object. As the highest bits they make a handle an address where no memory can be. So a program that
/// dereferences a handle crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Nic = 0x9,
    Vi = 0xa,
    Cq = 0xb,
    Conn = 0xc,
    Ptag = 0xd,
}

const KIND_SHIFT: u32 = 60;
const GENERATION_SHIFT: u32 = 32;
pub(crate) const GENERATION_MASK: u32 = (1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1;

impl Handle {
    /// `NULL`.
    pub const NULL: Handle = Handle(0);

    /// Makes a handle from its parts.
    #[inline]
    pub(crate) fn new(kind: Kind, generation: u32, number: u32) -> Handle {
        let generation = (generation & GENERATION_MASK) as usize;
        Handle((kind as usize) << KIND_SHIFT | generation << GENERATION_SHIFT | number as usize)
    }

    /// Returns generation and number of a handle; `None` if it is of another kind.
    #[inline]
    pub(crate) fn parts(self, kind: Kind) -> Option<(u32, u32)> {
        if self.0 >> KIND_SHIFT != kind as usize {
            return None;
        }
        Some(((self.0 >> GENERATION_SHIFT) as u32 & GENERATION_MASK, self.0 as u32))
    }

    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self == Handle::NULL
    }

    /// Returns the handle as a context of a VI or completion queue.
    #[inline]
    pub(crate) fn context(self) -> u64 {
        self.0 as u64
    }

    /// Returns the handle in a context.
    #[inline]
    pub(crate) fn from_context(context: u64) -> Handle {
        Handle(context as usize)
    }
}

const CHUNK: usize = 256;
const CHUNKS: usize = 256;

/// States of a place, stored beside its generation. FREE: the place has no object.
const FREE: u64 = 0;
/// The object can be used.
const LIVE: u64 = 1;
/// The object is being destroyed, which may still fail.
const CLOSING: u64 = 2;

#[inline]
fn state(generation: u32, phase: u64) -> u64 {
    u64::from(generation) << 2 | phase
}

struct Place<T> {
    state: AtomicU64,
    /// An `Arc` that the place owns while the state is LIVE.
    thing: AtomicPtr<T>,
}

/// The table of all objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    chunks: [AtomicPtr<Place<T>>; CHUNKS],
    free: Mutex<Free>,
}

struct Free {
    /// Places that have been used, with the one that is free for the longest time first.
    numbers: VecDeque<u32>,
    /// First place that has never been used.
    fresh: u32,
}

/// An object in use. No thread destroys the object before this value is dropped.
pub(crate) struct Using<T: 'static> {
    thing: *const T,
    _hazard: Hazard,
}

/// A place reserved for an object that is being made. Its handle is known already.
pub(crate) struct Reservation<T: Send + Sync + 'static> {
    table: &'static Table<T>,
    number: u32,
    generation: u32,
}

impl<T> Deref for Using<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `remove` does not take the place's `Arc` while the hazard names the place.
        unsafe { &*self.thing }
    }
}

impl<T> Using<T> {
    /// Returns the object for a longer use, across a wait. Meanwhile destroying the object fails.
    pub(crate) fn keep(self) -> Arc<T> {
        // SAFETY: `thing` came from `Arc::into_raw`, and the hazard keeps the place's `Arc` alive.
        unsafe { Arc::increment_strong_count(self.thing) };
        // SAFETY: this call takes over the reference that was just added.
        unsafe { Arc::from_raw(self.thing) }
    }
}

impl<T: Send + Sync + 'static> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Table<T> {
        Table {
            kind,
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            free: Mutex::new(Free { numbers: VecDeque::new(), fresh: 0 }),
        }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn place(&'static self, number: u32) -> Option<&'static Place<T>> {
        let chunk = self.chunks.get(number as usize / CHUNK)?.load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk has `CHUNK` places. It was complete when its pointer was stored, and is never freed.
        Some(unsafe { &*chunk.add(number as usize % CHUNK) })
    }

    /// Returns the object of a handle.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` if there is no such object.
    #[inline]
    pub(crate) fn find(&'static self, handle: Handle) -> Result<Using<T>, ReturnCode> {
        let Some((generation, number)) = handle.parts(self.kind) else {
            return Err(ReturnCode::InvalidParameter);
        };
        let place = self.place(number).ok_or(ReturnCode::InvalidParameter)?;
        loop {
            let hazard = hazard::publish(core::ptr::from_ref(place) as usize);
            let now = place.state.load(Ordering::Acquire);
            if now == state(generation, LIVE) {
                // SYNC: `fill` stores this pointer before it stores LIVE with Release, which the load of the state has
                // acquired. The pointer does not change while the hazard exists.
                let thing = place.thing.load(Ordering::Relaxed);
                return Ok(Using { thing, _hazard: hazard });
            }
            drop(hazard);
            if now != state(generation, CLOSING) {
                return Err(ReturnCode::InvalidParameter);
            }
            // Another thread is destroying the object, which does not take long.
            call::sched_yield();
        }
    }

    /// Reserves a place for a new object.
    ///
    /// # Errors
    /// `VIP_ERROR_RESOURCE` if there are too many objects.
    pub(crate) fn reserve(&'static self) -> Result<Reservation<T>, ReturnCode> {
        let mut free = self.free();
        // Places are reused as late as possible, so that stale handles are recognized for longer.
        let fresh_left = (free.fresh as usize) < CHUNK * CHUNKS;
        let number = match free.numbers.len() {
            1.. if !fresh_left || free.numbers.len() > CHUNK / 2 => free.numbers.pop_front(),
            _ if fresh_left => {
                free.fresh += 1;
                Some(free.fresh - 1)
            }
            _ => None,
        };
        let number = number.ok_or(ReturnCode::ErrorResource)?;
        let chunk = &self.chunks[number as usize / CHUNK];
        if chunk.load(Ordering::Relaxed).is_null() {
            let places: Box<[Place<T>]> = (0..CHUNK)
                .map(|_| Place {
                    state: AtomicU64::new(state(1, FREE)),
                    thing: AtomicPtr::new(null_mut()),
                })
                .collect();
            chunk.store(Box::leak(places).as_mut_ptr(), Ordering::Release);
        }
        drop(free);
        let place = self.place(number).ok_or(ReturnCode::Error)?;
        let generation = (place.state.load(Ordering::Relaxed) >> 2) as u32;
        Ok(Reservation { table: self, number, generation })
    }

    /// Destroys an object. `end` finishes the destruction, or returns the object with an error.
    ///
    /// # Errors
    /// `VIP_INVALID_PARAMETER` if there is no such object. `VIP_ERROR_RESOURCE` if a thread waits for the object, or if
    /// the calling thread is using it. Otherwise the error of `end`. After an error the object is unchanged.
    pub(crate) fn remove<R>(
        &'static self,
        handle: Handle,
        end: impl FnOnce(T) -> Result<R, (T, ReturnCode)>,
    ) -> Result<R, ReturnCode> {
        let Some((generation, number)) = handle.parts(self.kind) else {
            return Err(ReturnCode::InvalidParameter);
        };
        let place = self.place(number).ok_or(ReturnCode::InvalidParameter)?;
        let (live, closing) = (state(generation, LIVE), state(generation, CLOSING));
        loop {
            let exchange =
                place.state.compare_exchange(live, closing, Ordering::SeqCst, Ordering::Relaxed);
            match exchange {
                Ok(_) => break,
                Err(now) if now == closing => call::sched_yield(),
                Err(_) => return Err(ReturnCode::InvalidParameter),
            }
        }
        // The state is still CLOSING, so no other thread takes the place.
        let put_back = |thing: Option<Arc<T>>| {
            if let Some(thing) = thing {
                place.thing.store(Arc::into_raw(thing).cast_mut(), Ordering::Relaxed);
            }
            place.state.store(live, Ordering::Release);
        };
        // From here on no thread finds the object. The call waits for threads that found it before.
        if hazard::wait_for(core::ptr::from_ref(place) as usize).is_err() {
            put_back(None);
            return Err(ReturnCode::ErrorResource);
        }
        // SAFETY: the place owned this `Arc`, and the state CLOSING keeps other threads from taking it. Either the
        // `Arc` is put back, or the place becomes free.
        let thing = unsafe { Arc::from_raw(place.thing.swap(null_mut(), Ordering::Relaxed)) };
        let ended = match Arc::try_unwrap(thing) {
            Ok(thing) => end(thing).map_err(|(thing, reason)| (Arc::new(thing), reason)),
            Err(kept) => Err((kept, ReturnCode::ErrorResource)),
        };
        match ended {
            Ok(result) => {
                self.give_back(place, number, generation);
                Ok(result)
            }
            Err((thing, reason)) => {
                put_back(Some(thing));
                Err(reason)
            }
        }
    }

    fn give_back(&self, place: &Place<T>, number: u32, generation: u32) {
        // The generation is never 0, so that a handle never consists of only kind and number.
        let next = ((generation + 1) & GENERATION_MASK).max(1);
        place.state.store(state(next, FREE), Ordering::Release);
        self.free().numbers.push_back(number);
    }
}

impl<T: Send + Sync + 'static> Reservation<T> {
    /// Returns the handle that the object will have.
    pub(crate) fn handle(&self) -> Handle {
        Handle::new(self.table.kind, self.generation, self.number)
    }

    /// Stores the new object, and returns its handle.
    pub(crate) fn fill(self, thing: T) -> Handle {
        let handle = self.handle();
        if let Some(place) = self.table.place(self.number) {
            place.thing.store(Arc::into_raw(Arc::new(thing)).cast_mut(), Ordering::Relaxed);
            // SYNC: pairs with the Acquire load of the state in `find`, which then sees the pointer.
            place.state.store(state(self.generation, LIVE), Ordering::Release);
        }
        core::mem::forget(self);
        handle
    }
}

impl<T: Send + Sync + 'static> Drop for Reservation<T> {
    fn drop(&mut self) {
        if let Some(place) = self.table.place(self.number) {
            self.table.give_back(place, self.number, self.generation);
        }
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
