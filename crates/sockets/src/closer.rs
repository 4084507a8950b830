//! Closes descriptors that unknown processes have sent.
//!
//! Any process may send descriptors to the rendezvous socket. The close of a descriptor may take as long as the
//! sender likes, if a socket lingers or a file's server does not answer. So a separate thread closes these
//! descriptors, and the program does not wait. The thread exists only while there are descriptors to close.

use crate::per_engine::per_engine;
use crate::thread::{self, Ends};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call};

/// Number of waiting descriptors at which the rendezvous socket stops receiving messages.
const MOST: usize = 64;

struct Queue {
    waiting: Vec<Fd>,
    /// Process in which the closer's thread runs; 0: none.
    owner: i32,
    /// Process in which the closer's thread must not run; 0: none.
    paused: i32,
}

per_engine! {
    static QUEUE: RobustBox<Queue, { rank::CLOSING }> =
        RobustBox::new(Queue { waiting: Vec::new(), owner: 0, paused: 0 });
}

/// Makes the closer's thread close descriptors of unknown processes from now on.
pub(crate) fn start() {
    sovia_sys::fd::dispose_by(close);
}

fn close(fd: Fd) {
    QUEUE.with(|queue| {
        queue.waiting.push(fd);
        queue.work();
    });
}

/// Returns true if so many descriptors wait for their close that no more may be received.
pub(crate) fn is_busy() -> bool {
    QUEUE.with(|queue| {
        if !queue.waiting.is_empty() {
            queue.work();
        }
        queue.waiting.len() >= MOST
    })
}

/// Stops the closer's thread from closing further descriptors, and from being started, until [`go_on`].
pub(crate) fn pause() {
    QUEUE.with(|queue| queue.paused = call::getpid());
}

/// Ends a [`pause`], and starts the thread if descriptors wait.
pub(crate) fn go_on() {
    QUEUE.with(|queue| {
        queue.paused = 0;
        if !queue.waiting.is_empty() {
            queue.work();
        }
    });
}

/// Takes the queue's lock before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    QUEUE.hold();
}

/// Releases the queue's lock after a fork, in parent and child.
pub(crate) fn release() {
    QUEUE.release();
}

impl Queue {
    /// Starts the thread unless it runs in this process or is paused. If no thread can be started, the descriptors
    /// stay in the queue.
    fn work(&mut self) {
        // Compare process ids, because a forked child does not have the parent's thread.
        let pid = call::getpid();
        if self.owner != pid
            && self.paused != pid
            && thread::start(run, core::ptr::null_mut(), Ends::ByItself)
        {
            self.owner = pid;
        }
    }
}

extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    while let Some(fd) = QUEUE.with(|queue| {
        let is_paused = queue.paused == call::getpid();
        let next = if is_paused { None } else { queue.waiting.pop() };
        if next.is_none() {
            queue.owner = 0;
        }
        next
    }) {
        // Switch lingering off. If this is the socket's last descriptor, no other process can make the close linger
        // any more.
        let off = [0i32, 0];
        let _ = call::setsockopt(fd.raw(), libc::SOL_SOCKET, libc::SO_LINGER, &off);
        drop(fd);
    }
    core::ptr::null_mut()
}
