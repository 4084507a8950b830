//! The thread that watches over a process's links.
//!
//! It sleeps until a peer's process ends, and tells the VIs of that link. While sends wait for
//! room, it also looks after them now and then, so that they go out even if their program makes
//! no further call; a process without such sends is never woken.

use crate::connect::link::Link;
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{Fd, call, process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// How often waiting sends are looked after: at first, and at most this much later each time
/// that nothing has moved (nanoseconds).
const TICK_FIRST: u64 = 1_000_000;
const TICK_LAST: u64 = 16_000_000;

/// A send queue that waits for room.
pub(crate) trait Waiting: Send + Sync {
    /// Sends what can be sent now.
    fn progress(&self) -> Progress;
}

/// What a look after a send queue has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing waits any more.
    Finished,
    /// Something was sent, something still waits.
    Moved,
    /// There is still no room.
    Stuck,
}

#[derive(Default)]
struct Charges {
    links: Vec<Arc<Link>>,
    waiting: Vec<Weak<dyn Waiting>>,
}

struct Shared {
    charges: Mutex<Charges>,
    /// Wakes the thread when its charges change.
    wake: Fd,
    stop: AtomicBool,
}

/// The thread, which ends when this is dropped.
pub(crate) struct Watch(Arc<Shared>);

impl core::fmt::Debug for Watch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Shared {
    fn charges(&self) -> MutexGuard<'_, Charges> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nudge(&self) {
        let _ = call::write(self.wake.raw(), &1u64.to_ne_bytes());
    }
}

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// What the system says where it has no more descriptors or threads.
    pub(crate) fn start() -> std::io::Result<Watch> {
        let wake = call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)
            .map_err(|e| std::io::Error::from_raw_os_error(e.into_raw()))?;
        let shared = Arc::new(Shared {
            charges: Mutex::default(),
            wake: Fd::adopt(wake),
            stop: AtomicBool::new(false),
        });
        let for_thread = shared.clone();
        process::without_signals(|| {
            thread::Builder::new().name("via-shm".into()).spawn(move || run(&for_thread))
        })?;
        Ok(Watch(shared))
    }

    /// The links that are alive.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.0.charges().links.iter().filter(|link| !link.is_dead()).cloned().collect()
    }

    /// Keeps a link, and watches its peer.
    pub(crate) fn keep(&self, link: Arc<Link>) {
        let mut charges = self.0.charges();
        charges.links.retain(|link| !link.is_over());
        charges.links.push(link);
        drop(charges);
        self.0.nudge();
    }

    /// Forgets a link that the peer no longer knows; its VIs, if any, are broken.
    pub(crate) fn forget(&self, link: &Arc<Link>) {
        link.died();
        self.0.charges().links.retain(|other| !Arc::ptr_eq(other, link));
        self.0.nudge();
    }

    /// Looks after a send queue until nothing waits in it.
    pub(crate) fn look_after(&self, queue: Weak<dyn Waiting>) {
        self.0.charges().waiting.push(queue);
        self.0.nudge();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.nudge();
    }
}

fn run(shared: &Shared) {
    let mut tick = None;
    let mut fds = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let links = shared.charges().links.clone();
        fds.clear();
        fds.push(PollFd { fd: shared.wake.raw(), events: libc::POLLIN, revents: 0 });
        for link in &links {
            // A negative number is skipped. The socket is watched for its end only: what it
            // carries is for others.
            let socket = link.socket.as_ref().map_or(-1, |socket| socket.raw());
            let process = link.process.as_ref().map_or(-1, Fd::raw);
            fds.push(PollFd { fd: socket, events: 0, revents: 0 });
            fds.push(PollFd { fd: process, events: libc::POLLIN, revents: 0 });
        }
        let _ = ppoll(&mut fds, tick, None);
        if fds[0].revents != 0 {
            let _ = call::read(shared.wake.raw(), &mut [0; 8]);
        }
        for (link, seen) in links.iter().zip(fds[1..].chunks_exact(2)) {
            if seen.iter().any(|fd| fd.revents != 0) {
                link.died();
            }
        }
        shared.charges().links.retain(|link| !link.is_over());
        tick = look_after(shared, tick);
    }
}

/// Looks after the waiting sends; how long until the next look.
fn look_after(shared: &Shared, tick: Option<u64>) -> Option<u64> {
    // Not under the lock: a queue that is looked after may have itself noted again.
    let mut waiting = core::mem::take(&mut shared.charges().waiting);
    let mut moved = tick.is_none();
    waiting.retain(|queue| {
        let progress = queue.upgrade().map_or(Progress::Finished, |queue| queue.progress());
        moved |= progress == Progress::Moved;
        progress != Progress::Finished
    });
    let mut charges = shared.charges();
    charges.waiting.append(&mut waiting);
    if charges.waiting.is_empty() {
        return None;
    }
    let next = tick.map_or(TICK_FIRST, |t| (t * 2).min(TICK_LAST));
    Some(if moved { TICK_FIRST } else { next })
}
