//! Sleeps on a port's descriptors, and wakes sleeping threads.

use crate::Descriptors;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Fd, clock, futex, poll};

/// The events that a watcher waits for.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The descriptors of the port.
    pub descriptors: Descriptors,
    /// Set to wait for incoming frames.
    pub frames: bool,
    /// Set to wait for room for outgoing frames.
    pub room: bool,
    /// Time limit, in nanoseconds of the monotonic clock.
    pub until: Option<u64>,
}

/// The events that a watcher has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Set if the device may have changed.
    pub news: bool,
}

/// Wakes a watcher. A kick before the sleep is remembered.
#[derive(Debug)]
pub struct Kick(Fd);

impl Kick {
    /// # Errors
    /// Returns the kernel's error if no descriptor is left.
    pub fn new() -> sovia_sys::Result<Kick> {
        Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)).map(Kick)
    }

    /// Wakes the watcher, or prevents its next sleep.
    pub fn give(&self) {
        // The write fails only if 2^64 kicks are remembered.
        let _ = call::write(self.0.raw(), &1u64.to_ne_bytes());
    }

    /// Returns the descriptor that is readable while a kick is remembered, for a watcher that sleeps in its own call.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Forgets all kicks.
    pub fn forget(&self) {
        let _ = call::read(self.0.raw(), &mut [0; 8]);
    }

    /// Sleeps until an event of `terms` or a kick. Then forgets the kick.
    pub fn sleep(&self, terms: &Terms) -> Found {
        let entry = |fd: RawFd, events| poll::PollFd { fd, events, revents: 0 };
        // The kernel ignores entries with a negative descriptor.
        let frames = if terms.frames { terms.descriptors.frames } else { -1 };
        let room = if terms.room { terms.descriptors.room } else { -1 };
        let news = terms.descriptors.news.unwrap_or(-1);
        let mut fds = [
            entry(frames, libc::POLLIN),
            entry(self.0.raw(), libc::POLLIN),
            entry(news, libc::POLLIN),
            entry(room, libc::POLLOUT),
        ];
        let timeout = terms.until.map(|until| until.saturating_sub(clock::now_ns()));
        // The caller looks for events itself, whatever ends the sleep.
        let _ = poll::ppoll(&mut fds, timeout, None);
        if fds[1].revents != 0 {
            self.forget();
        }
        Found { news: fds[2].revents != 0 }
    }
}

/// A futex word on which the NIC's own thread sleeps while other threads drive the NIC.
#[derive(Debug, Default)]
pub struct Bell(AtomicU32);

impl Bell {
    /// Returns the current value, for a later [`Bell::sleep`].
    pub fn heard(&self) -> u32 {
        // SYNC: pairs with the Release in `ring`. The reader holds the lock under which the ringing thread changed the
        // state.
        self.0.load(Ordering::Acquire)
    }

    /// Wakes the sleeper.
    pub fn ring(&self) {
        // SYNC: pairs with the Acquire load in `heard`. The sleeper takes the lock before it reads any state, and the
        // word only ends its sleep.
        self.0.fetch_add(1, Ordering::Release);
        futex::wake(&self.0, 1);
    }

    /// Sleeps until a ring, unless the word has changed since `heard`.
    pub fn sleep(&self, heard: u32, timeout_ns: Option<u64>) {
        let _ = futex::wait(&self.0, heard, timeout_ns);
    }
}
