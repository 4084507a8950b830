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
}

per_engine! {
    static QUEUE: RobustBox<Queue, { rank::CLOSING }> =
        RobustBox::new(Queue { waiting: Vec::new(), owner: 0 });
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
        if self.owner != pid && thread::start(run, core::ptr::null_mut(), Ends::ByItself) {
            self.owner = pid;
        }
    }
}

extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    while let Some(fd) = QUEUE.with(|queue| {
        let next = queue.waiting.pop();
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
