//! Closes what strangers have sent.
//!
//! Any process may send descriptors to the meeting point, and closing one may take as long as its sender
//! likes: a socket lingers, a file's server does not answer. A thread of its own, there only while
//! there is something to close, waits for that instead of the program.

use crate::per_engine::per_engine;
use crate::thread::{self, Ends};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call};

/// With so many descriptors to be closed, no more messages are received at the meeting point.
const MOST: usize = 64;

struct Queue {
    waiting: Vec<Fd>,
    /// The process whose thread is at work; 0 for none.
    owner: i32,
    /// The process that does without the thread; 0 for none.
    paused: i32,
}

per_engine! {
    static QUEUE: RobustBox<Queue, { rank::CLOSING }> =
        RobustBox::new(Queue { waiting: Vec::new(), owner: 0, paused: 0 });
}

/// From here on, what strangers have sent is closed by the thread.
pub(crate) fn start() {
    sovia_sys::fd::dispose_by(close);
}

fn close(fd: Fd) {
    QUEUE.with(|queue| {
        queue.waiting.push(fd);
        queue.work();
    });
}

/// Whether there is so much to close already that no more must be taken in.
pub(crate) fn is_busy() -> bool {
    QUEUE.with(|queue| {
        if !queue.waiting.is_empty() {
            queue.work();
        }
        queue.waiting.len() >= MOST
    })
}

/// The thread begins with nothing more, and is not started, until [`go_on`].
pub(crate) fn pause() {
    QUEUE.with(|queue| queue.paused = call::getpid());
}

/// After [`pause`].
pub(crate) fn go_on() {
    QUEUE.with(|queue| {
        queue.paused = 0;
        if !queue.waiting.is_empty() {
            queue.work();
        }
    });
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    QUEUE.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    QUEUE.release();
}

impl Queue {
    /// Has a thread at work. If none can be had, what waits goes on waiting.
    fn work(&mut self) {
        // The thread of a forked child's parent has stayed there.
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
        // If this is its last descriptor, no other process can have it linger any more.
        let off = [0i32, 0];
        let _ = call::setsockopt(fd.raw(), libc::SOL_SOCKET, libc::SO_LINGER, &off);
        drop(fd);
    }
    core::ptr::null_mut()
}
