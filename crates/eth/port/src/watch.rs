//! Sleeping on the port's descriptors, and waking a thread that sleeps.

use crate::Descriptors;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Fd, clock, futex, poll};

/// What a watcher waits for.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The port's.
    pub descriptors: Descriptors,
    /// Frames that have come.
    pub frames: bool,
    /// Room for frames that are to go.
    pub room: bool,
    /// When to stop, in nanoseconds of the monotonic clock.
    pub until: Option<u64>,
}

/// What a watcher has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The device may have changed.
    pub news: bool,
}

/// Wakes a watcher. It remembers a kick that comes before the watcher sleeps.
#[derive(Debug)]
pub struct Kick(Fd);

impl Kick {
    /// # Errors
    /// The kernel's, where there are no descriptors.
    pub fn new() -> sovia_sys::Result<Kick> {
        Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)).map(Kick)
    }

    /// Wakes the watcher, or keeps it from sleeping.
    pub fn give(&self) {
        // It fails only where 2^64 kicks are remembered already.
        let _ = call::write(self.0.raw(), &1u64.to_ne_bytes());
    }

    /// The descriptor that is readable while a kick is remembered, for a watcher that sleeps by a call of its own.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Forgets a kick.
    pub fn forget(&self) {
        let _ = call::read(self.0.raw(), &mut [0; 8]);
    }

    /// Sleeps until there is what the terms say, or a kick, which is forgotten then.
    pub fn sleep(&self, terms: &Terms) -> Found {
        let entry = |fd: RawFd, events| poll::PollFd { fd, events, revents: 0 };
        // The kernel leaves out an entry without a descriptor.
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
        // Whatever ends it, the caller looks for itself.
        let _ = poll::ppoll(&mut fds, timeout, None);
        if fds[1].revents != 0 {
            self.forget();
        }
        Found { news: fds[2].revents != 0 }
    }
}

/// A word that the NIC's own thread sleeps on while other threads drive.
#[derive(Debug, Default)]
pub struct Bell(AtomicU32);

impl Bell {
    /// What it is now, to be slept on.
    pub fn heard(&self) -> u32 {
        // SYNC: read under the lock under which the ringing thread has changed what the sleeper looks at.
        self.0.load(Ordering::Acquire)
    }

    /// Wakes the sleeper.
    pub fn ring(&self) {
        // SYNC: the sleeper takes the lock afterwards; the word only keeps it from sleeping on.
        self.0.fetch_add(1, Ordering::Release);
        futex::wake(&self.0, 1);
    }

    /// Sleeps until it rings, unless it has since `heard`.
    pub fn sleep(&self, heard: u32, timeout_ns: Option<u64>) {
        let _ = futex::wait(&self.0, heard, timeout_ns);
    }
}
